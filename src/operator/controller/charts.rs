//! Fetches the charts of releases in the background, so that a pass never waits for a chart.
//!
//! If the charts come from a folder, the operator checks them for changes after each pass, and periodically. If no file
//! was touched, a check only reads times and sizes. A changed chart has a new digest. If the chart lock
//! (`values/lock.yaml`) contains a different digest for the chart, osdpl refuses the chart. If osdpl accepts the chart,
//! the upgrade of its release waits for approval, like every change that no new spec requested.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::charts::{Chart, Error, Source, Store};
use osdpl_core::api::{OpenStackDeploymentSpec, reason};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Blocked, ChartInfo, Selection};
use osdpl_decide::{ChartRequest, ChartState, Charts, Crds, chart_request, known_charts, retry_chart_at};
use osdpl_values::CollectSorted;
use osdpl_values::yaml::{self, LocatedNode};

/// The minimum time between two checks whether the charts in a folder have changed.
///
/// Each pass requests a check, and there can be dozens of passes per second.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum size of the CRDs in a chart's `crds/` folder, in bytes ([`LocatedNode::size`]). The store limits the
/// size of a chart's files, but aliases could repeat a value thousands of times.
const MAX_CRDS: usize = 20 << 20;

/// A chart that osdpl has fetched and checked. helm can install it.
#[derive(Clone)]
pub(super) struct ReadyChart {
    /// The path of the packaged chart.
    pub(super) path: PathBuf,
    /// The CRDs in the chart's `crds/` folder.
    crds: Crds,
    /// Whether the chart's templates can render CRDs.
    may_render_crds: bool,
    info: ChartInfo,
}

enum State {
    Pending,
    Ready(ReadyChart),
    /// The chart is not available. Contains the reason, and the time of the failure.
    Failed(Blocked, Timestamp),
}

impl State {
    /// Returns the digest of the chart; `None` if the operator has not fetched the chart.
    fn digest(&self) -> Option<&str> {
        match self {
            Self::Ready(ready) => Some(&ready.info.digest),
            Self::Pending | Self::Failed(..) => None,
        }
    }

    fn ready(&self, digest: &str) -> Option<&ReadyChart> {
        match self {
            Self::Ready(ready) => Some(ready).filter(|ready| ready.info.digest == digest),
            Self::Pending | Self::Failed(..) => None,
        }
    }
}

/// The chart that plans have requested for each release, and whether the operator has fetched this chart. The key is
/// the release's name in the catalogue.
type Known = BTreeMap<String, (ChartRequest, State)>;

/// Fetches charts and caches their contents.
pub struct ChartSource {
    shared: Arc<Shared>,
    check: Arc<Notify>,
    _checks: AbortOnDropHandle<()>,
}

