//! Getting one chart: from memory, from the folder, from the cache, or pulled.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::archive;
use super::cache::Cache;
use super::chart::{Chart, Wanted};
use super::contents::Contents;
use super::digest::Digest;
use super::error::Error;
use super::folder::Folder;
use super::lock::{Lock, Pinned};
use super::metadata::Metadata;
use super::problem::Problem;
use super::pull::{Failure, Pull, Request};
use super::seen::Seen;
use super::source::Source;

/// How long a failed pull is answered from memory: reconcile may ask many times a second, the network answers the same.
const RETRY: Duration = Duration::from_secs(30);

/// Pulls at once. Each loads the repository's whole index (megabytes, at OpenStack-Helm's) into a helm process.
const PULLS: usize = 3;

/// Charts by name and version. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    cache: Cache,
    source: Source,
    lock: Lock,
    pull: Arc<dyn Pull>,
    retry: Duration,
    pulls: Semaphore,
    shelves: Mutex<HashMap<Wanted, Arc<tokio::sync::Mutex<Shelf>>>>,
}

/// What is known of one wanted chart. Locked while it is got, so that each chart is pulled once and others wait for it.
#[derive(Default)]
struct Shelf {
    chart: Option<(Chart, Seen)>,
    failure: Option<(Error, Instant)>,
}

impl Store {
    /// A store that keeps its files in `cache` (made when first needed) and takes charts from `source`, pinned by `lock`.
    pub fn new(cache: impl AsRef<Path>, source: Source, lock: Lock, pull: Arc<dyn Pull>) -> Self {
        // helm is started elsewhere: the archives' paths must not depend on the working directory.
        let cache = std::path::absolute(cache.as_ref()).unwrap_or_else(|_| cache.as_ref().to_owned());
        let cache = Cache::new(cache);
        let (pulls, shelves) = (Semaphore::new(PULLS), Mutex::default());
        Self { shared: Arc::new(Shared { cache, source, lock, pull, retry: RETRY, pulls, shelves }) }
    }

    /// The same store, empty-handed, which answers with a failed pull's error for `retry` instead of pulling anew.
    #[must_use]
    pub fn with_retry(self, retry: Duration) -> Self {
        let Shared { cache, source, lock, pull, .. } = self.shared.as_ref();
        let (cache, source, lock, pull) = (cache.clone(), source.clone(), lock.clone(), Arc::clone(pull));
        let (pulls, shelves) = (Semaphore::new(PULLS), Mutex::default());
        Self { shared: Arc::new(Shared { cache, source, lock, pull, retry, pulls, shelves }) }
    }

    /// Where charts come from.
    pub fn source(&self) -> &Source {
        &self.shared.source
    }

    /// The lock.
    pub fn lock(&self) -> &Lock {
        &self.shared.lock
    }

    /// Gets the chart, verified: at once when it was got before and nothing changed since, else by reading the folder, or by
    /// pulling it, which may take as long as the network does. To be called for each chart apart: one that fails says nothing
    /// about the others.
    ///
    /// # Errors
    /// Why it cannot be had. A failed pull is answered from memory for half a minute.
    pub async fn obtain(&self, wanted: &Wanted) -> Result<Chart, Error> {
        wanted.check()?;
        let shelf = self.shelf(wanted);
        let mut shelf = shelf.lock().await;
        if let Some((chart, seen)) = shelf.chart.clone()
            && self.blocking(&wanted.name, move |_| Ok(seen.is_current())).await?
        {
            return Ok(chart);
        }
        shelf.chart = None;
        let got = match self.request(wanted) {
            Err(error) => Err(error),
            Ok(None) => self.from_folder(wanted.clone()).await,
            Ok(Some(request)) => match shelf.failed_lately(self.shared.retry) {
                Some(error) => return Err(error.clone()),
                None => self.from_repository(request).await,
            },
        };
        shelf.settle(got)
    }

