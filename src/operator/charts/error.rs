//! The errors of the chart store. Each message ends with the remedy.

use std::io;
use std::path::Path;

use super::digest::Digest;
use super::problem::ChartProblem;
use super::source::InvalidSource;

/// Why the store cannot provide a chart. The error affects only the releases that use this chart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The folder or repository of the store contains no version of the chart.
    #[error(
        "chart {name} is not in {location}{looked_for}; add the chart, or name a folder or repository that has the chart"
    )]
    Missing {
        /// The name of the chart.
        name: String,
        /// The path of the folder, or the address of the repository.
        location: String,
        /// For a folder, `: looked for …` with the names of the missing files; for a repository, an empty string.
        looked_for: String,
    },
    /// The folder or repository of the store contains the chart, but not in the requested version.
    #[error("chart {name} {version} is not in {location}: {found}; request an existing version, or add this version")]
    VersionMissing {
        /// The name of the chart.
        name: String,
        /// The requested version.
        version: String,
        /// The path of the folder, or the address of the repository.
        location: String,
        /// The versions that the folder or repository contains instead, such as `it has 2026.1.0, 2026.1.7`.
        found: String,
    },
    /// The folder contains several archives or directories of the chart, and neither the request nor the lock
    /// (`values/lock.yaml`) selects one of them.
    #[error(
        "chart {name} is in {location} more than once: {candidates}; keep only one of these charts; if their versions differ, you can also set a version, or lock a version with `osdpl charts lock --charts {location} {name}@VERSION`"
    )]
    Ambiguous {
        /// The name of the chart.
        name: String,
        /// The path of the folder.
        location: String,
        /// The archives and directories in the folder that contain this chart, each with its version.
        candidates: String,
    },
    /// The store must pull the chart from a repository, but neither the request nor the lock names a version. The store
    /// does not take the newest version, because a new version could change running clouds unexpectedly.
    #[error(
        "chart {name} from {location} has no version: the lock does not contain the chart; set a version, or lock a version with `osdpl charts lock --charts {location} {name}`"
    )]
    NotPinned {
        /// The name of the chart.
        name: String,
        /// The address of the repository.
        location: String,
    },
    /// The digest of the chart's content differs from the expected digest. The request or the lock contains the
    /// expected digest, or the cache has stored it at the first pull of this chart version.
    #[error(transparent)]
    DigestMismatch(Box<Mismatch>),
    /// The content of the archive or directory is damaged or malicious, or is not a chart.
    #[error(
        "chart {name} at {location} is not usable: {problem}; correct the chart, or package or pull it again, and install it only if you trust its origin"
    )]
    Unreadable {
        /// The name of the chart.
        name: String,
        /// The path of the archive or directory, or the address of the repository.
        location: String,
        /// The problem with the content of the archive or directory.
        problem: ChartProblem,
    },
    /// The store cannot read the folder of charts.
    #[error(
        "the chart folder {folder} cannot be read: {why}; name a folder of chart archives or chart directories that osdpl may read"
    )]
    FolderUnreadable {
        /// The path of the folder that should contain the charts.
        folder: String,
        /// The error message of the operating system.
        why: String,
    },
    /// helm cannot connect to the repository, or the server's response is not that of a chart repository.
    #[error(
        "chart {name} {version} cannot be pulled from {repository}: {why}; check the address, the network and the proxy, or use a folder of charts, which `osdpl charts pull` or `helm pull` can fill (the operator retries automatically)"
    )]
    RepositoryUnreachable {
        /// The name of the chart.
        name: String,
        /// The requested version.
        version: String,
        /// The address of the repository.
        repository: String,
        /// helm's error message.
        why: String,
    },
    /// The repository refuses the pull, because it requires credentials that osdpl does not have.
    #[error(
        "chart {name} {version} cannot be pulled from {repository}: the repository refuses access ({why}); download the charts into a folder with `helm pull`, and name that folder with --charts (the chart value `charts`) instead of the repository"
    )]
    RepositoryForbidden {
        /// The name of the chart.
        name: String,
        /// The requested version.
        version: String,
        /// The address of the repository.
        repository: String,
        /// helm's error message.
        why: String,
    },
    /// The disk that contains the cache folder is full.
    #[error(
        "the chart cache {path} is full; free some space there or use another folder for the cache (the operator retries automatically)"
    )]
    CacheFull {
        /// The path of the cache folder.
        path: String,
    },
    /// The store cannot write or read a file of the cache, for a reason other than a full disk.
    #[error("the chart cache {path} cannot be used: {why}; give osdpl a folder it may read and write")]
    CacheUnwritable {
        /// The path of the file or folder that the store cannot write or read.
        path: String,
        /// The error message of the operating system.
        why: String,
    },
    /// Someone has deleted the chart's archive from the cache after the store returned the chart.
    #[error(
        "the archive of chart {name} was deleted from the chart cache ({path}); repeat the command, so that osdpl writes the archive again (the operator retries automatically)"
    )]
    ArchiveMissing {
        /// The name of the chart.
        name: String,
        /// The path that the archive had.
        path: String,
    },
    /// The record of the chart's first pull is damaged. The store needs the digest in this record to notice when the
    /// chart's content changes.
    #[error(
        "the record of the first pull of chart {name} in {path} is damaged: {why}; remove this file, so that osdpl trusts the next pull"
    )]
    RecordDamaged {
        /// The name of the chart.
        name: String,
        /// The path of the file in the cache that contains the digest of the chart's first pull.
        path: String,
        /// The parser's error message.
        why: String,
    },
    /// The request for a chart names a repository, but osdpl pulls no charts, because `--charts` names a folder.
    #[error(
        "chart {name} cannot be pulled from {repository}: osdpl pulls no charts, because --charts names a folder; either add the chart to this folder, and set no `repository` for the chart; or name a repository with --charts"
    )]
    PullDisabled {
        /// The name of the chart.
        name: String,
        /// The address of the repository.
        repository: String,
    },
    /// osdpl cannot run the helm program, which pulls charts.
    #[error(
        "chart {name} cannot be pulled: {why}; either install helm 3.17 or newer, or helm 4; or name a folder with --charts that contains the chart, and set no `repository` for the chart"
    )]
    HelmUnusable {
        /// The name of the chart.
        name: String,
        /// Why osdpl cannot run helm.
        why: String,
    },
    /// The thread that reads or checks the chart ended without a result: osdpl is shutting down, or has a defect.
    #[error(
        "osdpl could not finish reading chart {name}; the operator retries automatically, and logs the cause unless the operator is shutting down"
    )]
    Interrupted {
        /// The name of the chart.
        name: String,
    },
    /// The request for a chart names a repository with an invalid address.
    #[error(transparent)]
    Source(#[from] InvalidSource),
    /// The request for a chart contains an invalid name, version or digest.
    #[error("{text:?} is not a {what}; correct it in the spec or in the catalogue")]
    InvalidName {
        /// The refused name, version or digest.
        text: String,
        /// The kind of text that is required: a `chart name`, a `chart version` or a `digest of a chart`.
        what: &'static str,
    },
}

