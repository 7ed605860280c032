//! The controller of `OpenStackDeployment`s. A pass, which is one reconcile, reads, decides, applies and reports.
//!
//! ```text
//! read           collects the snapshot                 memory       the data that later passes need
//! apply          executes the actions of a plan        outcomes     results of helm processes
//! publish        writes the status and events          secrets      the secrets that logs must not contain
//! pass_failures  reports failed passes in the status   charts       the charts of releases
//! webhook        provides the data for the webhook     catalog      the catalogue with its additions
//! preview        makes the plan for `osdpl plan`       maintenance  the settings for NodeMaintenance resources
//! apply_release  starts helm, changes release records  rendered     renders charts to find their CRDs
//! ```
//!
//! A pass never waits for an upgrade or uninstall by helm. The documentation of the binary lists what triggers a pass.

mod apply;
mod apply_release;
mod catalog;
mod charts;
mod maintenance;
mod memory;
mod outcomes;
mod pass_failures;
mod preview;
mod publish;
mod read;
mod rendered;
mod secrets;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use osdpl_values::CollectSorted;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

pub use apply_release::build_upgrade;
pub use catalog::{CatalogBuild, CatalogHandle, CatalogWithFindings};
pub use charts::{ChartSource, chart_of_release};
pub use preview::{Preview, preview};
pub use secrets::collect_secrets;

use crate::clock::steady as now;
use crate::cluster::{Cluster, Error, ObjectWatches};
use crate::helm::Runner;
use crate::lease::Leadership;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use memory::Memory;
use osdpl_client::{Scope, Stored, run_controller};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::scrub::Scrubber;
use osdpl_core::status::Ignored;
use osdpl_decide::{Hold, Plan, decide, decide_ignored, find_older, find_outside, is_finalized};

/// The delay until the next pass if this pass has requested reads, or has changed objects that the next plan needs.
const NEXT_PASS: Duration = Duration::from_millis(5);

/// The delay between a failed pass and the next pass.
const ERROR_DELAY: Duration = Duration::from_secs(3);

/// The minimum delay that [`requeue`] sets, even if the next pass is already due.
const MIN_DELAY: Duration = Duration::from_millis(50);

/// The clients and tasks that passes use, and the data that must outlive a pass.
pub struct Context {
    /// The client through which passes read and write objects in the cluster.
    pub cluster: Cluster,
    /// The background tasks, which watch workloads, release records and nodes.
    pub tasks: Tasks,
    /// The operator's metrics, which passes update.
    pub metrics: Metrics,
    catalog: CatalogHandle,
    runner: Runner,
    leadership: Leadership,
    inputs: ObjectWatches,
    charts: ChartSource,
    /// Sends the scrubber to the tasks that read logs, so that they can remove all known secrets from the log lines.
    scrubber: tokio::sync::watch::Sender<Arc<Scrubber>>,
    /// The data that passes keep for later passes, see [`Memory`]. A pass locks this mutex until the pass ends, so that
    /// passes run one at a time.
    memory: Mutex<Memory>,
    /// The time after which the operator stops a pass.
    pass_timeout: Duration,
    /// All `OpenStackDeployment`s, as the controller's watch has cached them. The operator ignores all but the oldest
    /// one. [`run`] sets this field when it starts the controller.
    ///
    /// Kept so that a pass knows without a request which resource is the oldest one. A restart loses nothing: the watch
    /// of the new process lists the resources again.
    deployments: OnceLock<Store<Stored<OpenStackDeployment>>>,
    /// The cloud's settings for the maintenance of nodes, from the last plan.
    ///
    /// The controller of `NodeMaintenance` resources uses these settings. After a restart, that controller waits until
    /// the first plan has set this field.
    setting: tokio::sync::watch::Sender<Option<Arc<CloudSettings>>>,
    /// The resources whose last pass failed. For each resource, osdpl keeps the time since which every pass has failed,
    /// because the status reports a failure only if passes have failed for some seconds. A restart of the operator
    /// loses these times.
    pass_failures: std::sync::Mutex<pass_failures::PassFailures>,
    /// The UIDs of resources whose finalizer this process has removed. osdpl ignores these resources, even if the watch
    /// still shows the finalizer.
    ///
    /// The watch may report the removal late. A restart loses nothing: the watch of the new process lists the resources
    /// anew, without the removed finalizers.
    finalized: std::sync::Mutex<BTreeSet<String>>,
    /// The trigger that watches and tasks notify to start a pass of every `OpenStackDeployment`.
    trigger: Arc<Notify>,
}

