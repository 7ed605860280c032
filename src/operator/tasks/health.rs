//! Keeps what is known of workloads, Jobs and of the pods that are not ready.
//!
//! The watches put small values into a [`Store`]; one task makes the picture of them, fetches the logs that explain failing
//! Jobs, and pokes when the picture has changed.

mod logs;
mod mounts;
mod said;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::{Notify, watch};

pub(super) use store::Health;
use store::{Batch, Change, Overview, Store, add};

use super::partial::{
    Claim, Class, CronJob, DaemonSet, Deployment, Job, Kind, Node, Partial, Pod, Service, StatefulSet,
};
use super::problems::Problems;
use super::show::show;
use super::watch::{News, follow};
use super::{Options, Spawner};
use osdpl_core::api::NODE_LABELS;
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::cause::Chain;
use osdpl_core::health::node::Presence;
use osdpl_core::health::{cron, job, pod, storage, workload};
use osdpl_core::observed;

/// helm's label on every object of a release that is no hook.
const OWNED_BY_HELM: &str = "app.kubernetes.io/managed-by=Helm";

/// How long a burst of changes is gathered before a picture is made of it.
const BURST: Duration = Duration::from_millis(15);

/// How many logs are fetched at a time.
const FETCHES: usize = 2;

/// The store, and the news that something in it changed.
#[derive(Clone, Default)]
pub(super) struct Shared {
    store: Arc<Mutex<Store>>,
    changed: Arc<Notify>,
}

impl Shared {
    /// A watch that panicked in here lists anew when it starts again.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a pod is not ready, from it to its root.
    pub(super) fn of_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        let mut store = self.store();
        store.now = now();
        store.of_pod(namespace, name)
    }

    fn apply(&self, change: impl FnOnce(&mut Store) -> Change) {
        if change(&mut self.store()) == Change::Some {
            self.changed.notify_one();
        }
    }
}

/// Starts the watches and the task that makes the picture; it is `None` until everything was listed once.
pub(super) fn spawn(
    spawner: &mut Spawner,
    client: &Client,
    options: &Options,
    problems: &Problems,
    poke: Arc<Notify>,
) -> (watch::Receiver<Option<Arc<Health>>>, Shared) {
    let shared = Shared::default();
    shared.store().grace = options.node_grace;
    Watches { spawner, client, options, problems, shared: &shared }.of_all();
    let (sender, receiver) = watch::channel(None);
    let (client, scrubber, painted) = (client.clone(), options.scrubber.clone(), shared.clone());
    spawner.spawn("health", problems, move || {
        let logs = logs::Logs::new(client.clone(), scrubber.clone());
        paint(painted.clone(), client.clone(), logs, sender.clone(), Arc::clone(&poke))
    });
    (receiver, shared)
}

fn seen(node: &Partial<Node>) -> observed::Node {
    let metadata = &node.metadata;
    let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(NODE_LABELS));
    let missing = node.status.presence() != Presence::Ready;
    let seen = observed::Node::new(metadata.uid.as_deref(), metadata.labels.as_ref(), annotation.map(String::as_str));
    observed::Node { missing, pod_networks: node.spec.pod_networks.clone(), ..seen }
}

struct Watches<'a> {
    spawner: &'a mut Spawner,
    client: &'a Client,
    options: &'a Options,
    problems: &'a Problems,
    shared: &'a Shared,
}

