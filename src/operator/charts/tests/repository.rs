//! A fake repository of charts, for tests of pulls.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use super::Fixture;
use crate::charts::pull::{PullFailure, Request};
use crate::charts::{Lock, Pull, Source, Store};

pub(crate) const URL: &str = "https://charts.example/x";
pub(crate) const LOCK: &str = "charts: {demo: {version: 1.0.0}}";

/// The response of the fake repository to the request for an archive.
pub(crate) type Response = Result<Vec<u8>, PullFailure>;

/// A fake repository of chart archives. `archives` contains the response for each chart and version.
pub(crate) struct Repository {
    pub archives: Mutex<BTreeMap<(String, String), Response>>,
    pub pulls: AtomicUsize,
    /// The response to requests for the newest version of a chart, if these requests fail.
    pub newest_failure: Mutex<Option<PullFailure>>,
    /// The permits for pulls. Each pull consumes one permit. Without a permit, a pull waits, as if the network hung.
    pub network: Semaphore,
}

impl Repository {
    pub(crate) fn new() -> Arc<Self> {
        let network = Semaphore::new(1000);
        let (archives, newest_failure) = (Mutex::default(), Mutex::default());
        Arc::new(Self { archives, pulls: AtomicUsize::new(0), newest_failure, network })
    }

    pub(crate) fn with(response: Response) -> Arc<Self> {
        let repository = Self::new();
        repository.publish("demo", "1.0.0", response);
        repository
    }

    pub(crate) fn publish(&self, chart: &str, version: &str, response: Response) {
        self.archives.lock().unwrap().insert((chart.to_owned(), version.to_owned()), response);
    }

    pub(crate) fn pulls(&self) -> usize {
        self.pulls.load(Ordering::SeqCst)
    }
}

impl Pull for Repository {
    fn pull<'a>(&'a self, request: &'a Request, into: &'a Path) -> BoxFuture<'a, Result<PathBuf, PullFailure>> {
        Box::pin(async move {
            self.pulls.fetch_add(1, Ordering::SeqCst);
            self.network.acquire().await.unwrap().forget();
            let key = (request.chart.clone(), request.version.clone());
            let response = self.archives.lock().unwrap().get(&key).cloned();
            let archive = response.unwrap_or_else(|| Err(PullFailure::NotFound("not found".to_owned())))?;
            let path = into.join("some.tgz");
            fs::write(&path, archive).unwrap();
            Ok(path)
        })
    }

    fn newest<'a>(&'a self, _: &'a str, chart: &'a str) -> BoxFuture<'a, Result<String, PullFailure>> {
        Box::pin(async move {
            if let Some(failure) = self.newest_failure.lock().unwrap().clone() {
                return Err(failure);
            }
            let archives = self.archives.lock().unwrap();
            let newest = archives.keys().filter(|(name, _)| name == chart).map(|(_, version)| version.clone()).max();
            newest.ok_or_else(|| PullFailure::NotFound("not found".to_owned()))
        })
    }
}

pub(crate) fn store(fixture: &Fixture, repository: &Arc<Repository>, lock: &str) -> Store {
    let lock = Lock::parse("values/lock.yaml", lock).unwrap();
    let pull: Arc<dyn Pull> = Arc::<Repository>::clone(repository);
    Store::new(fixture.cache.path(), Source::Repository { url: URL.into() }, lock, pull)
}
