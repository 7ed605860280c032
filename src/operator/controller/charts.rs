//! Charts for releases: obtained beside the passes, never waited for.
//!
//! Charts in a folder of the user's are looked at again after each pass (and when the operator looks around anyway): as long as nothing
//! was touched that asks the file system for times and sizes alone. Another content is another digest, and goes the way of everything
//! that changed without the spec: it waits for approval; one that the lock forbids is refused.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::charts::{ChartRequest as Wanted, Source, Store};
use osdpl_core::api::{OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Selection};
use osdpl_decide::{ChartRequest, ChartState, Charts, known_charts, retry_chart, wanted_chart};

/// The least time between two looks at a folder: while releases come up there are dozens of passes a second.
const LOOKS: Duration = Duration::from_secs(1);

/// A chart as the Runner needs it.
#[derive(Clone)]
pub struct Ready {
    /// The archive.
    pub path: PathBuf,
    /// The manifests of the CRDs it carries.
    pub crds: Arc<[String]>,
    fact: ChartInfo,
}

enum State {
    Pending,
    Ready(Ready),
    Failed(Blocked, Timestamp),
}

impl State {
    fn ready(&self, digest: &str) -> Option<&Ready> {
        match self {
            Self::Ready(ready) => Some(ready).filter(|ready| ready.fact.digest == digest),
            Self::Pending | Self::Failed(..) => None,
        }
    }
}

/// What is known of each release's chart.
type Known = Mutex<BTreeMap<String, (Wanted, State)>>;

/// Obtains charts.
pub struct ChartSource {
    store: Arc<Store>,
    poke: Arc<Notify>,
    known: Arc<Known>,
    look: Arc<Notify>,
    _looking: AbortOnDropHandle<()>,
    /// What the scrubber was last told.
    pub(super) secrets_digest: Mutex<String>,
}

impl ChartSource {
    /// Charts out of this store; `poke` is told when one has come.
    pub fn new(store: Store, poke: &Arc<Notify>) -> Self {
        let (store, poke, known, look) = (Arc::new(store), Arc::clone(poke), Arc::default(), Arc::<Notify>::default());
        let watch = Watch { store: Arc::clone(&store), poke: Arc::clone(&poke), known: Arc::clone(&known) };
        let looking = AbortOnDropHandle::new(tokio::spawn(watch.run(Arc::clone(&look))));
        Self { store, poke, known, look, _looking: looking, secrets_digest: Mutex::default() }
    }

    /// Whoever tells this makes the source look whether charts in its folder have changed.
    pub fn look(&self) -> Arc<Notify> {
        Arc::clone(&self.look)
    }

    /// What is known of charts.
    pub(super) fn snapshot(&self) -> Charts {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |state: &State| match state {
            State::Pending => ChartState::Pending,
            State::Ready(ready) => ChartState::Ready(ready.fact.clone()),
            State::Failed(blocked, at) => ChartState::Failed(blocked.clone(), retry_chart(*at)),
        };
        let known = known.iter().map(|(name, (wanted, known))| (name.clone(), (request(wanted), state(known))));
        Charts { known: known.collect(), ..origin(&self.store) }
    }

    /// Fetches the charts that a plan requests, and those again that could not be had for a while. Charts in a folder are looked at again.
    pub(super) fn request(&self, requests: &BTreeMap<String, ChartRequest>) {
        let now = super::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, request) in requests {
            let wanted = of(request);
            let is_stale = known.get(name).is_none_or(|(before, state)| {
                *before != wanted || matches!(state, State::Failed(_, at) if retry_chart(*at) <= now)
            });
            if is_stale {
                known.insert(name.clone(), (wanted.clone(), State::Pending));
                self.obtain(name.clone(), wanted);
            }
        }
        self.look.notify_one();
    }

    /// What is known of the charts of a selection, once each has come, or can't be had.
    pub async fn settled(
        &self,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        selection: &Selection,
    ) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
        let is_coming =
            |fact: &Result<_, Blocked>| fact.as_ref().is_err_and(|blocked| blocked.reason == reason::CHART_PENDING);
        self.request(&known_charts(&self.snapshot(), spec, catalog, selection).requests);
        loop {
            let known = known_charts(&self.snapshot(), spec, catalog, selection);
            if !known.facts.values().any(is_coming) {
                return known.facts;
            }
            self.poke.notified().await;
        }
    }

    /// The chart of a release, when it is at hand and is still the one with this digest.
    pub(super) fn chart(&self, name: &str, digest: &str) -> Option<Ready> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).and_then(|(_, state)| state.ready(digest)).cloned()
    }

    fn obtain(&self, name: String, wanted: Wanted) {
        let (store, known, poke) = (Arc::clone(&self.store), Arc::clone(&self.known), Arc::clone(&self.poke));
        tokio::spawn(async move {
            let state = obtained(&store, &name, &wanted).await;
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = known.get_mut(&name).filter(|(current, _)| *current == wanted) {
                entry.1 = state;
                poke.notify_one();
            }
        });
    }
}

