//! Observes workloads, Jobs, `CronJobs`, the pods that are not ready, volume claims and nodes.
//!
//! The watches store small extracts of the objects in a [`Store`]. The health task derives the health of workloads and
//! Jobs from the store, fetches the logs and events that explain failures, and triggers a pass when the result has
//! changed.

mod events;
mod logs;
mod mounts;
mod nodes;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::{Notify, watch};

pub(super) use store::Health;
use store::{Batch, Change, Overview, Store, WatchedPod, add};

use super::partial::{
    Claim, Class, CronJob, DaemonSet, Deployment, Job, Kind, Node, Partial, Pod, Service, StatefulSet,
};
use super::problems::Problems;
use super::watch::{Update, apis, follow};
use super::{Options, Spawner, publish};
use crate::clock::steady as now;
use osdpl_core::api::NODE_LABELS;
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::cause::Chain;
use osdpl_core::health::node::Readiness;
use osdpl_core::health::{RELEASE_GROUP, cron, storage, workload};
use osdpl_core::observed;

/// The label that helm sets on every object of a release except hooks.
const OWNED_BY_HELM: &str = "app.kubernetes.io/managed-by=Helm";

/// The time for which the task collects changes of watched objects before it evaluates them together.
const DEBOUNCE: Duration = Duration::from_millis(15);

/// The maximum number of concurrent log requests.
const FETCHES: usize = 2;

/// The store of the watched objects, and the notification that the store changed.
#[derive(Clone, Default)]
pub(super) struct Shared {
    store: Arc<Mutex<Store>>,
    changed: Arc<Notify>,
}

impl Shared {
    /// Locks the store, even if a watch panicked while it held the lock. A panicked watch restarts and lists all its
    /// objects again, so the store becomes complete again.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the chain of causes that explains why a pod is not ready; `None` if the pod is ready or belongs to no
    /// release.
    pub(super) fn explain_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        let mut store = self.store();
        store.now = now();
        store.explain_pod(namespace, name)
    }

    fn apply(&self, change: impl FnOnce(&mut Store) -> Change) {
        if change(&mut self.store()) == Change::Some {
            self.changed.notify_one();
        }
    }
}

/// Starts the watches and the health task. Returns a receiver of the task's latest result, and the store of the watched
/// objects.
///
/// The receiver's value is `None` until the watches have listed the objects of all required kinds once
/// (`Store::is_listed`).
pub(super) fn spawn(
    spawner: &mut Spawner,
    client: &Client,
    options: &Options,
    problems: &Problems,
    trigger: Arc<Notify>,
) -> (watch::Receiver<Option<Arc<Health>>>, Shared) {
    let shared = Shared::default();
    shared.store().grace = options.node_grace;
    Watches { spawner, client, options, problems, shared: &shared }.watch_all();
    let (sender, receiver) = watch::channel(None);
    let (client, scrubber, task_shared) = (client.clone(), options.scrubber.clone(), shared.clone());
    spawner.spawn("health", problems, move || {
        let logs = logs::Logs::new(client.clone(), scrubber.clone());
        run(task_shared.clone(), client.clone(), logs, sender.clone(), Arc::clone(&trigger))
    });
    (receiver, shared)
}

fn read_node(node: &Partial<Node>) -> observed::Node {
    let metadata = &node.metadata;
    let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(NODE_LABELS));
    let missing = node.status.readiness() != Readiness::Ready;
    let observed =
        observed::Node::new(metadata.uid.as_deref(), metadata.labels.as_ref(), annotation.map(String::as_str));
    observed::Node { missing, pod_networks: node.spec.pod_networks.clone(), ..observed }
}

struct Watches<'a> {
    spawner: &'a mut Spawner,
    client: &'a Client,
    options: &'a Options,
    problems: &'a Problems,
    shared: &'a Shared,
}