/// The clients, tasks and settings from which [`Context::new`] creates a context.
pub struct Parts {
    /// The client through which passes read and write objects in the cluster.
    pub cluster: Cluster,
    /// The handle from which passes get the catalogue.
    pub catalog: CatalogHandle,
    /// The background tasks, which watch workloads, release records and nodes.
    pub tasks: Tasks,
    /// The runner that starts and stops helm processes.
    pub runner: Runner,
    /// Whether this process is the active operator, which runs passes.
    pub leadership: Leadership,
    /// The source from which passes get the charts of releases.
    pub charts: ChartSource,
    /// Sends the scrubber to the tasks that read logs, so that they can remove all known secrets from the log lines.
    pub scrubber: tokio::sync::watch::Sender<Arc<Scrubber>>,
    /// The operator's metrics, which passes update.
    pub metrics: Metrics,
    /// The secret texts that the operator found in the cluster when it started.
    pub secrets: BTreeSet<String>,
    /// The time after which the operator stops a pass. Only a slow API server makes a pass take so long.
    pub pass_timeout: Duration,
}

impl Context {
    /// Creates a context, and starts watches on the objects that passes read. The watches notify `trigger` of changes.
    pub fn new(parts: Parts, trigger: &Arc<Notify>) -> Self {
        let Parts { cluster, catalog, tasks, runner, leadership, charts, scrubber, metrics, secrets, pass_timeout } =
            parts;
        Self {
            inputs: cluster.watch_inputs(Arc::clone(trigger)),
            memory: Mutex::new(Memory::with_secrets(secrets, now())),
            pass_timeout,
            deployments: OnceLock::new(),
            setting: tokio::sync::watch::Sender::new(None),
            pass_failures: std::sync::Mutex::default(),
            finalized: std::sync::Mutex::default(),
            trigger: Arc::clone(trigger),
            cluster,
            catalog,
            tasks,
            runner,
            leadership,
            charts,
            scrubber,
            metrics,
        }
    }
}

/// Waits until this process is the active operator, and then runs passes for every `OpenStackDeployment` until `stop`
/// is cancelled; returns when the last pass has ended.
pub async fn run(context: Arc<Context>, trigger: Arc<Notify>, stop: CancellationToken) {
    tokio::select! {
        () = become_active(&context) => {}
        () = stop.cancelled() => return,
    }
    context.metrics.start_passes();
    let controller = context.cluster.controller();
    let (store, metrics) = (controller.store(), context.metrics.clone());
    let _ = context.deployments.set(store.clone());
    let helm = futures::stream::unfold(context.runner.changes(), |mut changes| async move {
        changes.changed().await.ok().map(|()| ((), changes))
    });
    let triggers = futures::stream::unfold(trigger, |trigger| async move {
        trigger.notified().await;
        Some(((), trigger))
    });
    let passes = controller
        .reconcile_all_on(futures::stream::select(triggers, helm))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile, requeue_after_error, context);
    run_controller(passes, "a reconcile pass failed", &store, || metrics.set_ready(), &stop).await;
}

