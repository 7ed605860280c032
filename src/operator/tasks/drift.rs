//! Looks after the objects of releases: what others did to them since helm was there.
//!
//! Of every kind that a manifest of the releases holds the metadata is watched, of objects with helm's label; other kinds are not, and of
//! releases that nobody wants looked after none is. An object is kept as a few words ([`osdpl_core::drift::Trace`]). Watches of objects and of helm's
//! records tell in no order: what looks changed is read from the API server itself before it is told, and after it whether helm was at the release
//! meanwhile. Where it was, nothing is told of the object until the watch has told of what helm did.

mod check;
mod head;
mod record;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::{Notify, watch};

use check::Checks;
use head::Head;
use store::{Store, Suspect};

use super::problems::Problems;
use super::show::show;
use super::watch::{What, follow_objects};
use super::{Options, Spawner};
use osdpl_core::drift::{Kind, Tolerated, Trace};
use osdpl_core::observed::{DriftSeen, Key, ReleaseSeen};

/// helm's label on every object of a release that is no hook (helm: `action.setMetadataVisitor`).
const OWNED_BY_HELM: &str = "app.kubernetes.io/managed-by=Helm";

/// How long a burst of changes is gathered before it is looked at.
const BURST: Duration = Duration::from_millis(15);

/// How often it is looked again where something could not be read, or where helm was at it and no watch tells of that.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How many objects are read at a time.
const FETCHES: usize = 4;

/// What was found, by release.
type Found = BTreeMap<Key, DriftSeen>;

/// What the task works with.
#[derive(Clone)]
pub(super) struct Looker {
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) problems: Problems,
    pub(super) releases: watch::Receiver<Option<Arc<BTreeMap<Key, ReleaseSeen>>>>,
    /// The releases to look after; `None` means all that are ours.
    pub(super) attended: watch::Receiver<Option<BTreeSet<Key>>>,
}

/// The store, and the news that something in it changed.
#[derive(Clone, Default)]
struct Shared {
    store: Arc<Mutex<Store>>,
    changed: Arc<Notify>,
}

impl Shared {
    /// A watch that panicked in here lists anew when it starts again.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the task; the picture is `None` until everything was seen once.
pub(super) fn spawn(spawner: &mut Spawner, looker: Looker, poke: Arc<Notify>) -> watch::Receiver<Option<Arc<Found>>> {
    let Some(tolerated) = looker.options.tolerated.clone() else { return watch::channel(Some(Arc::default())).1 };
    let (sender, receiver) = watch::channel(None);
    let problems = looker.problems.clone();
    spawner.spawn("drift", &problems, move || {
        looker.clone().run(Arc::clone(&tolerated), sender.clone(), Arc::clone(&poke))
    });
    receiver
}

impl Looker {
    async fn run(mut self, tolerated: Arc<Tolerated>, sender: watch::Sender<Option<Arc<Found>>>, poke: Arc<Notify>) {
        let shared = Shared::default();
        let mut watches: BTreeMap<&'static Kind, Spawner> = BTreeMap::new();
        let mut checks = Checks::new(self.client.clone(), Arc::clone(&tolerated), self.problems.clone());
        let mut fetching = FuturesUnordered::new();
        loop {
            let releases = self.releases.borrow_and_update().clone();
            let attended = self.attended.borrow_and_update().clone();
            let mut look_again = false;
            if let Some(releases) = &releases {
                let cared: Vec<_> =
                    releases.iter().filter(|(key, seen)| is_cared(key, seen, attended.as_ref())).collect();
                self.watch(&mut watches, &shared, &tolerated, &cared);
                let suspects = shared.store().suspects(&cared, &self.options.scope);
                look_again = checks.is_unsettled();
                if let Some(suspects) = suspects {
                    let (found, wanted) = checks.found(&cared, &suspects, FETCHES.saturating_sub(fetching.len()));
                    fetching.extend(wanted);
                    // A half picture would tell that something is over, and a moment later that it is not.
                    if fetching.is_empty() {
                        show(Some(Arc::new(found)), &sender, &poke);
                    }
                }
            }
            tokio::select! {
                () = shared.changed.notified() => tokio::time::sleep(BURST).await,
                Some(answer) = fetching.next() => checks.keep(answer),
                Ok(()) = self.releases.changed() => {}
                Ok(()) = self.attended.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if look_again => {}
            }
        }
    }

    /// Watches exactly the kinds that the manifests hold.
    fn watch(
        &self,
        watches: &mut BTreeMap<&'static Kind, Spawner>,
        shared: &Shared,
        tolerated: &Arc<Tolerated>,
        cared: &[(&Key, &ReleaseSeen)],
    ) {
        let bodies = cared.iter().filter_map(|(_, seen)| seen.body.as_ref());
        let kinds: BTreeSet<&'static Kind> = bodies.flat_map(|body| body.left.keys().map(|id| id.kind)).collect();
        watches.retain(|kind, _| kinds.contains(kind));
        shared.store().retain(&kinds);
        for kind in kinds {
            watches.entry(kind).or_insert_with(|| self.start(kind, shared, tolerated));
        }
    }

    fn start(&self, kind: &'static Kind, shared: &Shared, tolerated: &Arc<Tolerated>) -> Spawner {
        let mut spawner = Spawner::default();
        let selector = watcher::Config::default().labels(OWNED_BY_HELM);
        let what = What { group: kind.group, plural: kind.plural };
        for (index, api) in head::apis(kind, &self.options.scope, &self.client).into_iter().enumerate() {
            shared.store().add(kind, index);
            let (shared, selector, problems) = (shared.clone(), selector.clone(), self.problems.clone());
            let tolerated = Arc::clone(tolerated);
            spawner.spawn("drift", &self.problems, move || {
                let (shared, tolerated) = (shared.clone(), Arc::clone(&tolerated));
                follow_objects(api.clone(), what, selector.clone(), problems.clone(), move |news| {
                    let read = |head: &Head| Some(Trace::read(&head.writers, &tolerated));
                    if shared.store().take(kind, index, news, read) {
                        shared.changed.notify_one();
                    }
                })
            });
        }
        spawner
    }
}

/// Whether the release is looked after now: it is to be, its newest revision is ours, and nothing is being done to it.
fn is_cared(key: &Key, seen: &ReleaseSeen, attended: Option<&BTreeSet<Key>>) -> bool {
    let ours = seen.attempt.as_ref().is_some_and(|attempt| attempt.revision == seen.revision);
    ours && attended.is_none_or(|attended| attended.contains(key))
}
