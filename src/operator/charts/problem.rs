//! The problems with the content of a chart, and the limits of a chart's size.

use std::io;

/// The maximum number of entries in an archive, and of files in a chart. The largest chart of OpenStack-Helm has under
/// 200 files, including the library chart in its `charts/`.
pub(crate) const MAX_ENTRIES: usize = 10_000;
/// The maximum size of a file of a chart in bytes: helm's own limit (`MaxDecompressedFileSize` in the package
/// `pkg/chart/loader/archive`).
pub(crate) const MAX_FILE_SIZE: u64 = 5 << 20;
/// The maximum size of an unpacked chart in bytes.
///
/// The limit is lower than helm's limit of 100 MiB, because osdpl keeps the content of the chart in memory. helm could
/// not install a much larger chart anyway: the release record, which contains the compressed chart, must fit into a
/// Secret of 1 MiB.
pub(crate) const MAX_CHART_SIZE: u64 = 20 << 20;

/// Why a chart's archive or directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartProblem {
    /// The archive is truncated or damaged, is not compressed with gzip, or has invalid tar headers.
    #[error("it is not a complete gzip-compressed tar archive ({0})")]
    Broken(String),
    /// osdpl refuses the path of an entry: the entry is not below the top folder of the archive, or would not be below
    /// it on another operating system.
    #[error(
        "entry {path:?} {why}; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character"
    )]
    Path {
        /// The path of the entry, as the archive contains it, or relative to the chart directory.
        path: String,
        /// The problem with the path, such as `has an absolute path`.
        why: &'static str,
    },
    /// The path of an entry is not UTF-8. The field contains the path with U+FFFD in place of each invalid part.
    #[error("the path of entry {0:?} is not UTF-8")]
    NotUnicode(String),
    /// An entry of the archive or directory is neither a regular file nor a folder, but for example a link, a device or
    /// a sparse file. Or a chart archive or a `Chart.yaml` is not a regular file.
    #[error("entry {path:?} is {what}; a chart may contain only regular files and folders")]
    NotAFile {
        /// The path of the entry.
        path: String,
        /// The kind of the entry, such as `a symbolic link`.
        what: &'static str,
    },
    /// The chart contains two files with the same path, so it is unclear which content helm would use.
    #[error("{path:?} exists twice")]
    Duplicate {
        /// The path of the file, below the chart's folder.
        path: String,
    },
    /// The archive has two entries at its top level, but a chart is one folder.
    #[error("it has two top-level entries, {first:?} and {second:?}; an archive must contain one chart in one folder")]
    TwoFolders {
        /// The name of the first top-level entry.
        first: String,
        /// The name of another top-level entry: a folder or a file.
        second: String,
    },
    /// A file of the chart is larger than `MAX_FILE_SIZE`.
    #[error("{path:?} is larger than {} MiB, helm's limit for a file", MAX_FILE_SIZE >> 20)]
    FileTooLarge {
        /// The path of the file.
        path: String,
    },
    /// The chart is larger than `MAX_CHART_SIZE`.
    #[error("it unpacks to more than {} MiB", MAX_CHART_SIZE >> 20)]
    TooLarge,
    /// The archive or directory has more than `MAX_ENTRIES` entries.
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// The archives of the chart's dependencies contain archives of further dependencies, on more than `most` levels.
    #[error("{path:?}: charts are nested too deeply (more than {most} levels)")]
    TooDeep {
        /// The path of the first archive that is nested too deeply.
        path: String,
        /// The maximum number of levels.
        most: usize,
    },
    /// A dependency of the chart cannot be used.
    #[error("its dependency {path:?} is not usable: {problem}")]
    Dependency {
        /// The path of the dependency's archive in `charts/`, or the address of the dependency's repository.
        path: String,
        /// The problem with the content of the dependency.
        problem: Box<ChartProblem>,
    },
    /// The chart has no `Chart.yaml` at its top.
    #[error("it has no Chart.yaml at its top")]
    NoChartYaml,
    /// osdpl can't read a `Chart.yaml`, a `values.yaml` or a CRD: the file is not UTF-8, or the parser rejects it. The
    /// field contains the message with the name of the file. A message of the parser also has the line and the column.
    #[error("{0}")]
    Yaml(String),
    /// The name in `Chart.yaml` differs from the expected name, which comes from the file name, from the request, or
    /// from an entry under `dependencies`.
    #[error("its Chart.yaml says it is chart {found:?}, not {expected:?}")]
    OtherName {
        /// The expected name of the chart.
        expected: String,
        /// The name of the chart in `Chart.yaml`.
        found: String,
    },
    /// The version in `Chart.yaml` differs from the expected version, which comes from the file name or from the
    /// request.
    #[error("its Chart.yaml says version {found}, not {expected}")]
    OtherVersion {
        /// The expected version of the chart.
        expected: String,
        /// The version of the chart in `Chart.yaml`.
        found: String,
    },
    /// The name or version in `Chart.yaml` is invalid.
    #[error("its Chart.yaml has {field} {value:?}, which {why}")]
    Metadata {
        /// The invalid field of `Chart.yaml`: `name` or `version`.
        field: &'static str,
        /// The value of the field.
        value: String,
        /// The problem with the value, such as `is not a chart name`.
        why: &'static str,
    },
    /// A dependency is neither in `charts/` nor in a `file://` repository.
    #[error(
        "its dependency {name:?} (repository {repository:?}) is not in its charts/ folder; run `helm dependency update` in the folder of the chart"
    )]
    NoDependency {
        /// The name of the dependency.
        name: String,
        /// The repository of the dependency, as `Chart.yaml` contains it.
        repository: String,
    },
    /// A `file://` dependency or a symbolic link points outside of the folder of charts.
    #[error("{path:?} is outside of {root:?}; osdpl reads only files inside that folder")]
    Outside {
        /// The path of the link or of the dependency.
        path: String,
        /// The folder of charts. osdpl reads no file outside of it.
        root: String,
    },
    /// A directory contains itself through symbolic links, or a chart depends on itself, directly or through other
    /// charts. osdpl would never finish reading such a chart.
    #[error("{path:?} is part of a cycle of symbolic links or dependencies")]
    Cycle {
        /// The path of the directory that contains itself, or of the chart that depends on itself.
        path: String,
    },
    /// `.helmignore` contains an invalid rule, which helm refuses as well.
    #[error(".helmignore line {line}: {rule:?} is not a valid rule for helm: {why}")]
    Ignore {
        /// The number of the rule's line in the file, starting at 1.
        line: usize,
        /// The rule as `.helmignore` contains it.
        rule: String,
        /// The problem with the rule.
        why: &'static str,
    },
    /// A file of the chart cannot be read.
    #[error("{path:?} cannot be read: {why}")]
    Io {
        /// The path of the file or folder.
        path: String,
        /// The system's error message.
        why: String,
    },
}

impl ChartProblem {
    /// Converts an I/O error that a read of `path` returned. If the error wraps a `ChartProblem`, as the errors of
    /// osdpl's own readers do, returns this problem. Otherwise returns [`Self::Io`].
    pub(super) fn io(path: &str, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(problem) => problem.clone(),
            None => Self::Io { path: path.to_owned(), why: error.to_string() },
        }
    }

    /// Converts an I/O error that a read of an archive returned. If the error wraps a `ChartProblem`, as the errors of
    /// osdpl's own readers do, returns this problem. Otherwise returns [`Self::Broken`].
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