/// Waits until this process is the active operator, and has read the state of the cluster and the stored secrets.
async fn become_active(context: &Context) {
    let was_active = context.leadership.is_active();
    context.tasks.ready().await;
    if !context.leadership.is_active() {
        context.metrics.set_ready();
        tokio::select! {
            () = context.leadership.acquired() => {}
            () = context.follow_stored_secrets() => {}
        }
    }
    if !was_active {
        // Read the stored secrets again: the previous active operator may have written secrets since the last read.
        context.learn_stored_secrets().await;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn requeue_after_error(_: Arc<Stored<OpenStackDeployment>>, _: &Error, context: Arc<Context>) -> Action {
    context.metrics.count_failure();
    Action::requeue(ERROR_DELAY)
}

/// Runs a pass for a resource. If passes keep failing, reports the failure in the status.
///
/// # Errors
/// Returns an error if the API server refuses a request without which the pass cannot continue, or does not respond in
/// time. The status reports all other problems.
async fn reconcile(stored: Arc<Stored<OpenStackDeployment>>, context: Arc<Context>) -> Result<Action, Error> {
    let Ok(deployment) = stored.content() else { return Ok(Action::await_change()) };
    // Wait for the lock without a timeout: the pass that holds the lock has its own timeout, and releases the lock when
    // it ends.
    let mut memory = context.memory.lock().await;
    // It does no harm if the timeout stops a pass: the next pass plans the remaining actions again.
    let pass = tokio::time::timeout(context.pass_timeout, Box::pin(pass(deployment, &context, &mut memory)));
    let result = pass.await.unwrap_or_else(|_| Err(Error::Timeout(context.pass_timeout)));
    drop(memory);
    let report = context.report_pass_failure(deployment, result.as_ref().err());
    if tokio::time::timeout(context.pass_timeout, report).await.is_err() {
        tracing::warn!("osdpl can't report failing passes in the status: the API server did not respond in time");
    }
    result
}

/// Runs a pass for a resource: read, decide, apply, report.
async fn pass(deployment: &OpenStackDeployment, context: &Context, memory: &mut Memory) -> Result<Action, Error> {
    let _measured = context.metrics.start_pass();
    if context.is_finalized(deployment) {
        return Ok(Action::await_change());
    }
    let written = memory.written.as_mut().and_then(|written| written.newer_than(deployment));
    let deployment = written.as_ref().unwrap_or(deployment);
    if let Some(ignored) = context.ignored(deployment) {
        let plan = decide_ignored(deployment, ignored);
        context.apply(deployment, &plan, memory).await?;
        if plan.hold.is_none() {
            context.publish(deployment, &plan, &BTreeMap::new(), memory).await?;
        }
        return Ok(Action::await_change());
    }
    if !context.update_catalog(deployment, memory).await {
        // Wait until the watches have read the additions to the catalogue. The watches then trigger the next pass.
        return Ok(Action::await_change());
    }
    let snapshot = context.read(deployment, memory).await?;
    let plan = decide(&snapshot);
    drop(snapshot);
    context.subscribe(&plan, memory);
    match plan.hold {
        Some(Hold::Objects) => return Ok(Action::await_change()),
        Some(Hold::Reads) => return Ok(Action::requeue(NEXT_PASS)),
        Some(Hold::Actions | Hold::Charts | Hold::Watch) | None => {}
    }
    context.scrub_secrets(&plan, memory);
    let outcome = context.apply(deployment, &plan, memory).await?;
    let mut requeue_at = plan.requeue_at;
    match plan.hold {
        Some(Hold::Watch) => return Ok(Action::await_change()),
        Some(Hold::Actions) => return Ok(Action::requeue(NEXT_PASS)),
        Some(Hold::Charts) => {}
        _ if outcome.skip_report => return Ok(Action::requeue(NEXT_PASS)),
        _ => {
            // The actions may have written the status. If so, continue with the resource that contains this status.
            let written = memory.written.as_mut().and_then(|written| written.newer_than(deployment));
            let deployment = written.as_ref().unwrap_or(deployment);
            let publish_at = context.publish(deployment, &plan, &outcome.helm_started, memory).await?;
            requeue_at = requeue_at.into_iter().chain(publish_at).min();
        }
    }
    if outcome.requeue {
        return Ok(Action::requeue(NEXT_PASS));
    }
    if plan.hold.is_none() {
        context.metrics.complete_pass();
    }
    Ok(requeue(requeue_at.into_iter().chain(memory.next_record_read(now())).min(), now()))
}

/// Returns kube's action to start the next pass at the time `at`. If `at` is `None`, kube waits until a watch reports a
/// change.
fn requeue(at: Option<Timestamp>, now: Timestamp) -> Action {
    match at {
        Some(at) => Action::requeue(Duration::try_from(at.duration_since(now)).unwrap_or_default().max(MIN_DELAY)),
        None => Action::await_change(),
    }
}

impl Context {
    /// Tells the watches and tasks what the plan requests from them, and stores in `memory` what later passes need from
    /// the plan.
    fn subscribe(&self, plan: &Plan, memory: &mut Memory) {
        memory.keep(plan);
        self.inputs.subscribe(&plan.requests);
        if !plan.requests.namespaces.is_empty() {
            self.tasks.read_records_in(plan.requests.namespaces.clone());
        }
        self.charts.request(&plan.requests.charts);
        if let Some(watches) = &plan.requests.watches {
            self.tasks.watch_drift_of(watches.drift.clone());
            self.tasks.watch_rollouts(watches.daemons.clone());
            if let Some(endpoints) = &watches.endpoints {
                self.tasks.set_probe_targets(endpoints.clone());
            }
        }
        if matches!(plan.hold, None | Some(Hold::Charts | Hold::Watch)) {
            self.tasks.set_host_query(plan.requests.hosts.clone());
            self.tasks.set_instance_query(plan.requests.instances.clone());
        }
        if let Some(setting) = &plan.requests.setting {
            self.set_maintenance_setting(setting.clone());
        }
    }

    /// Returns why osdpl ignores a resource; `None` if osdpl reconciles the resource.
    ///
    /// osdpl reconciles only the oldest resource in the operator's namespaces, and none if it can't parse the oldest.
    fn ignored(&self, deployment: &OpenStackDeployment) -> Option<Ignored> {
        let all = self.deployments.get().map(Store::state).unwrap_or_default();
        let counts = |other: &&Stored<OpenStackDeployment>| !self.is_finalized(*other) && self.is_in_scope(*other);
        let older = || {
            let older = find_older(all.iter().map(AsRef::as_ref).filter(counts), Some(deployment))?;
            let other = format!("{}/{}", older.namespace().unwrap_or_default(), older.name_any());
            Some(Ignored::Older { other, is_readable: older.content().is_ok() })
        };
        find_outside(deployment, self.permitted().as_ref()).or_else(older)
    }

    /// Returns the namespaces in which the operator has rights; `None` if it has rights in all namespaces.
    fn permitted(&self) -> Option<BTreeSet<String>> {
        match self.cluster.reader().scope() {
            Scope::All => None,
            Scope::Namespaces(names) => Some(names.iter().cloned().collect_set()),
        }
    }

    /// Returns the existing namespaces in which the operator has rights.
    pub(crate) fn available_scope(&self) -> Scope {
        self.cluster.reader().limited_to(&self.inputs.namespaces()).scope().clone()
    }

    /// Whether the operator has rights in the namespace of a resource.
    fn is_in_scope(&self, resource: &impl ResourceExt) -> bool {
        self.cluster.reader().scope().contains(&resource.namespace().unwrap_or_default())
    }

    /// Whether a resource is being deleted and no longer has osdpl's finalizer.
    ///
    /// The result is `true` even if the watch still lists the finalizer after this process has removed it.
    fn is_finalized(&self, deployment: &impl ResourceExt) -> bool {
        let finalized = self.finalized.lock().unwrap_or_else(PoisonError::into_inner);
        is_finalized(deployment) || deployment.uid().is_some_and(|uid| finalized.contains(&uid))
    }
}
