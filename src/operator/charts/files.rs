//! Reads charts from the user's folder and from archives that helm pulled, and reads and writes the cache of charts.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::archive;
use super::cache::Cache;
use super::chart::Chart;
use super::contents::Contents;
use super::digest::Digest;
use super::error::{Error, Mismatch};
use super::file_states::FileStates;
use super::folder::Folder;
use super::lock::{Lock, LockEntry};
use super::metadata::Metadata;
use super::problem::ChartProblem;
use super::pull::Request;
use osdpl_decide::{ChartRequest, DigestSource, ExpectedDigest};

/// The files of the chart store: the cache of charts, and the lock with the expected digests. All methods block the
/// calling thread.
#[derive(Clone, Debug)]
pub(crate) struct ChartFiles {
    pub(super) cache: Cache,
    pub(super) lock: Lock,
}

/// A chart, and the states that the chart's files had when the store read them. The store later compares these states
/// with the present states of the files, to notice that a file has changed.
pub(crate) type StoredChart = (Chart, FileStates);

/// The result of looking up a chart of a repository in the cache.
pub(crate) struct CacheLookup {
    /// The digest that the chart must have: the digest in the request or in the lock, else the digest of the first
    /// pull; `None` if there is no such digest.
    pub(super) expected: Option<Expected>,
    /// The chart; `None` if the cache does not contain it with the expected digest.
    pub(super) chart: Option<StoredChart>,
}

impl ChartFiles {
    /// Reads the requested chart from the user's folder, checks the chart, and writes an archive of it to the cache.
    pub(super) fn in_folder(&self, folder: &Path, wanted: &ChartRequest) -> Result<StoredChart, Error> {
        let pinned = self.lock.charts.get(&wanted.name);
        let mut states = FileStates::default();
        let found = Folder::open(folder)?.read(&wanted.name, wanted.version.as_deref(), pinned, &mut states)?;
        let (metadata, contents, path) = found;
        let digest = Digest::of(&contents);
        if let Some(expected) = expected_digest(wanted.digest.as_ref(), pinned, &metadata.version)
            && *expected.digest() != digest
        {
            return Err(self.mismatch(&metadata, folder.display().to_string(), &expected, digest));
        }
        self.write_to_cache(metadata, digest, &contents, path.display().to_string(), states)
    }

    /// Looks up a chart of a repository in the cache, by the digest that the chart must have.
    pub(super) fn in_cache(&self, request: &Request, digest: Option<&ExpectedDigest>) -> Result<CacheLookup, Error> {
        let expected = match expected_digest(digest, self.lock.charts.get(&request.chart), &request.version) {
            Some(expected) => Some(expected),
            None => self.cache.first_pull(request)?.map(Expected::FirstPull),
        };
        let chart = expected.as_ref().map(Expected::digest).and_then(|digest| {
            let contents = self.cache.read_archive(request, digest)?;
            let metadata = Metadata::of(&contents).ok()?;
            Some(self.stored_chart(metadata, digest.clone(), request.repository.clone(), FileStates::default()))
        });
        Ok(CacheLookup { expected, chart })
    }

    /// Checks a pulled chart, and writes its archive to the cache. If no digest is expected, this is the first pull of
    /// this chart version, so the function also records the digest for later pulls.
    pub(super) fn accept(
        &self,
        request: &Request,
        expected: Option<&Expected>,
        pulled: &Path,
    ) -> Result<StoredChart, Error> {
        let Request { repository, chart: name, version } = request;
        let unreadable = |problem| Error::Unreadable {
            name: name.clone(),
            location: format!("{repository} (version {version})"),
            problem,
        };
        let file = File::open(pulled).map_err(|error| Error::cache(pulled, &error))?;
        let contents = archive::read(BufReader::new(file)).map_err(unreadable)?;
        let metadata = Metadata::of(&contents).map_err(unreadable)?;
        metadata.check_identity(name, version).map_err(|problem| match problem {
            // helm treats a requested version such as 2026.1.7 as a range, which also contains 2026.1.7+0ee5ade. So
            // helm may pull a chart with another version than the requested one.
            ChartProblem::OtherVersion { found, .. } => {
                let found = format!("the repository returned {found}");
                let (name, version) = (name.clone(), version.clone());
                Error::VersionMissing { name, version, location: repository.clone(), found }
            }
            other => unreadable(other),
        })?;
        let digest = Digest::of(&contents);
        match expected {
            Some(expected) if *expected.digest() != digest => {
                Err(self.mismatch(&metadata, repository.clone(), expected, digest))
            }
            Some(_) => self.write_to_cache(metadata, digest, &contents, repository.clone(), FileStates::default()),
            None => {
                let kept = self.write_to_cache(
                    metadata,
                    digest.clone(),
                    &contents,
                    repository.clone(),
                    FileStates::default(),
                )?;
                self.cache.record_first_pull(request, &digest)?;
                Ok(kept)
            }
        }
    }

