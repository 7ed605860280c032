//! What can be wrong with the content of a chart.

use std::io;

use super::contents::{LARGEST_CHART, LARGEST_FILE, MOST_ENTRIES};

/// Why a chart's archive or directory is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file ends early, is no gzip, or its tar headers make no sense.
    #[error("it is no whole gzip-compressed tar archive ({0})")]
    Broken(String),
    /// A path that leads out of the chart, or could.
    #[error("entry {path:?} {why}; every entry must lie below one folder that bears the chart's name")]
    Path {
        /// The path as the archive has it.
        path: String,
        /// What about it.
        why: &'static str,
    },
    /// A path that is not UTF-8.
    #[error("entry {0:?} is not named in UTF-8")]
    NotUnicode(String),
    /// Neither a file nor a folder: a link, a device, a sparse file.
    #[error("entry {path:?} is {what}; only files and folders are accepted")]
    NotAFile {
        /// The path.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// The same path twice: which one counts would be anyone's guess.
    #[error("{path:?} is there twice")]
    Duplicate {
        /// The path below the chart's folder.
        path: String,
    },
    /// Two top folders.
    #[error("it has two top folders, {first:?} and {second:?}, where one chart has one")]
    TwoFolders {
        /// The one that came first.
        first: String,
        /// The other.
        second: String,
    },
    /// A file beyond [`LARGEST_FILE`].
    #[error("{path:?} is larger than {} MiB", LARGEST_FILE >> 20)]
    FileTooLarge {
        /// The path.
        path: String,
    },
    /// More than [`LARGEST_CHART`] in all.
    #[error("it unpacks to more than {} MiB", LARGEST_CHART >> 20)]
    TooLarge,
    /// More than [`MOST_ENTRIES`] files.
    #[error("it has more than {MOST_ENTRIES} entries")]
    TooManyEntries,
    /// Charts within charts within charts.
    #[error("{path:?}: charts are packed into one another too deeply (more than {most} levels)")]
    TooDeep {
        /// The innermost archive.
        path: String,
        /// How many levels are accepted.
        most: usize,
    },
    /// An archive in `charts/` has a problem of its own.
    #[error("{path:?}, a chart within it: {problem}")]
    Within {
        /// The inner archive.
        path: String,
        /// What is wrong with it.
        problem: Box<Problem>,
    },
    /// No `Chart.yaml`.
    #[error("it has no Chart.yaml at its top")]
    NoChartYaml,
    /// A `Chart.yaml` or `values.yaml` that cannot be parsed: the parser's words, with file, line and column.
    #[error("{0}")]
    Yaml(String),
    /// `Chart.yaml` names another chart.
    #[error("its Chart.yaml says it is chart {found:?}, not {expected:?}")]
    OtherName {
        /// What was asked for.
        expected: String,
        /// What it says.
        found: String,
    },
    /// `Chart.yaml` has another version than the file's name or the request.
    #[error("its Chart.yaml says version {found}, not {expected}")]
    OtherVersion {
        /// What was asked for.
        expected: String,
        /// What it says.
        found: String,
    },
    /// A name that is not a chart's name.
    #[error("its Chart.yaml has {field} {value:?}, which {why}")]
    Metadata {
        /// The field of `Chart.yaml`.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A dependency that is neither in `charts/` nor a `file://` neighbour.
    #[error(
        "its dependency {name:?} (repository {repository:?}) is not in its charts/ folder; run `helm dependency update` on it first"
    )]
    NoDependency {
        /// The dependency.
        name: String,
        /// Where `Chart.yaml` says it comes from.
        repository: String,
    },
    /// A `file://` dependency or a symbolic link that leads out of the folder.
    #[error("{path:?} leads out of {root:?}; only what lies inside that folder is read")]
    Outside {
        /// The link or the dependency's path.
        path: String,
        /// The folder the user gave.
        root: String,
    },
    /// Directories or dependencies that contain themselves.
    #[error("{path:?} leads back to itself")]
    Circle {
        /// Where it was noticed.
        path: String,
    },
    /// A rule in `.helmignore` that helm refuses as well.
    #[error(".helmignore line {line}: {rule:?} is not a rule helm understands: {why}")]
    Ignore {
        /// The line, from 1.
        line: usize,
        /// The rule.
        rule: String,
        /// Why.
        why: &'static str,
    },
    /// Reading failed.
    #[error("{path:?} cannot be read: {why}")]
    Io {
        /// The file.
        path: String,
        /// The system's words.
        why: String,
    },
}

impl Problem {
    /// A failed read of `path`, which may be one of our own bounds reporting through [`io::Error`].
    pub(super) fn io(path: &str, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(problem) => problem.clone(),
            None => Self::Io { path: path.to_owned(), why: error.to_string() },
        }
    }

    /// The same for an archive, where a failed read means that the archive is damaged.
    pub(super) fn broken(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(problem) => problem.clone(),
            None => Self::Broken(error.to_string()),
        }
    }
}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> Self {
        Self::other(problem)
    }
}
