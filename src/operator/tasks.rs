//! Background tasks that run concurrently with the reconcile loop.
//!
//! Each task watches or polls one part of the cluster's state, keeps only the data that passes use, and triggers a pass
//! when this data changes. A pass gets the data from [`Tasks::observe`], without a request to the API server.
//!
//! ```text
//! releases     the metadata of helm's release records, and the bodies of records that have changed
//! health       workloads, Jobs, CronJobs, pods that are not ready, Services, volume claims, StorageClasses, nodes
//! drift        changes that others made to the objects of releases
//! endpoints    responses of the services' APIs; `probe_schedule` decides when it probes each API
//! hosts        new Nova hosts, and Nova hosts without a node; deletes hosts after `apply` has allowed the deletion
//! instances    whether Nova has instances, while a cloud is being deleted
//! rollouts     the pods of DaemonSets during a rollout
//! observation  the results of all tasks
//! watch        a watch that restarts after every failure     cache      the values of one watch
//! partial      the fields of objects that osdpl uses          problems   why tasks can't observe the cluster
//! ```
//!
//! Nothing in this module writes to the Kubernetes API server.
//!
//! # Memory
//!
//! The tasks keep data only in memory. Each type or field says why a task keeps the data, and what a restart of the
//! operator loses. Most data are copies of objects in the cluster: caches of watches (`cache`), and results that a task
//! derives from them. The tasks keep them so that a pass needs no request. A restart loses nothing of these data: the
//! tasks list and read the objects again, and passes wait until the first lists are complete ([`Tasks::ready`]). A task
//! that panics and starts again loses at most the same data.

mod cache;
mod drift;
mod endpoints;
mod health;
mod hosts;
mod instances;
mod observation;
mod partial;
mod probe_schedule;
mod problems;
mod releases;
mod rollouts;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::Client;
use osdpl_client::{HttpConfig, Scope};
use osdpl_values::CollectSorted;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch as latest};
use tokio::task::JoinSet;

pub use endpoints::{PROBE_PERIOD, PROBE_TIMEOUT, Probing};
pub use observation::Observation;
pub(crate) use releases::named_namespaces;

use osdpl_core::cause::Chain;
use osdpl_core::drift::ToleratedChanges;
use osdpl_core::endpoint::Target;
use osdpl_core::observed::{
    DaemonSetGroup, EndpointProbe, Liveness, ObservedDrift, ObservedRelease, ReleaseKey, RolloutPods,
};
use osdpl_core::openstack::{Access, HostObservation, HostQuery, InstanceObservation};
use osdpl_core::scrub::Scrubber;
use problems::Problems;

/// The delay before the operator restarts a task that ended or panicked.
const RESTART: Duration = Duration::from_secs(2);

/// The time for which a node can be `NotReady` before the status of the cloud reports this node as a problem.
///
/// A kubelet that restarts reports its node as `NotReady`, and is usually back before this period ends. If a kubelet
/// stops reporting, Kubernetes sets the node to `NotReady` after some 50 s (`node-monitor-grace-period`), and this
/// period begins then.
pub const NODE_GRACE: Duration = Duration::from_secs(40);

/// A function that returns whether a helm process of an operator process could still be running. Its argument is the
/// identity of the operator process.
///
/// As long as such a helm process could be running, osdpl does not unlock the pending release records that the operator
/// process made. The tasks call the function from async code, so the function must not block for long.
pub type LivenessCheck = Arc<dyn Fn(&str) -> Liveness + Send + Sync>;

