//! Watches the objects of releases for drift: changes that someone other than helm made since helm last installed or
//! upgraded the release.
//!
//! The task watches the metadata of the objects that have helm's label, for each kind in the releases' manifests. It
//! keeps a [`osdpl_core::drift::WriterTrace`] of each object: who wrote the object, when, and which fields.
//!
//! A change that helm has just made may look like drift, because the watch on the object may report the change before
//! the watch on helm's release records reports the upgrade. So the task checks each object that looks changed: it reads
//! the object from the API server, and then checks whether helm has started an upgrade or uninstall that the watch on
//! records has not reported yet. If so, the task does not report the object until the watch on records has reported
//! this upgrade or uninstall.

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
use osdpl_values::CollectSorted;
use tokio::sync::{Notify, watch};

use check::Checks;
use head::ObjectHead;
use store::{Store, Suspect};

use super::problems::Problems;
use super::watch::{WatchedKind, follow_objects};
use super::{Options, Spawner, publish};
use osdpl_core::drift::{Kind, ToleratedChanges, WriterTrace};
use osdpl_core::observed::{ObservedDrift, ObservedRelease, ReleaseKey};

/// The label that helm sets on every object of a release except hooks (helm: `action.setMetadataVisitor`).
const OWNED_BY_HELM: &str = "app.kubernetes.io/managed-by=Helm";

/// The time for which the task collects changes of watched objects before it evaluates them together.
const DEBOUNCE: Duration = Duration::from_millis(15);

/// The delay before the task repeats a check that ended without a result: a read failed, or helm was working on the
/// release.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of objects that the task reads at the same time.
const FETCHES: usize = 4;

/// The drift that the task has found, by release.
type Found = BTreeMap<ReleaseKey, ObservedDrift>;

/// Everything that the drift task needs: the client, the settings and the releases to watch.
#[derive(Clone)]
pub(super) struct DriftTask {
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) problems: Problems,
    pub(super) releases: watch::Receiver<Option<Arc<BTreeMap<ReleaseKey, ObservedRelease>>>>,
    /// The releases to watch for drift; `None` means all releases whose newest revision osdpl made.
    pub(super) selected: watch::Receiver<Option<BTreeSet<ReleaseKey>>>,
}

/// The store of the watched objects, and the notification that the store changed. After a restart of the operator, the
/// watches list the objects again.
#[derive(Clone, Default)]
struct Shared {
    store: Arc<Mutex<Store>>,
    changed: Arc<Notify>,
}

impl Shared {
    /// Locks the store, even if a watch panicked while it held the lock. A panicked watch restarts and lists all its
    /// objects again, so the store becomes complete again.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the drift task; returns a receiver of the drift that the task finds.
///
/// The receiver's value is `None` until the first checks have ended. The checks start when every watch has completed
/// its first list or has failed. Without [`Options::tolerated_changes`], the function starts no task, and the receiver
/// contains no drift.
pub(super) fn spawn(
    spawner: &mut Spawner,
    task: DriftTask,
    trigger: Arc<Notify>,
) -> watch::Receiver<Option<Arc<Found>>> {
    let Some(tolerated) = task.options.tolerated_changes.clone() else { return watch::channel(Some(Arc::default())).1 };
    let (sender, receiver) = watch::channel(None);
    let problems = task.problems.clone();
    spawner.spawn("drift", &problems, move || {
        task.clone().run(Arc::clone(&tolerated), sender.clone(), Arc::clone(&trigger))
    });
    receiver
}

impl DriftTask {
    async fn run(
        mut self,
        tolerated: Arc<ToleratedChanges>,
        sender: watch::Sender<Option<Arc<Found>>>,
        trigger: Arc<Notify>,
    ) {
        let shared = Shared::default();
        let mut watches: BTreeMap<&'static Kind, Spawner> = BTreeMap::new();
        let mut checks = Checks::new(self.client.clone(), Arc::clone(&tolerated), self.problems.clone());
        let mut fetching = FuturesUnordered::new();
        loop {
            let releases = self.releases.borrow_and_update().clone();
            let selected = self.selected.borrow_and_update().clone();
            let mut recheck = false;
            if let Some(releases) = &releases {
                let included: Vec<_> =
                    releases.iter().filter(|(key, release)| is_included(key, release, selected.as_ref())).collect();
                self.watch(&mut watches, &shared, &tolerated, &included);
                let suspects = shared.store().suspects(&included, &self.options.scope);
                recheck = checks.is_unsettled();
                if let Some(suspects) = suspects {
                    let (found, wanted) = checks.found(&included, &suspects, FETCHES.saturating_sub(fetching.len()));
                    fetching.extend(wanted);
                    // Publish nothing while checks are running: `found` lacks the drift of the objects being checked,
                    // so drift that still exists would seem resolved until the checks have ended.
                    if fetching.is_empty() {
                        publish(Some(Arc::new(found)), &sender, &trigger);
                    }
                }
            }
            tokio::select! {
                () = shared.changed.notified() => tokio::time::sleep(DEBOUNCE).await,
                Some(result) = fetching.next() => checks.store_result(result),
                Ok(()) = self.releases.changed() => {}
                Ok(()) = self.selected.changed() => {}
                () = tokio::time::sleep(RECHECK_INTERVAL), if recheck => {}
            }
        }
    }

    /// Starts and stops watches so that the task watches exactly the kinds in the manifests of the releases.
    fn watch(
        &self,
        watches: &mut BTreeMap<&'static Kind, Spawner>,
        shared: &Shared,
        tolerated: &Arc<ToleratedChanges>,
        included: &[(&ReleaseKey, &ObservedRelease)],
    ) {
        let bodies = included.iter().filter_map(|(_, release)| release.body.as_ref());
        let kinds: BTreeSet<&'static Kind> =
            bodies.flat_map(|body| body.applied_objects.keys().map(|id| id.kind)).collect_set();
        watches.retain(|kind, _| kinds.contains(kind));
        shared.store().retain(&kinds);
        for kind in kinds {
            watches.entry(kind).or_insert_with(|| self.start(kind, shared, tolerated));
        }
    }

    fn start(&self, kind: &'static Kind, shared: &Shared, tolerated: &Arc<ToleratedChanges>) -> Spawner {
        let mut spawner = Spawner::default();
        let selector = watcher::Config::default().labels(OWNED_BY_HELM);
        let watched = WatchedKind { group: kind.group, plural: kind.plural };
        for (index, api) in head::apis(kind, &self.options.scope, &self.client).into_iter().enumerate() {
            shared.store().add(kind, index);
            let (shared, selector, problems) = (shared.clone(), selector.clone(), self.problems.clone());
            let tolerated = Arc::clone(tolerated);
            spawner.spawn("drift", &self.problems, move || {
                let (shared, tolerated) = (shared.clone(), Arc::clone(&tolerated));
                follow_objects(api.clone(), watched, selector.clone(), problems.clone(), move |update| {
                    let read = |head: &ObjectHead| Some(WriterTrace::read(&head.writers, &tolerated));
                    if shared.store().take(kind, index, update, read) {
                        shared.changed.notify_one();
                    }
                })
            });
        }
        spawner
    }
}

/// Whether the task watches a release for drift: `selected` contains the release (or is `None`), and osdpl made the
/// newest revision of the release.
fn is_included(key: &ReleaseKey, release: &ObservedRelease, selected: Option<&BTreeSet<ReleaseKey>>) -> bool {
    let made_by_operator = release.attempt.as_ref().is_some_and(|attempt| attempt.revision == release.revision);
    made_by_operator && selected.is_none_or(|selected| selected.contains(key))
}
