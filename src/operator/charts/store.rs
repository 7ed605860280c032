//! The chart store. It takes a chart from its memory, from the user's folder, from the cache, or from a repository.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::{Cache, STALE_AGE};
use super::chart::{Chart, check_request};
use super::error::Error;
use super::files::{ChartFiles, StoredChart};
use super::folder::Folder;
use super::lock::Lock;
use super::pull::{Pull, PullFailure, Request};
use super::source::Source;
use osdpl_decide::{ChartRequest, ExpectedDigest};

/// The time for which the store returns the error of a failed pull before it pulls again. Without this delay, the
/// operator's passes could cause many pulls per second.
const RETRY: Duration = Duration::from_secs(30);

/// The maximum number of concurrent pulls. It is low, because each pull runs a helm process, and helm loads the whole
/// index of the repository into memory (megabytes for OpenStack-Helm).
const PULLS: usize = 3;

/// Provides charts by name and version. All clones of a store share the same state.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    files: Arc<ChartFiles>,
    source: Source,
    pull: Arc<dyn Pull>,
    retry: Duration,
    pulls: Semaphore,
    /// The state of each chart that was requested. Kept so that a pass gets a chart without reading its files again, and
    /// so that the store repeats a failed pull only after the delay `retry`. After a restart, the store reads the charts
    /// again from the folder or the cache, and repeats a failed pull at once.
    chart_states: Mutex<HashMap<ChartRequest, Arc<tokio::sync::Mutex<ChartState>>>>,
}

/// The data that the store keeps in memory for one `ChartRequest`.
///
/// A task holds the mutex of this state while it obtains the chart, so that concurrent tasks pull the chart only once.
#[derive(Default)]
struct ChartState {
    chart: Option<StoredChart>,
    failure: Option<(Error, Instant)>,
}

impl Store {
    /// Creates a store that takes charts from `source`, in the versions that `lock` contains. The store keeps its files
    /// in the folder `cache`, and creates this folder when it first writes a file.
    pub fn new(cache: impl AsRef<Path>, source: Source, lock: Lock, pull: Arc<dyn Pull>) -> Self {
        // helm runs in another working directory, so the paths of archives must be absolute.
        let cache = std::path::absolute(cache.as_ref()).unwrap_or_else(|_| cache.as_ref().to_owned());
        let files = Arc::new(ChartFiles { cache: Cache::new(cache), lock });
        Self { shared: Arc::new(Shared::new(files, source, pull, RETRY)) }
    }

    /// Returns a copy of this store without charts in its memory. After a failed pull of a chart, the copy waits for
    /// the duration `retry` before it pulls the chart again.
    #[cfg(test)]
    #[must_use]
    pub(super) fn with_retry(self, retry: Duration) -> Self {
        let Shared { files, source, pull, .. } = self.shared.as_ref();
        Self { shared: Arc::new(Shared::new(Arc::clone(files), source.clone(), Arc::clone(pull), retry)) }
    }

    /// Returns the folder or repository that the store takes charts from.
    pub fn source(&self) -> &Source {
        &self.shared.source
    }

    /// Returns the lock: the versions of the charts, and the digests that the store compares the charts with.
    pub fn lock(&self) -> &Lock {
        &self.shared.files.lock
    }

    /// Removes from the cache the archives whose digest is neither in the lock nor in the record of a first pull. Also
    /// removes the incomplete files of killed processes.
    ///
    /// Returns the names of the removed files.
    ///
    /// This function keeps files younger than an hour: another osdpl process may have written such a file for a helm
    /// process that has not read the file yet. The caller must prune before it obtains any chart. Otherwise this
    /// function could remove the archive of a chart that the store has returned.
    ///
    /// # Errors
    /// Returns an error if the cache cannot be read, or a record is damaged. Then this function removes nothing.
    pub fn prune(&self) -> Result<Vec<String>, Error> {
        let ChartFiles { cache, lock } = self.shared.files.as_ref();
        cache.prune(lock, STALE_AGE)
    }

    /// Returns the requested chart. The store verifies the content of each chart that it reads or pulls.
    ///
    /// If the store has the chart in memory and the chart's files have not changed, the store returns this chart. Else
    /// the store reads the chart from the folder or from the cache, or pulls it from the repository, which may take
    /// long. The failure of one chart does not affect other charts.
    ///
    /// # Errors
    /// The error says why the store cannot provide the chart. After a failed pull, the store returns the same error for
    /// half a minute before it pulls again.
    pub async fn obtain(&self, wanted: &ChartRequest) -> Result<Chart, Error> {
        check_request(wanted)?;
        let state = self.chart_state(wanted);
        let mut state = state.lock().await;
        if let Some((chart, states)) = state.chart.clone()
            && self.blocking(&wanted.name, move |_| Ok(states.is_current())).await?
        {
            return Ok(chart);
        }
        state.chart = None;
        let result = match self.pull_request_for(wanted) {
            Err(error) => Err(error),
            Ok(None) => self.read_from_folder(wanted.clone()).await,
            Ok(Some(request)) => match state.recent_failure(self.shared.retry) {
                Some(error) => return Err(error.clone()),
                None => self.fetch(request, wanted.digest.clone()).await,
            },
        };
        state.store_result(result)
    }