/// Where a store takes charts from, and what its lock knows.
fn origin(store: &Store) -> Charts {
    let folder = matches!(store.source(), Source::Folder(_));
    Charts { folder, locked: store.lock().charts.keys().cloned().collect(), ..Charts::default() }
}

fn request(wanted: &Wanted) -> ChartRequest {
    let Wanted { name, version, repository } = wanted.clone();
    ChartRequest { name, version, repository }
}

fn of(request: &ChartRequest) -> Wanted {
    let ChartRequest { name, version, repository } = request.clone();
    Wanted { name, version, repository }
}

/// The chart that a release is made of, and the digest that it must have where that was added to the catalogue; `None` for a release that the
/// catalogue does not know.
pub fn wanted<'a>(
    store: &Store,
    spec: &OpenStackDeploymentSpec,
    catalog: &'a Catalog,
    name: &str,
) -> Option<(Wanted, Option<&'a String>)> {
    let (request, digest) = wanted_chart(&origin(store), spec, catalog, name)?;
    Some((of(&request), digest))
}

/// Gets the chart and reads it.
async fn obtained(store: &Store, name: &str, wanted: &Wanted) -> State {
    let reading = async {
        let chart = store.obtain(wanted).await?;
        // Reading an archive takes a while: not on a thread that others wait for.
        let read = tokio::task::spawn_blocking(move || ready(&chart)).await;
        read.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    };
    match caught(reading, &wanted.name).await {
        Ok(ready) => State::Ready(ready),
        Err(blocked) => {
            tracing::warn!(release = name, error = %blocked.message, "chart not at hand");
            State::Failed(blocked, super::now())
        }
    }
}

/// What came of reading a chart: nobody joins the task that does, and without a word of its panic the release would wait for it for ever.
async fn caught<T>(reading: impl Future<Output = Result<T, crate::charts::Error>>, chart: &str) -> Result<T, Blocked> {
    let Ok(read) = AssertUnwindSafe(reading).catch_unwind().await else {
        let message = format!(
            "reading chart {chart} panicked, and what that said is in the operator's log; report it, and name another version or archive of the chart"
        );
        return Err(Blocked { reason: osdpl_core::api::reason::CHART.into(), message });
    };
    read.map_err(|error| Blocked { reason: error.reason().into(), message: error.to_string() })
}

/// Looks again at charts in a folder.
struct Watch {
    store: Arc<Store>,
    poke: Arc<Notify>,
    known: Arc<Known>,
}

impl Watch {
    async fn run(self, look: Arc<Notify>) {
        // A repository's version stays what it was at the first pull.
        if !matches!(self.store.source(), Source::Folder(_)) {
            return;
        }
        loop {
            look.notified().await;
            for (name, wanted, path) in self.at_hand() {
                self.look(&name, &wanted, path).await;
            }
            tokio::time::sleep(LOOKS).await;
        }
    }

    /// The charts that came out of the folder.
    fn at_hand(&self) -> Vec<(String, Wanted, PathBuf)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = known.iter().filter_map(|(name, (wanted, state))| match state {
            State::Ready(ready) if wanted.repository.is_none() => {
                Some((name.clone(), wanted.clone(), ready.path.clone()))
            }
            State::Ready(_) | State::Pending | State::Failed(..) => None,
        });
        ready.collect()
    }

    async fn look(&self, name: &str, wanted: &Wanted, path: PathBuf) {
        // The archive's name holds the digest of what is in it.
        if self.store.obtain(wanted).await.is_ok_and(|chart| chart.path == path) {
            return;
        }
        let state = obtained(&self.store, name, wanted).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get_mut(name).filter(|(current, _)| current == wanted) {
            tracing::info!(release = name, chart = wanted.name, "the chart in the folder has changed");
            entry.1 = state;
            self.poke.notify_one();
        }
    }
}

fn ready(chart: &crate::charts::Chart) -> Result<Ready, crate::charts::Error> {
    let defaults = chart.default_values()?;
    let tags = defaults["images"]["tags"].as_object().into_iter().flatten();
    let images = tags.filter_map(|(tag, image)| Some((tag.clone(), image.as_str()?.to_owned()))).collect();
    let switches = defaults["manifests"].as_object().into_iter().flatten();
    let jobs = switches.filter(|(name, _)| name.starts_with("job_"));
    let jobs = jobs.filter_map(|(name, on)| Some((name.clone(), on.as_bool()?))).collect();
    let (version, digest) = (chart.version.clone(), chart.digest.to_string());
    let fact = ChartInfo { version, digest, imprint: chart.imprint()?, images, jobs };
    Ok(Ready { path: chart.path.clone(), crds: chart.crds()?.into(), fact })
}

#[cfg(test)]
mod tests;