    fn mismatch(&self, chart: &Metadata, location: String, expected: &Expected, found: Digest) -> Error {
        let Metadata { name, version, .. } = chart.clone();
        let (expected_by, remedy) = match expected {
            Expected::Locked(_) => (
                "the lock has",
                format!(
                    "use the chart with the locked digest; or, if you trust the new content, lock it with `osdpl charts lock --charts {location} {name}`"
                ),
            ),
            Expected::FirstPull(_) => {
                let request = Request { repository: location.clone(), chart: name.clone(), version: version.clone() };
                let record = self.cache.record_path(&request);
                let remedy = format!(
                    "find out why; if you trust the new content, remove {} to pull the chart again",
                    record.display()
                );
                ("the first pull had", remedy)
            }
            Expected::Requested(_, DigestSource::Spec) => {
                ("the spec has", "correct `digest` in the spec, or restore the chart".to_owned())
            }
            Expected::Requested(_, DigestSource::Addition) => (
                "the lock that was added to the catalogue has",
                "correct the digest in this lock, or restore the chart".to_owned(),
            ),
            Expected::Requested(_, DigestSource::Status) => (
                "the status has",
                format!(
                    "find out why; if you trust the new content, set `version: {version}` and `digest: {found}` for \
                     the release in the spec, or use another version"
                ),
            ),
        };
        let expected = expected.digest().clone();
        Error::DigestMismatch(Box::new(Mismatch { name, version, location, expected_by, expected, found, remedy }))
    }

    fn write_to_cache(
        &self,
        chart: Metadata,
        digest: Digest,
        contents: &Contents,
        origin: String,
        states: FileStates,
    ) -> Result<StoredChart, Error> {
        self.cache.write_archive(&chart, &digest, contents)?;
        Ok(self.stored_chart(chart, digest, origin, states))
    }

    fn stored_chart(&self, chart: Metadata, digest: Digest, origin: String, mut states: FileStates) -> StoredChart {
        let path = self.cache.archive(&chart, &digest);
        states.record(&path);
        (Chart::new(chart, digest, path, origin, &self.lock), states)
    }
}

/// The digest that a chart must have. The variant names its origin: the lock, the record of the first pull, or the
/// request.
pub(crate) enum Expected {
    Locked(Digest),
    FirstPull(Digest),
    Requested(Digest, DigestSource),
}

impl Expected {
    fn digest(&self) -> &Digest {
        match self {
            Self::Locked(digest) | Self::FirstPull(digest) | Self::Requested(digest, _) => digest,
        }
    }
}

/// Returns the digest that the request or the lock sets for a version of a chart.
///
/// The digest in the request takes precedence, unless it comes from the status of the `OpenStackDeployment`. The status
/// contains the digest of the first pull, which may have returned wrong content. A newer osdpl may have locked the
/// digest of the right content, so the lock takes precedence over the status.
fn expected_digest(requested: Option<&ExpectedDigest>, pinned: Option<&LockEntry>, version: &str) -> Option<Expected> {
    let requested = requested.and_then(|one| Some(Expected::Requested(one.digest.parse().ok()?, one.source)));
    let locked = pinned.filter(|pinned| pinned.version == version).and_then(|pinned| pinned.digest.clone());
    match (requested, locked) {
        (Some(Expected::Requested(_, DigestSource::Status)) | None, Some(locked)) => Some(Expected::Locked(locked)),
        (requested, _) => requested,
    }
}