/// The state that [`ChartSource`] shares with its background tasks.
struct Shared {
    store: Store,
    /// The trigger of passes. A background task notifies the trigger after each successful or failed fetch of a chart.
    trigger: Arc<Notify>,
    /// The charts that plans have requested, and their states. After a restart, the operator reads the charts from the
    /// store's cache again.
    known: Mutex<Known>,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChartSource {
    /// Creates a source that takes charts from `store`. After each successful or failed fetch of a chart, the source
    /// notifies `trigger`, which triggers a pass.
    pub fn new(store: Store, trigger: &Arc<Notify>) -> Self {
        let shared = Arc::new(Shared { store, trigger: Arc::clone(trigger), known: Mutex::default() });
        let check = Arc::<Notify>::default();
        let checks = Arc::clone(&shared).check_folder(Arc::clone(&check));
        Self { shared, check, _checks: AbortOnDropHandle::new(tokio::spawn(checks)) }
    }

    /// Returns the trigger for a check of the charts in the folder. A caller notifies the trigger to start a check.
    pub fn check_trigger(&self) -> Arc<Notify> {
        Arc::clone(&self.check)
    }

    /// Returns the state of each chart that plans have requested, for the snapshot of a pass.
    pub(super) fn snapshot(&self) -> Charts {
        let state = |state: &State| match state {
            State::Pending => ChartState::Pending,
            State::Ready(ready) => ChartState::Ready(ready.info.clone()),
            State::Failed(blocked, at) => ChartState::Failed(blocked.clone(), retry_chart_at(*at)),
        };
        let all = self.shared.known();
        let known = all.iter().map(|(name, (request, known))| (name.clone(), (request.clone(), state(known))));
        let crds = all.iter().filter_map(|(name, (_, known))| match known {
            State::Ready(ready) => Some((name.clone(), ready.crds.clone())),
            State::Pending | State::Failed(..) => None,
        });
        let templates =
            all.iter().filter(|(_, (_, known))| matches!(known, State::Ready(ready) if ready.may_render_crds));
        let crd_templates = templates.map(|(name, _)| name.clone()).collect_set();
        Charts { known: known.collect_map(), crds: crds.collect_map(), crd_templates, ..origin(&self.shared.store) }
    }

    /// Starts to fetch the charts that a plan requests.
    ///
    /// If an earlier fetch of a chart has failed, the function fetches the chart again only after a delay. If the
    /// charts come from a folder, the function also makes the background task check the fetched charts for changes.
    pub(super) fn request(&self, requests: &BTreeMap<String, ChartRequest>) {
        let now = super::now();
        let mut known = self.shared.known();
        for (name, request) in requests {
            let is_failed = |state: &State| matches!(state, State::Failed(_, at) if retry_chart_at(*at) <= now);
            match known.get_mut(name) {
                Some((before, state)) if request.is_answered_by(before, state.digest()) && !is_failed(state) => {
                    before.clone_from(request);
                }
                _ => {
                    known.insert(name.clone(), (request.clone(), State::Pending));
                    tokio::spawn(Arc::clone(&self.shared).fetch(name.clone(), request.clone()));
                }
            }
        }
        self.check.notify_one();
    }

    /// Fetches the charts of the selected releases, and waits until the end of each fetch. Returns for each release its
    /// chart, or the reason why the chart is not available.
    pub async fn settled(
        &self,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        selection: &Selection,
    ) -> BTreeMap<String, Result<ChartInfo, Blocked>> {
        let is_pending =
            |fact: &Result<_, Blocked>| fact.as_ref().is_err_and(|blocked| blocked.reason == reason::CHART_PENDING);
        let recorded = BTreeMap::new();
        self.request(&known_charts(&self.snapshot(), spec, catalog, selection, &recorded).requests);
        loop {
            let known = known_charts(&self.snapshot(), spec, catalog, selection, &recorded);
            if !known.facts.values().any(is_pending) {
                return known.facts;
            }
            self.shared.trigger.notified().await;
        }
    }

    /// Returns the chart of a release, if the operator has fetched it and it still has the digest `digest`.
    pub(super) fn chart(&self, name: &str, digest: &str) -> Option<ReadyChart> {
        self.shared.known().get(name).and_then(|(_, state)| state.ready(digest)).cloned()
    }
}

/// Returns a [`Charts`] without chart contents. It only says whether the store takes charts from a folder, and which
/// charts the store's lock contains.
fn origin(store: &Store) -> Charts {
    let folder = matches!(store.source(), Source::Folder(_));
    Charts { folder, locked: store.lock().charts.keys().cloned().collect_set(), ..Charts::default() }
}

/// Returns the request for the chart of a release; `None` for a release that is not in the catalogue.
pub fn chart_of_release(
    store: &Store,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    name: &str,
) -> Option<ChartRequest> {
    chart_request(&origin(store), spec, catalog, name, &BTreeMap::new())
}

impl Shared {
    /// Fetches the chart of a release, stores the result and triggers a pass.
    ///
    /// If a plan has requested another chart for the release meanwhile, the function discards the result.
    async fn fetch(self: Arc<Self>, name: String, request: ChartRequest) {
        let state = self.read_chart(&name, &request).await;
        self.update(&name, &request, state);
    }

    /// Sets the state of a release's chart; returns `false` if a plan has requested another chart for the release since
    /// the fetch of `request` began.
    fn update(&self, name: &str, request: &ChartRequest, state: State) -> bool {
        let mut known = self.known();
        let Some(entry) = known.get_mut(name).filter(|(current, _)| current == request) else { return false };
        entry.1 = state;
        self.trigger.notify_one();
        true
    }

    async fn read_chart(&self, name: &str, request: &ChartRequest) -> State {
        let reading = async {
            let chart = self.store.obtain(request).await?;
            // Read the archive on a separate thread: reading it takes a while and would block other tasks.
            let read = tokio::task::spawn_blocking(move || read_contents(&chart)).await;
            read.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
        };
        match catch_panic(reading, &request.name).await {
            Ok(ready) => State::Ready(ready),
            Err(blocked) => {
                tracing::warn!(release = name, error = %blocked.message, "the chart is not available");
                State::Failed(blocked, super::now())
            }
        }
    }