    /// Returns the name of each available chart, and whether helm can install the chart.
    ///
    /// For a folder, the result contains all charts in the folder. For a repository, the result contains the charts in
    /// the lock, because helm can't list the charts of a repository.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn list_charts(&self) -> Result<Vec<(String, bool)>, Error> {
        match &self.shared.source {
            Source::Folder(folder) => Ok(Folder::open(folder)?.names()?.into_iter().collect()),
            Source::Repository { .. } => {
                Ok(self.shared.files.lock.charts.keys().map(|name| (name.clone(), true)).collect())
            }
        }
    }

    fn chart_state(&self, wanted: &ChartRequest) -> Arc<tokio::sync::Mutex<ChartState>> {
        // Ignore that the mutex may be poisoned: no code that holds the mutex can panic while it changes the map.
        let mut chart_states = self.shared.chart_states.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(chart_states.entry(wanted.clone()).or_default())
    }

    /// Returns the request with which the store pulls the chart from a repository; `None` if the store takes the chart
    /// from a folder.
    ///
    /// # Errors
    /// Returns an error if neither the request nor the lock has a version.
    pub fn pull_request_for(&self, wanted: &ChartRequest) -> Result<Option<Request>, Error> {
        let pinned = self.shared.files.lock.charts.get(&wanted.name);
        let repository = match (&wanted.repository, &self.shared.source) {
            (Some(repository), _) => repository.trim_end_matches('/'),
            (None, Source::Folder(_)) => return Ok(None),
            (None, Source::Repository { url }) => pinned.and_then(|pinned| pinned.repository.as_ref()).unwrap_or(url),
        };
        let chart = wanted.name.clone();
        match wanted.version.as_ref().or(pinned.map(|pinned| &pinned.version)) {
            Some(version) => Ok(Some(Request { repository: repository.to_owned(), chart, version: version.clone() })),
            None => Err(Error::NotPinned { name: chart, location: repository.to_owned() }),
        }
    }

    async fn read_from_folder(&self, wanted: ChartRequest) -> Result<StoredChart, Error> {
        let name = wanted.name.clone();
        match self.shared.source.clone() {
            Source::Folder(folder) => self.blocking(&name, move |files| files.in_folder(&folder, &wanted)).await,
            Source::Repository { .. } => Err(Error::Interrupted { name }),
        }
    }

    async fn fetch(&self, request: Request, digest: Option<ExpectedDigest>) -> Result<StoredChart, Error> {
        let name = request.chart.clone();
        let cache_request = request.clone();
        let lookup = self.blocking(&name, move |files| files.in_cache(&cache_request, digest.as_ref())).await?;
        if let Some(chart) = lookup.chart {
            return Ok(chart);
        }
        // Ignore the error of `acquire`: it fails only if the semaphore is closed, which never happens.
        let _permit = self.shared.pulls.acquire().await;
        let incoming = self.blocking(&name, |files| files.cache.incoming()).await?;
        let pulled = match self.shared.pull.pull(&request, incoming.path()).await {
            Ok(pulled) => pulled,
            Err(failure) => return Err(self.explain(&request, failure, incoming.path()).await),
        };
        self.blocking(&name, move |files| {
            let chart = files.accept(&request, lookup.expected.as_ref(), &pulled);
            drop(incoming);
            chart
        })
        .await
    }

    async fn explain(&self, request: &Request, failure: PullFailure, incoming: &Path) -> Error {
        let Request { repository, chart: name, version } = request.clone();
        let path = || incoming.parent().unwrap_or(incoming).display().to_string();
        match failure {
            PullFailure::NotFound(why) => {
                let found = match self.shared.pull.newest(&repository, &name).await {
                    Ok(newest) => format!("the newest version is {newest}"),
                    Err(PullFailure::NotFound(_)) => {
                        return Error::Missing { name, location: repository, looked_for: String::new() };
                    }
                    // This request failed for another reason, such as a timeout. So it is not known whether the
                    // repository has other versions of the chart.
                    Err(_) => why,
                };
                Error::VersionMissing { name, version, location: repository, found }
            }
            PullFailure::Forbidden(why) => Error::RepositoryForbidden { name, version, repository, why },
            PullFailure::Unreachable(why) => Error::RepositoryUnreachable { name, version, repository, why },
            PullFailure::Full => Error::CacheFull { path: path() },
            PullFailure::Unwritable(why) => Error::CacheUnwritable { path: path(), why },
            PullFailure::Disabled => Error::PullDisabled { name, repository },
            PullFailure::Program(why) => Error::HelmUnusable { name, why },
        }
    }

    /// Runs `work`, which reads or writes files, on a thread for blocking work.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&ChartFiles) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let files = Arc::clone(&self.shared.files);
        let done = tokio::task::spawn_blocking(move || work(&files)).await;
        done.unwrap_or_else(|_| Err(Error::Interrupted { name: name.to_owned() }))
    }
}

impl Shared {
    fn new(files: Arc<ChartFiles>, source: Source, pull: Arc<dyn Pull>, retry: Duration) -> Self {
        Self { files, source, pull, retry, pulls: Semaphore::new(PULLS), chart_states: Mutex::default() }
    }
}

impl ChartState {
    fn recent_failure(&self, retry: Duration) -> Option<&Error> {
        self.failure.as_ref().filter(|(_, since)| since.elapsed() < retry).map(|(error, _)| error)
    }

    fn store_result(&mut self, result: Result<StoredChart, Error>) -> Result<Chart, Error> {
        match result {
            Ok((chart, states)) => {
                *self = Self { chart: Some((chart.clone(), states)), failure: None };
                Ok(chart)
            }
            Err(error) => {
                self.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}
