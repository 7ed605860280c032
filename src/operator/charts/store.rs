//! Getting one chart: from memory, from the folder, from the cache, or pulled.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::{Cache, LEFT_OVER};
use super::chart::{Chart, Wanted};
use super::error::Error;
use super::folder::Folder;
use super::lock::Lock;
use super::pull::{Failure, Pull, Request};
use super::source::Source;
use super::stock::{Shelved, Stock};

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
    stock: Arc<Stock>,
    source: Source,
    pull: Arc<dyn Pull>,
    retry: Duration,
    pulls: Semaphore,
    shelves: Mutex<HashMap<Wanted, Arc<tokio::sync::Mutex<Shelf>>>>,
}

/// What is known of one wanted chart. Locked while it is got, so that each chart is pulled once and others wait for it.
#[derive(Default)]
struct Shelf {
    chart: Option<Shelved>,
    failure: Option<(Error, Instant)>,
}

impl Store {
    /// A store that keeps its files in `cache` (made when first needed) and takes charts from `source`, pinned by `lock`.
    pub fn new(cache: impl AsRef<Path>, source: Source, lock: Lock, pull: Arc<dyn Pull>) -> Self {
        // helm is started elsewhere: the archives' paths must not depend on the working directory.
        let cache = std::path::absolute(cache.as_ref()).unwrap_or_else(|_| cache.as_ref().to_owned());
        let stock = Arc::new(Stock { cache: Cache::new(cache), lock });
        Self { shared: Arc::new(Shared::new(stock, source, pull, RETRY)) }
    }

    /// The same store, empty-handed, which answers with a failed pull's error for `retry` instead of pulling anew.
    #[must_use]
    pub fn with_retry(self, retry: Duration) -> Self {
        let Shared { stock, source, pull, .. } = self.shared.as_ref();
        Self { shared: Arc::new(Shared::new(Arc::clone(stock), source.clone(), Arc::clone(pull), retry)) }
    }

    /// Where charts come from.
    pub fn source(&self) -> &Source {
        &self.shared.source
    }

    /// The lock.
    pub fn lock(&self) -> &Lock {
        &self.shared.stock.lock
    }

    /// Removes archives from the cache that neither the lock nor the record of a first pull names, once they are an hour old (another
    /// process may just have written one for its helm); returns their names. To be called at start, before anything is obtained.
    ///
    /// # Errors
    /// When the cache can't be read; nothing is removed then.
    pub fn prune(&self) -> Result<Vec<String>, Error> {
        let Stock { cache, lock } = self.shared.stock.as_ref();
        cache.prune(lock, LEFT_OVER)
    }

    /// Gets the chart, verified: at once when it was got before and nothing changed since, else by reading the folder, or by
    /// pulling it, which may take as long as the network does. To be called for each chart apart: one that fails says nothing
    /// about the others.
    ///
    /// # Errors
    /// Why it cannot be had. A failed pull is answered from memory for half a minute.
    pub async fn obtain(&self, wanted: &Wanted) -> Result<Chart, Error> {
        wanted.check()?;
        let place = self.shelf(wanted);
        let mut known = place.lock().await;
        if let Some((chart, seen)) = known.chart.clone()
            && self.blocking(&wanted.name, move |_| Ok(seen.is_current())).await?
        {
            return Ok(chart);
        }
        known.chart = None;
        let got = match self.request(wanted) {
            Err(error) => Err(error),
            Ok(None) => self.find(wanted.clone()).await,
            Ok(Some(request)) => match known.failed_lately(self.shared.retry) {
                Some(error) => return Err(error.clone()),
                None => self.fetch(request).await,
            },
        };
        known.settle(got)
    }

    /// What the last [`Self::obtain`] of this chart came to, without waiting or looking anew: nothing while one is under way,
    /// and before the first.
    pub fn last(&self, wanted: &Wanted) -> Option<Result<Chart, Error>> {
        let place = self.shelf(wanted);
        let known = place.try_lock().ok()?;
        let chart = known.chart.as_ref().map(|(chart, _)| Ok(chart.clone()));
        chart.or_else(|| known.failure.as_ref().map(|(error, _)| Err(error.clone())))
    }

    /// The charts that the source offers, with whether each can be installed: all of a folder's, the locked ones of a
    /// repository (which has no list that helm shows).
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn offered(&self) -> Result<Vec<(String, bool)>, Error> {
        match &self.shared.source {
            Source::Folder(folder) => Ok(Folder::open(folder)?.names()?.into_iter().collect()),
            Source::Repository { .. } => {
                Ok(self.shared.stock.lock.charts.keys().map(|name| (name.clone(), true)).collect())
            }
        }
    }

    fn shelf(&self, wanted: &Wanted) -> Arc<tokio::sync::Mutex<Shelf>> {
        // Nothing is left half done where a thread could panic under this lock.
        let mut shelves = self.shared.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shelves.entry(wanted.clone()).or_default())
    }

    /// What to ask a repository for; nothing when the chart comes from a folder.
    ///
    /// # Errors
    /// When nothing says which version is wanted.
    pub fn request(&self, wanted: &Wanted) -> Result<Option<Request>, Error> {
        let pinned = self.shared.stock.lock.charts.get(&wanted.name);
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

    async fn find(&self, wanted: Wanted) -> Result<Shelved, Error> {
        let name = wanted.name.clone();
        match self.shared.source.clone() {
            Source::Folder(folder) => self.blocking(&name, move |stock| stock.in_folder(&folder, &wanted)).await,
            Source::Repository { .. } => Err(Error::Interrupted { name }),
        }
    }

    async fn fetch(&self, request: Request) -> Result<Shelved, Error> {
        let name = request.chart.clone();
        let asked = request.clone();
        let kept = self.blocking(&name, move |stock| stock.in_cache(&asked)).await?;
        if let Some(chart) = kept.chart {
            return Ok(chart);
        }
        // The error would mean that the semaphore was closed, which nobody does.
        let _permit = self.shared.pulls.acquire().await;
        let incoming = self.blocking(&name, |stock| stock.cache.incoming()).await?;
        let pulled = match self.shared.pull.pull(&request, incoming.path()).await {
            Ok(pulled) => pulled,
            Err(failure) => return Err(self.explain(&request, failure, incoming.path()).await),
        };
        self.blocking(&name, move |stock| {
            let chart = stock.accept(&request, kept.expected.as_ref(), &pulled);
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
        work: impl FnOnce(&Stock) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let stock = Arc::clone(&self.shared.stock);
        let done = tokio::task::spawn_blocking(move || work(&stock)).await;
        done.unwrap_or_else(|_| Err(Error::Interrupted { name: name.to_owned() }))
    }
}

impl Shared {
    fn new(stock: Arc<Stock>, source: Source, pull: Arc<dyn Pull>, retry: Duration) -> Self {
        Self { stock, source, pull, retry, pulls: Semaphore::new(PULLS), shelves: Mutex::default() }
    }
}

impl Shelf {
    fn failed_lately(&self, retry: Duration) -> Option<&Error> {
        self.failure.as_ref().filter(|(_, at)| at.elapsed() < retry).map(|(error, _)| error)
    }

    fn settle(&mut self, got: Result<Shelved, Error>) -> Result<Chart, Error> {
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