/// The settings of the tasks.
#[derive(Clone)]
pub struct Options {
    /// The namespaces to watch.
    pub scope: Scope,
    /// Tells whether the operator process that made a release record could still be running helm.
    pub liveness: LivenessCheck,
    /// The kinds (plural names) that the operator, or the user of `osdpl plan`, lacks the right to read.
    ///
    /// The health task does not watch objects of these kinds, and the status does not report problems of such objects.
    pub unreadable_kinds: BTreeSet<&'static str>,
    /// The current scrubber, which the tasks use to remove secrets from logs of pods, and from messages of helm and
    /// Kubernetes.
    pub scrubber: latest::Receiver<Arc<Scrubber>>,
    /// The time for which a node can be `NotReady` before the status reports this node as a problem; see
    /// [`NODE_GRACE`].
    pub node_grace: Duration,
    /// The settings with which the endpoints task probes the APIs of OpenStack services and the hosts task connects to
    /// Nova; `None` disables both tasks.
    pub probing: Option<Probing>,
    /// The settings of the HTTP client with which the instances task asks Nova for instances while a cloud is being
    /// deleted; `None` disables these queries.
    pub nova: Option<HttpConfig>,
    /// The changes to objects of releases that osdpl does not report as drift. With `None`, as in `osdpl plan`, no task
    /// watches for drift.
    pub tolerated_changes: Option<Arc<ToleratedChanges>>,
}

/// The running tasks, with their results. Dropping this value stops the tasks.
///
/// Each receiver contains the last result of a task, and each sender contains what the last plan requested from a task.
/// Senders and receivers store the values so that a pass does not wait for a task, and a task does not wait for a pass.
/// After a restart, the tasks determine their results again, and the first plan sets the requests again. If a restart
/// has another effect on a field, the field's comment describes the effect.
pub struct Tasks {
    releases: latest::Receiver<Option<Arc<BTreeMap<ReleaseKey, ObservedRelease>>>>,
    /// The cloud's namespaces, in which the releases task reads the release records completely. Until the first plan
    /// after a restart, the task uses the namespaces in `Options::scope`; if this is the whole cluster, it uses the
    /// namespaces that the `OpenStackDeployments` name.
    record_namespaces: latest::Sender<Option<BTreeSet<String>>>,
    pending: releases::PendingRecords,
    health: latest::Receiver<Option<Arc<health::Health>>>,
    health_shared: health::Shared,
    drift: latest::Receiver<Option<Arc<BTreeMap<ReleaseKey, ObservedDrift>>>>,
    /// The releases whose objects the drift task watches. Until the first plan after a restart, these are all releases
    /// whose newest revision osdpl made.
    drift_scope: latest::Sender<Option<BTreeSet<ReleaseKey>>>,
    probe_targets: latest::Sender<BTreeMap<ReleaseKey, Target>>,
    /// The latest results of the probes of the APIs. After a restart, the status reports no faults of APIs until the
    /// first probes have ended.
    endpoints: latest::Receiver<Arc<BTreeMap<ReleaseKey, EndpointProbe>>>,
    /// The query with which the hosts task asks Nova for its hosts. It also names the removed nodes whose hosts `apply`
    /// has allowed the task to delete. After a restart, the annotation `osdpl.dev/forget-nodes` still names these
    /// nodes, so `apply` allows the deletion again.
    host_query: latest::Sender<Option<HostQuery>>,
    /// The results of the hosts task. If the operator restarts before a pass has reported a deletion of hosts, this
    /// result is lost. osdpl then finds that the hosts do not exist.
    hosts: latest::Receiver<Option<Arc<HostObservation>>>,
    instance_query: latest::Sender<Option<Access>>,
    instances: latest::Receiver<Option<Arc<InstanceObservation>>>,
    rollout_targets: latest::Sender<BTreeSet<DaemonSetGroup>>,
    rolling: latest::Receiver<Arc<BTreeMap<DaemonSetGroup, RolloutPods>>>,
    problems: Problems,
    _running: Spawner,
}

