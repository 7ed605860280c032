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

use crate::charts::{ChartRequest, Source, Store};
use osdpl_core::api::{OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Selection};

/// How long a chart that could not be had is left alone.
const AGAIN: Duration = Duration::from_secs(30);

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
type Known = Mutex<BTreeMap<String, (ChartRequest, State)>>;

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

    /// What is known of each selected release's chart; those not known yet are on their way. And when to look again.
    pub(super) fn facts(
        &self,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        selection: &Selection,
    ) -> (BTreeMap<String, Result<ChartInfo, Blocked>>, Option<Timestamp>) {
        let now = super::now();
        let mut again = None;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut facts = BTreeMap::new();
        for name in selection.releases.keys() {
            let Some((wanted, digest)) = wanted(&self.store, spec, catalog, name) else { continue };
            let stale = known.get(name).is_none_or(|(before, state)| {
                *before != wanted
                    || matches!(state, State::Failed(_, at) if now.duration_since(*at).unsigned_abs() >= AGAIN)
            });
            if stale {
                known.insert(name.clone(), (wanted.clone(), State::Pending));
                self.obtain(name.clone(), wanted.clone());
            }
            let fact = match known.get(name).map(|(_, state)| state) {
                Some(State::Ready(ready)) => match digest.filter(|digest| **digest != ready.fact.digest) {
                    None => Ok(ready.fact.clone()),
                    Some(digest) => Err(Blocked {
                        reason: reason::CHART.into(),
                        message: format!(
                            "chart {} {} has the digest {}, and the lock that was added to the catalogue has {digest}; correct the one that is wrong",
                            wanted.name, ready.fact.version, ready.fact.digest
                        ),
                    }),
                },
                Some(State::Failed(blocked, at)) => {
                    let at = at.checked_add(AGAIN).unwrap_or(Timestamp::MAX);
                    again = Some(again.map_or(at, |before: Timestamp| before.min(at)));
                    Err(blocked.clone())
                }
                Some(State::Pending) | None => Err(Blocked {
                    reason: reason::CHART_PENDING.into(),
                    message: format!("chart {} is being fetched", wanted.name),
                }),
            };
            facts.insert(name.clone(), fact);
        }
        self.look.notify_one();
        (facts, again)
    }

    /// The same once each has come, or can't be had.
    pub async fn settled(
        &self,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        selection: &Selection,
    ) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
        let is_coming =
            |fact: &Result<_, Blocked>| fact.as_ref().is_err_and(|blocked| blocked.reason == reason::CHART_PENDING);
        loop {
            let (facts, _) = self.facts(spec, catalog, selection);
            if !facts.values().any(is_coming) {
                return facts;
            }
            self.poke.notified().await;
        }
    }

    /// The chart of a release, when it is at hand and is still the one with this digest.
    pub(super) fn chart(&self, name: &str, digest: &str) -> Option<Ready> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).and_then(|(_, state)| state.ready(digest)).cloned()
    }

    fn obtain(&self, name: String, wanted: ChartRequest) {
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

/// The chart that a release is to be made of, and the digest that it must have where that was added to the catalogue; `None` for a release that the
/// catalogue does not know.
pub fn wanted<'a>(
    store: &Store,
    spec: &OpenStackDeploymentSpec,
    catalog: &'a Catalog,
    name: &str,
) -> Option<(ChartRequest, Option<&'a String>)> {
    let (service, release) = catalog.release(name)?;
    let version = spec.services.get(service).and_then(|s| s.releases.get(name)).and_then(|r| r.version.clone());
    // What was added to the lock counts where charts come from repositories: a folder has what it has.
    let is_folder = matches!(store.source(), Source::Folder(_));
    let is_known = store.lock().charts.contains_key(&release.chart);
    let pin = catalog.lock.get(&release.chart).filter(|_| !is_folder && !is_known);
    let digest = pin.filter(|_| version.is_none()).and_then(|pin| pin.digest.as_ref());
    let wanted = ChartRequest {
        name: release.chart.clone(),
        version: version.or_else(|| pin.map(|pin| pin.version.clone())),
        repository: spec.charts.repository.clone().or_else(|| pin.and_then(|pin| pin.repository.clone())),
    };
    Some((wanted, digest))
}

/// Gets the chart and reads it.
async fn obtained(store: &Store, name: &str, wanted: &ChartRequest) -> State {
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
    fn at_hand(&self) -> Vec<(String, ChartRequest, PathBuf)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = known.iter().filter_map(|(name, (wanted, state))| match state {
            State::Ready(ready) if wanted.repository.is_none() => {
                Some((name.clone(), wanted.clone(), ready.path.clone()))
            }
            State::Ready(_) | State::Pending | State::Failed(..) => None,
        });
        ready.collect()
    }

    async fn look(&self, name: &str, wanted: &ChartRequest, path: PathBuf) {
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
