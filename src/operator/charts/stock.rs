//! The part of the store that reads and writes files: what is in the folder, what is in the cache, what was pulled.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::archive;
use super::cache::Cache;
use super::chart::{Chart, Wanted};
use super::contents::Contents;
use super::digest::Digest;
use super::error::{Error, Mismatch};
use super::folder::Folder;
use super::lock::{Lock, Pinned};
use super::metadata::Metadata;
use super::problem::Problem;
use super::pull::Request;
use super::seen::Seen;

/// The cache and the lock, without anything that waits.
#[derive(Clone, Debug)]
pub struct Stock {
    pub(super) cache: Cache,
    pub(super) lock: Lock,
}

/// A chart, and the state of the files it was made from.
pub type Shelved = (Chart, Seen);

/// What is known of a repository's chart before it is pulled.
pub struct Kept {
    /// The digest it must have, where one is known.
    pub(super) expected: Option<Expected>,
    /// The chart itself, where it is in the cache.
    pub(super) chart: Option<Shelved>,
}

impl Stock {
    /// Reads the chart from a folder of the user's, and keeps it.
    pub(super) fn in_folder(&self, folder: &Path, wanted: &Wanted) -> Result<Shelved, Error> {
        let pinned = self.lock.charts.get(&wanted.name);
        let mut seen = Seen::default();
        let found = Folder::open(folder)?.read(&wanted.name, wanted.version.as_deref(), pinned, &mut seen)?;
        let (metadata, contents, path) = found;
        let digest = Digest::of(&contents);
        if let Some(expected) = locked_digest(pinned, &metadata.version)
            && *expected != digest
        {
            return Err(self.mismatch(
                &metadata,
                folder.display().to_string(),
                &Expected::Locked(expected.clone()),
                digest,
            ));
        }
        self.keep(metadata, digest, &contents, path.display().to_string(), seen)
    }

    /// Looks for a repository's chart in the cache.
    pub(super) fn in_cache(&self, request: &Request) -> Result<Kept, Error> {
        let expected = match locked_digest(self.lock.charts.get(&request.chart), &request.version) {
            Some(digest) => Some(Expected::Locked(digest.clone())),
            None => self.cache.trusted(request)?.map(Expected::FirstPull),
        };
        let chart = expected.as_ref().map(Expected::digest).and_then(|digest| {
            let contents = self.cache.kept(request, digest)?;
            let metadata = Metadata::of(&contents).ok()?;
            Some(self.shelve(metadata, digest.clone(), request.repository.clone(), Seen::default()))
        });
        Ok(Kept { expected, chart })
    }

    /// Checks what was pulled, and keeps it.
    pub(super) fn accept(
        &self,
        request: &Request,
        expected: Option<&Expected>,
        pulled: &Path,
    ) -> Result<Shelved, Error> {
        let Request { repository, chart: name, version } = request;
        let unreadable = |problem| Error::Unreadable {
            name: name.clone(),
            place: format!("{repository} (version {version})"),
            problem,
        };
        let file = File::open(pulled).map_err(|error| Error::cache(pulled, &error))?;
        let contents = archive::read(BufReader::new(file)).map_err(unreadable)?;
        let metadata = Metadata::of(&contents).map_err(unreadable)?;
        metadata.must_be(name, version).map_err(|problem| match problem {
            // helm takes a version as a range too: 2026.1.7 finds 2026.1.7+0ee5ade.
            Problem::OtherVersion { found, .. } => {
                let found = format!("it answers with {found}");
                let (name, version) = (name.clone(), version.clone());
                Error::VersionMissing { name, version, place: repository.clone(), found }
            }
            other => unreadable(other),
        })?;
        let digest = Digest::of(&contents);
        match expected {
            Some(expected) if *expected.digest() != digest => {
                Err(self.mismatch(&metadata, repository.clone(), expected, digest))
            }
            Some(_) => self.keep(metadata, digest, &contents, repository.clone(), Seen::default()),
            None => {
                let kept = self.keep(metadata, digest.clone(), &contents, repository.clone(), Seen::default())?;
                self.cache.trust(request, &digest)?;
                Ok(kept)
            }
        }
    }

    fn mismatch(&self, chart: &Metadata, place: String, expected: &Expected, found: Digest) -> Error {
        let Metadata { name, version, .. } = chart.clone();
        let (expected_by, remedy) = match expected {
            Expected::Locked(_) => (
                "the lock has",
                format!(
                    "take the locked chart, or lock this one with `osdpl charts lock --charts {place} {name}` if you trust it"
                ),
            ),
            Expected::FirstPull(_) => {
                let request = Request { repository: place.clone(), chart: name.clone(), version: version.clone() };
                let record = self.cache.record(&request);
                let remedy =
                    format!("find out why; if you trust it, remove {} and it is pulled anew", record.display());
                ("the first pull had", remedy)
            }
        };
        let expected = expected.digest().clone();
        Error::DigestMismatch(Box::new(Mismatch { name, version, place, expected_by, expected, found, remedy }))
    }

    fn keep(
        &self,
        chart: Metadata,
        digest: Digest,
        contents: &Contents,
        origin: String,
        seen: Seen,
    ) -> Result<Shelved, Error> {
        self.cache.keep(&chart, &digest, contents)?;
        Ok(self.shelve(chart, digest, origin, seen))
    }

    fn shelve(&self, chart: Metadata, digest: Digest, origin: String, mut seen: Seen) -> Shelved {
        let path = self.cache.archive(&chart, &digest);
        seen.note(&path);
        (Chart::new(chart, digest, path, origin, &self.lock), seen)
    }
}

/// Who says which digest a chart must have.
pub enum Expected {
    Locked(Digest),
    FirstPull(Digest),
}

impl Expected {
    fn digest(&self) -> &Digest {
        match self {
            Self::Locked(digest) | Self::FirstPull(digest) => digest,
        }
    }
}

fn locked_digest<'a>(pinned: Option<&'a Pinned>, version: &str) -> Option<&'a Digest> {
    pinned.filter(|pinned| pinned.version == version)?.digest.as_ref()
}