impl Watches<'_> {
    fn watch_all(&mut self) {
        let helm = watcher::Config::default().labels(OWNED_BY_HELM);
        self.watch_workloads::<Deployment>(WorkloadKind::Deployment, &helm);
        self.watch_workloads::<StatefulSet>(WorkloadKind::StatefulSet, &helm);
        self.watch_workloads::<DaemonSet>(WorkloadKind::DaemonSet, &helm);
        self.watch_jobs(&helm);
        self.watch_pods();
        self.watch_storage();
        self.watch_nodes();
    }

    fn watch_jobs(&mut self, helm: &watcher::Config) {
        let scrubber = self.options.scrubber.clone();
        // Watch all Jobs, because no label selects all Jobs of releases: hooks lack helm's label, and some Jobs of
        // OpenStack-Helm lack the label `release_group`. `Batch::read` then ignores the Jobs that belong to no release.
        self.watch_kind::<Job>(
            &watcher::Config::default(),
            |store| add(&mut store.jobs),
            move |store, index, update| {
                let scrubber = scrubber.borrow();
                store.jobs[index].apply(update, |job| Batch::read(job, &scrubber))
            },
        );
        self.watch_kind::<CronJob>(
            helm,
            |store| add(&mut store.crons),
            |store, index, update| {
                store.crons[index].apply(update, |cron| cron::observe(&cron.metadata, &cron.spec, &cron.status))
            },
        );
    }

    /// Watches the pods of releases. Also watches all Services, because a pod can wait for the pods that a Service
    /// selects.
    fn watch_pods(&mut self) {
        let scrubber = self.options.scrubber.clone();
        self.watch_kind::<Pod>(
            &watcher::Config::default().labels(RELEASE_GROUP),
            |store| add(&mut store.pods),
            move |store, index, update| {
                let scrubber = scrubber.borrow();
                let Store { pods, shared, images, .. } = store;
                pods[index].apply(update, |pod| WatchedPod::read(pod, &scrubber, shared, images))
            },
        );
        self.watch_kind::<Service>(
            &watcher::Config::default(),
            |store| add(&mut store.services),
            |store, index, update| store.services[index].apply(update, |service| Some(service.spec.selector.clone())),
        );
    }

    fn watch_storage(&mut self) {
        let all = watcher::Config::default();
        self.watch_kind::<Claim>(
            &all,
            |store| add(&mut store.claims),
            |store, index, update| {
                store.claims[index].apply(update, |claim| storage::claim(&claim.metadata, &claim.spec, &claim.status))
            },
        );
        self.watch_kind::<Class>(
            &all,
            |store| add(&mut store.classes),
            |store, index, update| {
                store.classes[index].apply(update, |class| storage::class(&class.metadata, &class.provisioner))
            },
        );
    }

    fn watch_nodes(&mut self) {
        self.watch_kind::<Node>(
            &watcher::Config::default(),
            |store| add(&mut store.nodes),
            |store, index, update| {
                let Store { nodes, node_times, .. } = store;
                let is_changed = nodes[index].apply(update, |node| {
                    let name = node.metadata.name.as_deref().unwrap_or_default();
                    Some((node_times.observe(name, node.status.readiness(), now()), read_node(node)))
                });
                if is_changed {
                    node_times.forget_others(nodes[index].entries().map(|((_, name), _)| name.as_str()));
                }
                is_changed
            },
        );
    }

    fn watch_workloads<K>(&mut self, kind: WorkloadKind, selector: &watcher::Config)
    where
        K: Kind<Spec = workload::Spec, Status = workload::Status>,
    {
        let scrubber = self.options.scrubber.clone();
        self.watch_kind::<K>(
            selector,
            |store| add(&mut store.workloads),
            move |store, index, update| {
                let scrubber = scrubber.borrow();
                store.workloads[index].apply(update, |object: &Partial<K>| {
                    workload::observe(kind, &object.metadata, &object.spec, &object.status, &scrubber)
                })
            },
        );
    }

    /// Starts the watches of a kind: one watch for the whole cluster, or one for each namespace. Starts none if the
    /// kind is in [`Options::unreadable_kinds`].
    ///
    /// `add` adds a cache for one watch to the store, and returns the index of the cache. `take` stores an update of
    /// this watch in the cache, and returns whether the store changed.
    fn watch_kind<K: Kind>(
        &mut self,
        selector: &watcher::Config,
        add: fn(&mut Store) -> usize,
        take: impl Fn(&mut Store, usize, Update<Partial<K>>) -> bool + Clone + Send + 'static,
    ) {
        if self.options.unreadable_kinds.contains(K::PLURAL) {
            return;
        }
        for api in apis::<K>(&self.options.scope, self.client) {
            let index = add(&mut self.shared.store());
            let (shared, selector, problems) = (self.shared.clone(), selector.clone(), self.problems.clone());
            let take = take.clone();
            self.spawner.spawn(K::PLURAL, self.problems, move || {
                let (shared, take) = (shared.clone(), take.clone());
                follow(api.clone(), selector.clone(), problems.clone(), move |update| {
                    shared.apply(|store| if take(store, index, update) { Change::Some } else { Change::None });
                })
            });
        }
    }
}

/// Assesses the objects in the store after each change. Triggers a pass when the result differs from the previous
/// result.
async fn run(
    shared: Shared,
    client: Client,
    logs: logs::Logs,
    sender: watch::Sender<Option<Arc<Health>>>,
    trigger: Arc<Notify>,
) {
    let mut fetches = FuturesUnordered::new();
    let mut mount_checks = FuturesUnordered::new();
    let mut event_queries = FuturesUnordered::new();
    let mut tick = tokio::time::interval(mounts::RECHECK_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    shared.store().forget_fetches();
    loop {
        let (Overview { health, wanted, unexplained }, next_loss) = {
            let mut store = shared.store();
            store.now = now();
            (store.overview(FETCHES.saturating_sub(fetches.len())), store.next_loss())
        };
        fetches.extend(wanted.into_iter().map(|wanted| logs.fetch(wanted)));
        // Publish the first result only after all logs were fetched, so that the status does not lose the texts from
        // logs whenever the operator restarts.
        if let Some(health) = health.filter(|_| fetches.is_empty() || sender.borrow().is_some()) {
            publish(Some(Arc::new(health)), &sender, &trigger);
        }
        tokio::select! {
            () = shared.changed.notified() => tokio::time::sleep(DEBOUNCE).await,
            () = tokio::time::sleep(next_loss.unwrap_or_default()), if next_loss.is_some() => {}
            Some(log) = fetches.next() => shared.store().store_log(log),
            Some(missing) = mount_checks.next() => shared.store().store_missing_mounts(missing),
            Some(message) = event_queries.next() => shared.store().store_event(message),
            _ = tick.tick(), if unexplained => {
                let subjects = shared.store().due_event_queries();
                event_queries.extend(subjects.into_iter().map(|subject| logs.fetch_event(subject)));
                let queries = shared.store().due_mount_queries();
                mount_checks.extend(queries.into_iter().map(|query| mounts::find_missing(client.clone(), query)));
            }
        }
    }
}