    /// Checks the charts in the folder for changes whenever `check` is notified.
    async fn check_folder(self: Arc<Self>, check: Arc<Notify>) {
        // Check only charts from a folder. From a repository, the operator fetches each version of a chart only once.
        if !matches!(self.store.source(), Source::Folder(_)) {
            return;
        }
        loop {
            check.notified().await;
            for (name, request, path) in self.folder_charts() {
                self.check_chart(&name, &request, path).await;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn folder_charts(&self) -> Vec<(String, ChartRequest, PathBuf)> {
        let known = self.known();
        let charts = known.iter().filter_map(|(name, (request, state))| match state {
            State::Ready(ready) if request.repository.is_none() => {
                Some((name.clone(), request.clone(), ready.path.clone()))
            }
            State::Ready(_) | State::Pending | State::Failed(..) => None,
        });
        charts.collect()
    }

    async fn check_chart(&self, name: &str, request: &ChartRequest, path: PathBuf) {
        // The name of an archive contains the digest of its chart. So if the archive has the same path as before, the
        // chart has not changed.
        if self.store.obtain(request).await.is_ok_and(|chart| chart.path == path) {
            return;
        }
        let state = self.read_chart(name, request).await;
        if self.update(name, request, state) {
            tracing::info!(release = name, chart = request.name, "the chart in the folder has changed");
        }
    }
}

/// Waits until `reading` has read a chart. If `reading` panics, returns an error.
///
/// Nothing else notices a panic of the task that reads the chart. Without this function, the chart would stay pending.
async fn catch_panic<T>(reading: impl Future<Output = Result<T, Error>>, chart: &str) -> Result<T, Blocked> {
    let Ok(read) = AssertUnwindSafe(reading).catch_unwind().await else {
        let message = format!(
            "reading chart {chart} panicked, see the operator's log; report it, and use another version or archive of \
             the chart"
        );
        return Err(Blocked { reason: reason::CHART.into(), message });
    };
    read.map_err(|error| Blocked { reason: error.reason().into(), message: error.to_string() })
}

fn read_contents(chart: &Chart) -> Result<ReadyChart, Error> {
    let defaults = chart.default_values()?;
    let tags = defaults["images"]["tags"].as_object().into_iter().flatten();
    let images = tags.filter_map(|(tag, image)| Some((tag.clone(), image.as_str()?.to_owned()))).collect_map();
    let switches = defaults["manifests"].as_object().into_iter().flatten();
    let jobs = switches.filter(|(name, _)| name.starts_with("job_"));
    let jobs = jobs.filter_map(|(name, on)| Some((name.clone(), on.as_bool()?))).collect_map();
    let (version, digest) = (chart.version.clone(), chart.digest.to_string());
    let info = ChartInfo { version, digest, fingerprint: chart.fingerprint()?, images, jobs };
    let (crds, may_render_crds) = (decode_crds(&chart.crds()?), chart.may_render_crds()?);
    Ok(ReadyChart { path: chart.path.clone(), crds, may_render_crds, info })
}

/// Returns the CRDs in the manifests of a chart's `crds/` folder.
///
/// If a manifest is not a valid CRD, or all CRDs together are too large, the result is the error about the first such
/// manifest. This error prevents upgrades of the chart's release, but osdpl can use the other contents of the chart.
fn decode_crds(manifests: &[String]) -> Crds {
    let mut left = MAX_CRDS;
    let decode = |manifest: &String| {
        let tree = yaml::parse::<LocatedNode>("crds/", manifest).map_err(|error| error.to_string())?;
        let rest = left.checked_sub(tree.size());
        left = rest.ok_or_else(|| {
            format!(
                "the CRDs in crds/ have more than {} MiB, including the content of YAML aliases; use another version \
                 of the chart",
                MAX_CRDS >> 20
            )
        })?;
        tree.deserialize("crds/").map_err(|error| error.to_string())
    };
    manifests.iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_blocks_the_release() {
        let reading = async {
            let read = tokio::task::spawn_blocking(|| panic!("hunter2")).await;
            read.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
        };
        let Err(blocked) = catch_panic::<ReadyChart>(reading, "nova").await else { panic!("the chart was read") };
        assert_eq!(blocked.reason, reason::CHART);
        assert!(blocked.message.starts_with("reading chart nova panicked, "), "{}", blocked.message);
        assert!(!blocked.message.contains("hunter2"), "{}", blocked.message);
    }

    #[test]
    fn limits_the_size_of_crds_with_aliases() {
        let aliases = (0..50).fold(String::new(), |text, index| format!("{text}, a{index}: *a"));
        let text = "x".repeat(64 << 10);
        let manifest = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: a.b.c, annotations: {{a: &a {text}{aliases}}}}}\n"
        );
        assert_eq!(decode_crds(&vec![manifest.clone(); 5]).unwrap().len(), 5);
        let error = decode_crds(&vec![manifest; 7]).unwrap_err();
        assert!(error.starts_with("the CRDs in crds/ have more than 20 MiB"), "{error}");
    }

    #[test]
    fn chart_with_another_digest_is_not_ready() {
        let info = ChartInfo { digest: "new".into(), ..ChartInfo::default() };
        let crds = Ok(Arc::<[_]>::from([]));
        let state = State::Ready(ReadyChart { path: "nova.tgz".into(), crds, may_render_crds: false, info });
        assert!(state.ready("new").is_some());
        assert!(state.ready("old").is_none());
        assert!(State::Pending.ready("").is_none());
    }
}