impl Watches<'_> {
    fn of_all(&mut self) {
        let helm = || watcher::Config::default().labels(OWNED_BY_HELM);
        let upstream = || watcher::Config::default().labels(job::RELEASE_GROUP);
        self.of_workloads::<Deployment>(WorkloadKind::Deployment, &helm());
        self.of_workloads::<StatefulSet>(WorkloadKind::StatefulSet, &helm());
        self.of_workloads::<DaemonSet>(WorkloadKind::DaemonSet, &helm());
        // Hooks lack helm's label, and some of upstream's Jobs its own: which count is decided object by object.
        let all = watcher::Config::default();
        self.of::<Job>(
            &all,
            |store| add(&mut store.jobs),
            |store, index, news| store.jobs[index].take(news, Batch::read),
        );
        self.of::<CronJob>(
            &helm(),
            |store| add(&mut store.crons),
            |store, index, news| {
                store.crons[index].take(news, |cron| cron::observe(&cron.metadata, &cron.spec, &cron.status))
            },
        );
        self.of::<Pod>(
            &upstream(),
            |store| add(&mut store.pods),
            |store, index, news| {
                let Store { pods, shared, .. } = store;
                pods[index]
                    .take(news, |pod| pod::observe(&pod.metadata, &pod.spec, &pod.status).map(|pod| shared.share(pod)))
            },
        );
        self.of::<Service>(
            &all,
            |store| add(&mut store.services),
            |store, index, news| store.services[index].take(news, |service| Some(service.spec.selector.clone())),
        );
        self.of::<Claim>(
            &all,
            |store| add(&mut store.claims),
            |store, index, news| {
                store.claims[index].take(news, |claim| storage::claim(&claim.metadata, &claim.spec, &claim.status))
            },
        );
        self.of::<Class>(
            &all,
            |store| add(&mut store.classes),
            |store, index, news| {
                store.classes[index].take(news, |class| storage::class(&class.metadata, &class.provisioner))
            },
        );
        self.of::<Node>(
            &all,
            |store| add(&mut store.nodes),
            |store, index, news| store.nodes[index].take(news, |node| Some((node.status.presence(), seen(node)))),
        );
    }

    fn of_workloads<K>(&mut self, kind: WorkloadKind, selector: &watcher::Config)
    where
        K: Kind<Spec = workload::Spec, Status = workload::Status>,
    {
        self.of::<K>(
            selector,
            |store| add(&mut store.workloads),
            move |store, index, news| {
                store.workloads[index].take(news, |object: &Partial<K>| {
                    workload::observe(kind, &object.metadata, &object.spec, &object.status)
                })
            },
        );
    }

    /// One watch for each namespace, each with a shard of its own.
    fn of<K: Kind>(
        &mut self,
        selector: &watcher::Config,
        add: fn(&mut Store) -> usize,
        take: impl Fn(&mut Store, usize, News<Partial<K>>) -> bool + Clone + Send + 'static,
    ) {
        if self.options.without.contains(K::PLURAL) {
            return;
        }
        for api in self.options.scope.apis::<K>(self.client) {
            let index = add(&mut self.shared.store());
            let (shared, selector, problems) = (self.shared.clone(), selector.clone(), self.problems.clone());
            let take = take.clone();
            self.spawner.spawn(K::PLURAL, self.problems, move || {
                let (shared, take) = (shared.clone(), take.clone());
                follow(api.clone(), selector.clone(), problems.clone(), move |news| {
                    shared.apply(|store| if take(store, index, news) { Change::Some } else { Change::None });
                })
            });
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the shell's clock: how long a node is missing")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Makes a picture whenever something changed, and pokes when it is another one.
async fn paint(
    shared: Shared,
    client: Client,
    logs: logs::Logs,
    sender: watch::Sender<Option<Arc<Health>>>,
    poke: Arc<Notify>,
) {
    let mut fetches = FuturesUnordered::new();
    let mut searches = FuturesUnordered::new();
    let mut questions = FuturesUnordered::new();
    let mut look = tokio::time::interval(mounts::LOOK_AGAIN);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    shared.store().forget_fetches();
    loop {
        let (Overview { picture, wanted, silent }, soon) = {
            let mut store = shared.store();
            store.now = now();
            (store.look_over(FETCHES.saturating_sub(fetches.len())), store.next_loss())
        };
        fetches.extend(wanted.into_iter().map(|wanted| logs.fetch(wanted)));
        // At the start the whole picture is awaited, so that a restart shows what was shown before.
        if let Some(picture) = picture.filter(|_| fetches.is_empty() || sender.borrow().is_some()) {
            show(Some(Arc::new(picture)), &sender, &poke);
        }
        tokio::select! {
            () = shared.changed.notified() => tokio::time::sleep(BURST).await,
            () = tokio::time::sleep(soon.unwrap_or_default()), if soon.is_some() => {}
            Some(log) = fetches.next() => shared.store().keep_log(log),
            Some(found) = searches.next() => shared.store().keep_found(found),
            Some(heard) = questions.next() => shared.store().keep_heard(heard),
            _ = look.tick(), if silent => {
                questions.extend(shared.store().listen().into_iter().map(|subject| logs.ask(subject)));
                searches.extend(shared.store().look().into_iter().map(|sought| mounts::find(client.clone(), sought)));
            }
        }
    }
}