    /// What the last [`Self::obtain`] of this chart came to, without waiting or looking anew: nothing while one is under way,
    /// and before the first.
    pub fn last(&self, wanted: &Wanted) -> Option<Result<Chart, Error>> {
        let shelf = self.shelf(wanted);
        let shelf = shelf.try_lock().ok()?;
        let chart = shelf.chart.as_ref().map(|(chart, _)| Ok(chart.clone()));
        chart.or_else(|| shelf.failure.as_ref().map(|(error, _)| Err(error.clone())))
    }

    /// The charts that the source offers, with whether each can be installed: all of a folder's, the locked ones of a
    /// repository (which has no list that helm shows).
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn offered(&self) -> Result<Vec<(String, bool)>, Error> {
        match &self.shared.source {
            Source::Folder(folder) => Ok(Folder::open(folder)?.names()?.into_iter().collect()),
            Source::Repository { .. } => Ok(self.shared.lock.charts.keys().map(|name| (name.clone(), true)).collect()),
        }
    }

    fn shelf(&self, wanted: &Wanted) -> Arc<tokio::sync::Mutex<Shelf>> {
        // Nothing is left half done where a thread could panic under this lock.
        let mut shelves = self.shared.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shelves.entry(wanted.clone()).or_default())
    }

    /// What to ask a repository for; nothing when the chart comes from a folder.
    fn request(&self, wanted: &Wanted) -> Result<Option<Request>, Error> {
        let pinned = self.shared.lock.charts.get(&wanted.name);
        let repository = match (&wanted.repository, &self.shared.source) {
            (Some(repository), _) => repository.trim_end_matches('/'),
            (None, Source::Folder(_)) => return Ok(None),
            (None, Source::Repository { url }) => pinned.and_then(|pinned| pinned.repository.as_ref()).unwrap_or(url),
        };
        let chart = wanted.name.clone();
        match wanted.version.as_ref().or(pinned.map(|pinned| &pinned.version)) {
            Some(version) => Ok(Some(Request { repository: repository.to_owned(), chart, version: version.clone() })),
            None => Err(Error::NotPinned { name: chart, place: repository.to_owned() }),
        }
    }

    async fn from_folder(&self, wanted: Wanted) -> Result<(Chart, Seen), Error> {
        self.blocking(&wanted.name.clone(), move |shared| shared.from_folder(&wanted)).await
    }

    async fn from_repository(&self, request: Request) -> Result<(Chart, Seen), Error> {
        let name = request.chart.clone();
        let asked = request.clone();
        let (expected, kept) = self.blocking(&name, move |shared| shared.from_cache(&asked)).await?;
        if let Some(kept) = kept {
            return Ok(kept);
        }
        // Closing the semaphore is nobody's business, so it is never closed.
        let _permit = self.shared.pulls.acquire().await;
        let incoming = self.blocking(&name, |shared| shared.cache.incoming()).await?;
        let pulled = match self.shared.pull.pull(&request, incoming.path()).await {
            Ok(pulled) => pulled,
            Err(failure) => return Err(self.explain(&request, failure, incoming.path()).await),
        };
        self.blocking(&name, move |shared| {
            let chart = shared.accept(&request, expected, &pulled);
            drop(incoming);
            chart
        })
        .await
    }

    async fn explain(&self, request: &Request, failure: Failure, incoming: &Path) -> Error {
        let Request { repository, chart: name, version } = request.clone();
        let path = || incoming.parent().unwrap_or(incoming).display().to_string();
        match failure {
            Failure::Absent(_) => match self.shared.pull.newest(&repository, &name).await {
                Ok(newest) => {
                    let found = format!("the newest there is {newest}");
                    Error::VersionMissing { name, version, place: repository, found }
                }
                Err(_) => Error::Missing { name, place: repository, looked_for: String::new() },
            },
            Failure::Forbidden(why) => Error::RepositoryForbidden { name, version, repository, why },
            Failure::Unreachable(why) => Error::RepositoryUnreachable { name, version, repository, why },
            Failure::Full => Error::CacheFull { path: path() },
            Failure::Unwritable(why) => Error::CacheUnwritable { path: path(), why },
            Failure::Program(why) => Error::HelmUnusable { name, why },
        }
    }

    /// Files are read and written away from the threads that drive everything else.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|_| Err(Error::Interrupted { name: name.to_owned() }))
    }
}