/// The error about a chart whose content does not have the expected digest for the chart's version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chart {name} {version} from {location} has digest {found}, but {expected_by} {expected}: \
     its content is not the expected content of this version; {remedy}"
)]
pub struct Mismatch {
    /// The name of the chart.
    pub name: String,
    /// The version of the chart.
    pub version: String,
    /// The path of the folder, or the address of the repository.
    pub location: String,
    /// The words in the message that name the origin of the expected digest, such as `the lock has`.
    pub expected_by: &'static str,
    /// The digest that the lock, the record of the first pull, or the request contains.
    pub expected: Digest,
    /// The digest that osdpl has computed from the chart's content.
    pub found: Digest,
    /// The steps that the user can take because of the changed content.
    pub remedy: String,
}

impl Error {
    /// Returns the `reason` for the condition of the chart's release: a `CamelCase` word from a fixed set.
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
            Self::ArchiveMissing { .. } => "ChartArchiveMissing",
            Self::RecordDamaged { .. } => "ChartRecordDamaged",
            Self::PullDisabled { .. } => "ChartPullDisabled",
            Self::HelmUnusable { .. } => "HelmUnusable",
            Self::Interrupted { .. } => "ChartInterrupted",
            Self::Source(_) | Self::InvalidName { .. } => "ChartInvalid",
        }
    }

    /// Converts an I/O error in the cache: returns [`Self::CacheFull`] if the disk is full, else
    /// [`Self::CacheUnwritable`].
    pub(super) fn cache(path: &Path, error: &io::Error) -> Self {
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::CacheFull { path },
            _ => Self::CacheUnwritable { path, why: error.to_string() },
        }
    }
}
