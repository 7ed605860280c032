//! Problems with the content of a chart, and its limits.

use std::io;

/// The maximum number of files of a chart. The largest chart of OpenStack-Helm has under 200, with its library.
pub(crate) const MAX_ENTRIES: usize = 10_000;
/// The maximum size of a file in bytes, which was helm's own limit (`MaxDecompressedFileSize`).
pub(crate) const MAX_FILE_SIZE: u64 = 5 << 20;
/// The maximum size of an unpacked chart in bytes.
///
/// helm allows 100 MiB, but a release record (with the compressed chart) must fit into a Secret of 1 MiB anyway, and
/// the chart is held in memory.
pub(crate) const MAX_CHART_SIZE: u64 = 20 << 20;

/// Why a chart's archive or directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartProblem {
    /// The file is truncated, not gzip, or has invalid tar headers.
    #[error("it is not a complete gzip-compressed tar archive ({0})")]
    Broken(String),
    /// The path of an entry points outside of the chart, or may do so on some system.
    #[error("entry {path:?} {why}; all entries must be below one folder with the chart's name")]
    Path {
        /// The path as the archive has it.
        path: String,
        /// What is wrong with the path, as the end of a clause.
        why: &'static str,
    },
    /// The path of an entry is not UTF-8. The field contains it in readable form.
    #[error("entry {0:?} is not named in UTF-8")]
    NotUnicode(String),
    /// An entry is neither a file nor a folder, but a link, a device or a sparse file.
    #[error("entry {path:?} is {what}; only files and folders are accepted")]
    NotAFile {
        /// The path of the file or folder.
        path: String,
        /// The kind of the entry.
        what: &'static str,
    },
    /// The same path exists twice, so that it is not defined which content the file has.
    #[error("{path:?} exists twice")]
    Duplicate {
        /// The path below the chart's folder.
        path: String,
    },
    /// The archive has two top folders.
    #[error("it has two top folders, {first:?} and {second:?}, where one chart has one")]
    TwoFolders {
        /// The name of one top folder.
        first: String,
        /// The name of another top folder.
        second: String,
    },
    /// A file is larger than `MAX_FILE_SIZE`.
    #[error("{path:?} is larger than {} MiB", MAX_FILE_SIZE >> 20)]
    FileTooLarge {
        /// The path of the file or folder.
        path: String,
    },
    /// The chart is larger than `MAX_CHART_SIZE`.
    #[error("it unpacks to more than {} MiB", MAX_CHART_SIZE >> 20)]
    TooLarge,
    /// The archive or directory has more than `MAX_ENTRIES` entries.
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// Charts are nested too deeply.
    #[error("{path:?}: charts are nested too deeply (more than {most} levels)")]
    TooDeep {
        /// The innermost archive.
        path: String,
        /// The maximum number of levels.
        most: usize,
    },
    /// An archive in `charts/` has a problem.
    #[error("{path:?}, a chart within it: {problem}")]
    Dependency {
        /// The inner archive.
        path: String,
        /// The problem of the inner archive.
        problem: Box<ChartProblem>,
    },
    /// The chart has no `Chart.yaml` at its top.
    #[error("it has no Chart.yaml at its top")]
    NoChartYaml,
    /// A `Chart.yaml` or `values.yaml` cannot be parsed. Contains the parser's message, with file, line and column.
    #[error("{0}")]
    Yaml(String),
    /// `Chart.yaml` names another chart.
    #[error("its Chart.yaml says it is chart {found:?}, not {expected:?}")]
    OtherName {
        /// The expected name.
        expected: String,
        /// The actual name.
        found: String,
    },
    /// `Chart.yaml` has another version than the file's name or the request.
    #[error("its Chart.yaml says version {found}, not {expected}")]
    OtherVersion {
        /// The expected version.
        expected: String,
        /// The actual version.
        found: String,
    },
    /// The name or version in `Chart.yaml` is invalid.
    #[error("its Chart.yaml has {field} {value:?}, which {why}")]
    Metadata {
        /// The field of `Chart.yaml`.
        field: &'static str,
        /// The value of the field.
        value: String,
        /// What is wrong with the value, as the end of a clause.
        why: &'static str,
    },
    /// A dependency is neither in `charts/` nor in a `file://` repository.
    #[error(
        "its dependency {name:?} (repository {repository:?}) is not in its charts/ folder; run `helm dependency update` on it first"
    )]
    NoDependency {
        /// The name of the dependency.
        name: String,
        /// The repository in `Chart.yaml`.
        repository: String,
    },
    /// A `file://` dependency or a symbolic link points outside of the folder.
    #[error("{path:?} is outside of {root:?}; only files inside that folder are read")]
    Outside {
        /// The link or the dependency's path.
        path: String,
        /// The folder outside of which nothing is read.
        root: String,
    },
    /// Directories or dependencies form a cycle.
    #[error("{path:?} is part of a cycle")]
    Cycle {
        /// The path of the directory that contains itself or depends on itself.
        path: String,
    },
    /// `.helmignore` contains a rule that helm refuses, too.
    #[error(".helmignore line {line}: {rule:?} is not a valid rule for helm: {why}")]
    Ignore {
        /// The number of the rule's line, starting at 1.
        line: usize,
        /// The rule as `.helmignore` contains it.
        rule: String,
        /// What is wrong with the rule.
        why: &'static str,
    },
    /// A file of the chart cannot be read.
    #[error("{path:?} cannot be read: {why}")]
    Io {
        /// The path of the file.
        path: String,
        /// The system's error message.
        why: String,
    },
}

impl ChartProblem {
    /// Returns the problem for a failed read of `path`: the `ChartProblem` that the [`io::Error`] wraps, else
    /// [`Self::Io`].
    pub(super) fn io(path: &str, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(problem) => problem.clone(),
            None => Self::Io { path: path.to_owned(), why: error.to_string() },
        }
    }

    /// Returns the problem for a failed read of an archive: the `ChartProblem` that the [`io::Error`] wraps, else
    /// [`Self::Broken`].
    pub(super) fn broken(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(problem) => problem.clone(),
            None => Self::Broken(error.to_string()),
        }
    }
}

impl From<ChartProblem> for io::Error {
    fn from(problem: ChartProblem) -> Self {
        Self::other(problem)
    }
}