impl Tasks {
    /// Starts the tasks.
    ///
    /// `trigger` is notified when the result of [`Tasks::observe`] or [`Tasks::describe_problems`] changes.
    pub fn spawn(client: &Client, options: &Options, trigger: &Arc<Notify>) -> Self {
        let problems = Problems::default();
        let mut spawner = Spawner::default();
        let record_namespaces = latest::Sender::new(None);
        let namespaces = record_namespaces.subscribe();
        let (releases, pending) =
            releases::spawn(&mut spawner, client, options, &problems, namespaces, Arc::clone(trigger));
        let (health, health_shared) = health::spawn(&mut spawner, client, options, &problems, Arc::clone(trigger));
        let drift_scope = latest::Sender::new(None);
        let drift_task = drift::DriftTask {
            client: client.clone(),
            options: options.clone(),
            problems: problems.clone(),
            releases: releases.clone(),
            selected: drift_scope.subscribe(),
        };
        let drift = drift::spawn(&mut spawner, drift_task, Arc::clone(trigger));
        let (probe_targets, endpoints) = endpoints::spawn(&mut spawner, options.probing.as_ref(), &problems, trigger);
        let reach = options.probing.as_ref().map(|probing| &probing.reach);
        let (host_query, hosts) = hosts::spawn(&mut spawner, reach, &problems, trigger);
        let (instance_query, instances) = instances::spawn(&mut spawner, options.nova.as_ref(), &problems, trigger);
        let (rollout_targets, rolling) = rollouts::spawn(&mut spawner, client, &options.scrubber, &problems, trigger);
        let (own_problems, trigger) = (problems.clone(), Arc::clone(trigger));
        spawner.spawn("problems", &problems, move || own_problems.clone().notify_changes(Arc::clone(&trigger)));
        Self {
            releases,
            record_namespaces,
            pending,
            health,
            health_shared,
            drift,
            drift_scope,
            probe_targets,
            endpoints,
            host_query,
            hosts,
            instance_query,
            instances,
            rollout_targets,
            rolling,
            problems,
            _running: spawner,
        }
    }

    /// Waits until the tasks have completed their first reads: of the release records, of the workloads with their
    /// pods, and of the objects that may have drifted.
    ///
    /// Before that, [`Tasks::observe`] returns empty results, which do not mean that the cluster is empty. The wait
    /// lasts as long as the API server is unreachable or permissions are missing; [`Tasks::describe_problems`] reports
    /// these problems.
    pub async fn ready(&self) {
        let (mut releases, mut health, mut drift) = (self.releases.clone(), self.health.clone(), self.drift.clone());
        // Ignore the results: waiting fails only if a task drops its sender, and the tasks live as long as `self`.
        let _ = releases.wait_for(Option::is_some).await;
        let _ = health.wait_for(Option::is_some).await;
        let _ = drift.wait_for(Option::is_some).await;
    }

    /// Whether [`Self::ready`] would return at once, because the tasks have completed their first reads.
    pub fn is_ready(&self) -> bool {
        self.releases.borrow().is_some() && self.health.borrow().is_some() && self.drift.borrow().is_some()
    }

    /// Returns the current results of all tasks.
    pub fn observe(&self) -> Observation {
        Observation {
            releases: self.releases.borrow().clone().unwrap_or_default(),
            unchanged: self.pending.unchanged(),
            health: self.health.borrow().clone().unwrap_or_default(),
            drift: self.drift.borrow().clone().unwrap_or_default(),
            endpoints: self.endpoints.borrow().clone(),
            hosts: self.hosts.borrow().clone(),
            instances: self.instances.borrow().clone(),
            rolling: self.rolling.borrow().clone(),
        }
    }