impl Shelf {
    fn failed_lately(&self, retry: Duration) -> Option<&Error> {
        self.failure.as_ref().filter(|(_, at)| at.elapsed() < retry).map(|(error, _)| error)
    }

    fn settle(&mut self, got: Result<(Chart, Seen), Error>) -> Result<Chart, Error> {
        match got {
            Ok((chart, seen)) => {
                *self = Self { chart: Some((chart.clone(), seen)), failure: None };
                Ok(chart)
            }
            Err(error) => {
                self.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

impl Shared {
    fn from_folder(&self, wanted: &Wanted) -> Result<(Chart, Seen), Error> {
        let Source::Folder(folder) = &self.source else { return Err(Error::Interrupted { name: wanted.name.clone() }) };
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
                Expected::Locked(expected.clone()),
                digest,
            ));
        }
        self.keep(metadata, digest, &contents, path.display().to_string(), seen)
    }

    /// The digest that the chart must have, where one is known, and the chart, where it is in the cache.
    fn from_cache(&self, request: &Request) -> Result<(Option<Expected>, Option<(Chart, Seen)>), Error> {
        let pinned = self.lock.charts.get(&request.chart);
        let expected = match locked_digest(pinned, &request.version) {
            Some(digest) => Some(Expected::Locked(digest.clone())),
            None => self.cache.trusted(request)?.map(Expected::FirstPull),
        };
        let Some(digest) = expected.as_ref().map(Expected::digest) else { return Ok((None, None)) };
        let Some(contents) = self.cache.kept(request, digest) else { return Ok((expected, None)) };
        let Ok(metadata) = Metadata::of(&contents) else { return Ok((expected, None)) };
        let chart = self.shelve(metadata, digest.clone(), request.repository.clone(), Seen::default());
        Ok((expected, Some(chart)))
    }

    /// Checks what was pulled, and keeps it.
    fn accept(&self, request: &Request, expected: Option<Expected>, pulled: &Path) -> Result<(Chart, Seen), Error> {
        let Request { repository, chart: name, version } = request;
        let unreadable = |problem| Error::Unreadable {
            name: name.clone(),
            place: format!("{repository} (version {version})"),
            problem,
        };
        let file = std::fs::File::open(pulled).map_err(|error| Error::cache(pulled, &error))?;
        let contents = archive::read(std::io::BufReader::new(file)).map_err(unreadable)?;
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

    fn mismatch(&self, chart: &Metadata, place: String, expected: Expected, found: Digest) -> Error {
        let Metadata { name, version, .. } = chart.clone();
        let (expected_by, remedy) = match &expected {
            Expected::Locked(_) => (
                "the lock has".to_owned(),
                format!(
                    "take the locked chart, or lock this one with `osdpl charts lock --charts {place} {name}` if you trust it"
                ),
            ),
            Expected::FirstPull(_) => {
                let request = Request { repository: place.clone(), chart: name.clone(), version: version.clone() };
                let record = self.cache.record(&request);
                let remedy =
                    format!("find out why; if you trust it, remove {} and it is pulled anew", record.display());
                ("the first pull had".to_owned(), remedy)
            }
        };
        let expected = expected.digest().clone();
        Error::DigestMismatch { name, version, place, expected_by, expected, found, remedy }
    }

    fn keep(
        &self,
        chart: Metadata,
        digest: Digest,
        contents: &Contents,
        origin: String,
        seen: Seen,
    ) -> Result<(Chart, Seen), Error> {
        self.cache.keep(&chart, &digest, contents)?;
        Ok(self.shelve(chart, digest, origin, seen))
    }

    fn shelve(&self, chart: Metadata, digest: Digest, origin: String, mut seen: Seen) -> (Chart, Seen) {
        let path: PathBuf = self.cache.archive(&chart, &digest);
        seen.note(&path);
        (Chart::new(chart, digest, path, origin, &self.lock), seen)
    }
}

/// Who says which digest a chart must have.
enum Expected {
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
