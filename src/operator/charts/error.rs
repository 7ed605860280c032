//! Why a chart is not at hand, in words that end with what to do.

use std::io;
use std::path::Path;

use super::digest::Digest;
use super::problem::Problem;
use super::source::NoSource;

/// Why one chart cannot be had. It concerns the releases of that chart only; the others go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The folder or repository does not have the chart at all.
    #[error("chart {name} is not in {place}{looked_for}; add it there, or name a folder or repository that has it")]
    Missing {
        /// The chart.
        name: String,
        /// The folder or repository.
        place: String,
        /// Under which names, with a colon before; empty for a repository.
        looked_for: String,
    },
    /// It has the chart, not the version.
    #[error("chart {name} {version} is not in {place}: {found}; ask for a version that is there, or add this one")]
    VersionMissing {
        /// The chart.
        name: String,
        /// What was asked for.
        version: String,
        /// The folder or repository.
        place: String,
        /// What is known instead.
        found: String,
    },
    /// More than one candidate and nothing that says which.
    #[error(
        "chart {name} is in {place} more than once: {candidates}; remove all but one, name a version, or pin one with `osdpl charts lock`"
    )]
    Ambiguous {
        /// The chart.
        name: String,
        /// The folder.
        place: String,
        /// The candidates with their versions.
        candidates: String,
    },
    /// A repository's chart without a version: "the newest" would change running clouds by itself.
    #[error(
        "chart {name} from {place} has no version: the lock does not pin it; set its version, or pin it with `osdpl charts lock --charts {place} {name}`"
    )]
    NotPinned {
        /// The chart.
        name: String,
        /// The repository.
        place: String,
    },
    /// The content is not the one the lock, or the first pull, names.
    #[error(transparent)]
    DigestMismatch(Box<Mismatch>),
    /// An archive or directory that is damaged, malicious or no chart.
    #[error(
        "chart {name} at {place} is not usable: {problem}; package or pull it anew, and do not install it when you do not know who made it"
    )]
    Unreadable {
        /// The chart.
        name: String,
        /// The file, folder or address.
        place: String,
        /// What is wrong.
        problem: Problem,
    },
    /// The folder of charts cannot be read.
    #[error(
        "the chart folder {folder} cannot be read: {why}; name a folder of chart archives or chart directories that osdpl may read"
    )]
    FolderUnreadable {
        /// The folder.
        folder: String,
        /// The system's words.
        why: String,
    },
    /// The network, or what is at its other end.
    #[error(
        "chart {name} {version} cannot be pulled from {repository}: {why}; check address, network and proxy, or use a folder filled with `osdpl charts pull` (tried again by itself)"
    )]
    RepositoryUnreachable {
        /// The chart.
        name: String,
        /// The version.
        version: String,
        /// The repository.
        repository: String,
        /// helm's last words.
        why: String,
    },
    /// The repository answers, and wants credentials.
    #[error(
        "chart {name} {version} cannot be pulled from {repository}: it refuses access ({why}); pull the charts into a folder where you are logged in (`osdpl charts pull`) and use that folder"
    )]
    RepositoryForbidden {
        /// The chart.
        name: String,
        /// The version.
        version: String,
        /// The repository.
        repository: String,
        /// helm's last words.
        why: String,
    },
    /// No room for the chart.
    #[error(
        "no room left in the chart cache {path}; free some space there or give the cache another folder (tried again by itself)"
    )]
    CacheFull {
        /// The cache's folder.
        path: String,
    },
    /// The cache cannot be written or read.
    #[error("the chart cache {path} cannot be used: {why}; give osdpl a folder it may read and write")]
    CacheUnwritable {
        /// The file or folder.
        path: String,
        /// The system's words.
        why: String,
    },
    /// The record of a first pull is damaged: without it a changed chart would pass unnoticed.
    #[error(
        "the record of the first pull of chart {name} in {path} is damaged: {why}; remove that file to trust the next pull anew"
    )]
    RecordDamaged {
        /// The chart.
        name: String,
        /// The record.
        path: String,
        /// The parser's words.
        why: String,
    },
    /// The helm program does not run.
    #[error("chart {name} cannot be pulled: {why}; install helm 3.17 or newer, or helm 4, or use a folder of charts")]
    HelmUnusable {
        /// The chart.
        name: String,
        /// Why it does not run.
        why: String,
    },
    /// The reading was cut short: osdpl is shutting down, or has a defect.
    #[error(
        "reading chart {name} was cut short; it is tried again by itself, and the log tells more if osdpl is not just stopping"
    )]
    Interrupted {
        /// The chart.
        name: String,
    },
    /// The deployment names a repository that cannot be one.
    #[error(transparent)]
    Source(#[from] NoSource),
    /// A name or version asked for that could not be one.
    #[error("{text:?} is no {what}; correct it where the release or the catalogue names it")]
    NotAName {
        /// What was asked for.
        text: String,
        /// `chart name` or `chart version`.
        what: &'static str,
    },
}

/// A chart whose content changed while its version did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chart {name} {version} from {place} has digest {found}, but {expected_by} {expected}: \
     its content changed under the same version; {remedy}"
)]
pub struct Mismatch {
    /// The chart.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The folder or repository.
    pub place: String,
    /// Who expected what: `the lock has`.
    pub expected_by: &'static str,
    /// The digest expected.
    pub expected: Digest,
    /// The digest found.
    pub found: Digest,
    /// What to do.
    pub remedy: String,
}

impl Error {
    /// The reason of the release's condition: one of a closed set of `CamelCase` words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "ChartMissing",
            Self::VersionMissing { .. } => "ChartVersionMissing",
            Self::Ambiguous { .. } => "ChartAmbiguous",
            Self::NotPinned { .. } => "ChartNotPinned",
            Self::DigestMismatch(_) => "ChartDigestMismatch",
            Self::Unreadable { .. } => "ChartUnreadable",
            Self::FolderUnreadable { .. } => "ChartFolderUnreadable",
            Self::RepositoryUnreachable { .. } => "RepositoryUnreachable",
            Self::RepositoryForbidden { .. } => "RepositoryForbidden",
            Self::CacheFull { .. } => "CacheFull",
            Self::CacheUnwritable { .. } => "CacheUnwritable",
            Self::RecordDamaged { .. } => "ChartRecordDamaged",
            Self::HelmUnusable { .. } => "HelmUnusable",
            Self::Interrupted { .. } => "ChartInterrupted",
            Self::Source(_) | Self::NotAName { .. } => "ChartInvalid",
        }
    }

    /// Whether it can pass without anyone changing the deployment: worth asking again.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::VersionMissing { .. }
            | Self::FolderUnreadable { .. }
            | Self::RepositoryUnreachable { .. }
            | Self::RepositoryForbidden { .. }
            | Self::CacheFull { .. }
            | Self::CacheUnwritable { .. }
            | Self::Interrupted { .. } => true,
            Self::Ambiguous { .. }
            | Self::NotPinned { .. }
            | Self::DigestMismatch(_)
            | Self::Unreadable { .. }
            | Self::RecordDamaged { .. }
            | Self::HelmUnusable { .. }
            | Self::Source(_)
            | Self::NotAName { .. } => false,
        }
    }

    /// A failed read or write in the cache.
    pub(super) fn cache(path: &Path, error: &io::Error) -> Self {
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::CacheFull { path },
            _ => Self::CacheUnwritable { path, why: error.to_string() },
        }
    }
}