    /// Returns the chain of causes that keeps a pod from being ready; `None` if the pod is ready or belongs to no
    /// release.
    pub fn explain_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        self.health_shared.explain_pod(namespace, name)
    }

    /// Sets the namespaces in which the releases task reads the release records completely, and not only their
    /// metadata. Before the first call, these are the namespaces in [`Options::scope`]; if this is the whole cluster,
    /// these are the namespaces that the `OpenStackDeployments` name.
    pub(crate) fn read_records_in(&self, namespaces: BTreeSet<String>) {
        replace(&self.record_namespaces, Some(namespaces));
    }

    /// Limits the watch for drift to `releases`. Before the first call, the task watches all releases whose newest
    /// revision osdpl made.
    pub(crate) fn watch_drift_of(&self, releases: BTreeSet<ReleaseKey>) {
        replace(&self.drift_scope, Some(releases));
    }

    /// Replaces the set of APIs that the endpoints task probes. The task probes new and changed APIs immediately.
    pub(crate) fn set_probe_targets(&self, targets: BTreeMap<ReleaseKey, Target>) {
        replace(&self.probe_targets, targets);
    }

    /// Replaces the query with which the hosts task asks Nova for its compute hosts; `None` stops the queries.
    ///
    /// The task deletes the hosts of all nodes in the query's field `removed_nodes`. Only `apply` starts such a
    /// deletion, by calling [`Tasks::forget_hosts`]. So this function keeps a node of the new `removed_nodes` only if
    /// `apply` has already called [`Tasks::forget_hosts`] for the node.
    pub(crate) fn set_host_query(&self, query: Option<HostQuery>) {
        let forgotten = self.host_query.borrow().as_ref().map(|current| current.removed_nodes.clone());
        let query = query.map(|query| {
            let removed_nodes = &query.removed_nodes & &forgotten.unwrap_or_default();
            HostQuery { removed_nodes, ..query }
        });
        replace(&self.host_query, query);
    }

    /// Sets the URL and credentials with which the instances task asks Nova for instances; `None` stops the queries.
    pub(crate) fn set_instance_query(&self, access: Option<Access>) {
        replace(&self.instance_query, access);
    }

    /// Lets the hosts task delete the Nova hosts and Neutron agents of `nodes`. Does nothing if the task has no query.
    ///
    /// If a deletion fails, the task retries it with growing pauses of up to 11 minutes, and after each change of the
    /// query, as long as the calls of [`Tasks::set_host_query`] name the node in `removed_nodes`. The next value of
    /// [`Observation::hosts`] contains the result of the deletions.
    pub(crate) fn forget_hosts(&self, nodes: &[String]) {
        let query = self.host_query.borrow().clone();
        let removed_nodes = nodes.iter().cloned().collect_set();
        replace(&self.host_query, query.map(|query| HostQuery { removed_nodes, ..query }));
    }

    /// Replaces the set of DaemonSets whose pods the rollouts task watches. With an empty set, the task watches
    /// nothing.
    pub(crate) fn watch_rollouts(&self, targets: BTreeSet<DaemonSetGroup>) {
        replace(&self.rollout_targets, targets);
    }

    /// Returns a stream with an item for each change of the health task's result, for example of workloads or nodes.
    pub fn changes(&self) -> impl futures::Stream<Item = ()> + Send + use<> {
        let changes = self.health.clone();
        futures::stream::unfold(
            changes,
            |mut changes| async move { changes.changed().await.ok().map(|()| ((), changes)) },
        )
    }

    /// Describes the problems that keep the tasks from observing the cluster, one line each.
    ///
    /// As long as there is a problem, observations may be out of date.
    pub fn describe_problems(&self) -> Vec<String> {
        self.problems.list()
    }
}

/// Replaces a value, and notifies its receivers if the value changes; returns whether it changes.
fn replace<T: PartialEq>(sender: &latest::Sender<T>, value: T) -> bool {
    sender.send_if_modified(|current| {
        let is_changed = *current != value;
        *current = value;
        is_changed
    })
}

/// Publishes the result of a task, and triggers a pass if the result differs from the previous one.
fn publish<T: PartialEq>(result: T, sender: &latest::Sender<T>, trigger: &Notify) {
    if replace(sender, result) {
        trigger.notify_one();
    }
}

/// Keeps tasks running: restarts a task that ends or panics.
#[derive(Default)]
struct Spawner(JoinSet<()>);

impl Spawner {
    /// Starts a task on the caller's runtime. `start` returns the task's future; the spawner calls `start` again for
    /// each restart.
    fn spawn<F>(&mut self, name: &'static str, problems: &Problems, start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        self.spawn_on(&Handle::current(), name, problems, start);
    }

    fn spawn_on<F>(
        &mut self,
        runtime: &Handle,
        name: &'static str,
        problems: &Problems,
        mut start: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let problems = problems.clone();
        let task = async move {
            loop {
                // Rust writes the message of a panic to stderr. Do not repeat this message in the status, because it
                // may contain secrets.
                let outcome = AssertUnwindSafe(start()).catch_unwind().await;
                let how = if outcome.is_err() { "panicked, see the log" } else { "ended" };
                problems.report_event("running", name, format!("the task {how}; osdpl restarts it"));
                tokio::time::sleep(RESTART).await;
            }
        };
        self.0.spawn_on(task, runtime);
    }
}
