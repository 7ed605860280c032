//! Reconcile, the one pipe: gather → select → resolve → plan → act → report. Shell room.
//!
//! A pass is short and never waits for helm. The end of a child, a release record, a workload, a Secret, the resource itself: each pokes the
//! next pass.

mod apply;
mod charts;
mod drive;
mod extend;
mod failing;
mod fence;
mod maintenance;
mod memory;
mod outcomes;
mod preview;
mod publish;
mod read;
mod secrets;
mod site;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

pub use apply::upgrade;
pub use charts::{ChartSource, wanted};
pub use drive::drive;
pub use extend::Book;
pub use fence::Fence;
pub use preview::{Preview, preview};
pub use secrets::secrets;

use crate::cluster::{Cluster, Error, Inputs};
use crate::helm::Runner;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use memory::Memory;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::scrub::Scrubber;
use osdpl_decide::{Hold, Plan, decide, is_finalized, older, yields};

/// Everything that a pass works with.
pub struct Context {
    /// The gate to the API server.
    pub cluster: Cluster,
    /// What the operator knows about OpenStack-Helm.
    pub book: Book,
    /// What is watched.
    pub tasks: Tasks,
    /// Helm's children.
    pub runner: Runner,
    /// Objects that specs name.
    pub inputs: Inputs,
    /// Charts.
    pub charts: ChartSource,
    /// Where the secrets to scrub are told.
    pub scrubber: tokio::sync::watch::Sender<Arc<Scrubber>>,
    /// Counters.
    pub metrics: Metrics,
    memory: Mutex<Memory>,
    deployments: std::sync::OnceLock<Store<OpenStackDeployment>>,
    /// What the cloud means for nodes that are taken out.
    setting: tokio::sync::watch::Sender<Option<Arc<osdpl_core::maintenance::Setting>>>,
    /// The resources whose passes fail.
    failing: std::sync::Mutex<failing::AllFailing>,
    /// The resources of which all was done, by their uids: the watch may tell of that later.
    over: std::sync::Mutex<BTreeSet<String>>,
    poke: Arc<Notify>,
}

/// What a [`Context`] is made of.
pub struct Parts {
    /// The gate to the API server.
    pub cluster: Cluster,
    /// What the operator knows about OpenStack-Helm.
    pub book: Book,
    /// What is watched.
    pub tasks: Tasks,
    /// Helm's children.
    pub runner: Runner,
    /// Charts.
    pub charts: ChartSource,
    /// Where the secrets to scrub are told.
    pub scrubber: tokio::sync::watch::Sender<Arc<Scrubber>>,
    /// Counters.
    pub metrics: Metrics,
    /// The secrets that the scrubber was made with.
    pub secrets: BTreeSet<String>,
}

impl Context {
    /// A context; `poke` is told when something that a spec names changes.
    pub fn new(parts: Parts, poke: &Arc<Notify>) -> Self {
        let Parts { cluster, book, tasks, runner, charts, scrubber, metrics, secrets } = parts;
        let inputs = Inputs::new(cluster.client().clone(), Arc::clone(poke));
        let (memory, deployments) = (Mutex::new(Memory::knowing(secrets, now())), std::sync::OnceLock::new());
        let setting = tokio::sync::watch::Sender::new(None);
        Self {
            cluster,
            book,
            tasks,
            runner,
            inputs,
            charts,
            scrubber,
            metrics,
            memory,
            deployments,
            setting,
            failing: std::sync::Mutex::default(),
            over: std::sync::Mutex::default(),
            poke: Arc::clone(poke),
        }
    }
}

/// Runs until `stop`; then lets the pass that runs end.
pub async fn run(context: Arc<Context>, poke: Arc<Notify>, stop: CancellationToken) {
    tokio::select! {
        // Whoever asks the webhook is to be answered by the whole catalogue: before, the pod is not ready, and its Service asks nobody.
        ((), ()) = async { tokio::join!(context.tasks.ready(), context.inputs.told_additions()) } => {}
        () = stop.cancelled() => return,
    }
    let deployments: Api<OpenStackDeployment> = Api::all(context.cluster.client().clone());
    let controller = Controller::new(deployments, watcher::Config::default());
    let (store, metrics) = (controller.store(), context.metrics.clone());
    let _ = context.deployments.set(store.clone());
    let helm = tokio_stream(context.runner.changes());
    let pokes = futures::stream::unfold(poke, |poke| async move {
        poke.notified().await;
        Some(((), poke))
    });
    let passes = controller
        .reconcile_all_on(futures::stream::select(pokes, helm))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile, failed, context);
    drive(passes, "pass failed", (&store, || metrics.set_ready()), &stop).await;
}

fn tokio_stream(changes: tokio::sync::watch::Receiver<u64>) -> impl futures::Stream<Item = ()> + Send {
    futures::stream::unfold(changes, |mut changes| async move { changes.changed().await.ok().map(|()| ((), changes)) })
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn failed(_: Arc<OpenStackDeployment>, _: &Error, context: Arc<Context>) -> Action {
    context.metrics.count_failure();
    Action::requeue(Duration::from_secs(3))
}

/// One pass for one resource, and a word in its status where that fails.
///
/// # Errors
/// When the API server refuses what the pass can't go on without; everything else is said in the status.
pub async fn reconcile(deployment: Arc<OpenStackDeployment>, context: Arc<Context>) -> Result<Action, Error> {
    let outcome = Box::pin(pass(&deployment, &context)).await;
    context.tell_failure(&deployment, outcome.as_ref().err()).await;
    outcome
}

/// How soon the next pass follows one that requested or changed what the next one sees.
const NEXT: Duration = Duration::from_millis(5);

/// One pass: read, decide, apply, report.
async fn pass(deployment: &OpenStackDeployment, context: &Context) -> Result<Action, Error> {
    let _measured = context.metrics.start_pass();
    let mut memory = context.memory.lock().await;
    if context.is_over(deployment) {
        return Ok(Action::await_change());
    }
    let newer = memory.written.as_mut().and_then(|written| written.untold(deployment));
    let deployment = newer.as_ref().unwrap_or(deployment);
    if let Some(older) = context.older_deployment(deployment) {
        let plan = yields(deployment, older);
        context.apply(deployment, &plan, &mut memory).await?;
        if plan.hold.is_none() {
            context.publish(deployment, &plan, &BTreeMap::new(), &mut memory).await?;
        }
        return Ok(Action::await_change());
    }
    if !context.extend(&deployment.namespace().unwrap_or_default(), &mut memory).await {
        // A ConfigMap that adds to the catalogue was not read yet; the first answer triggers a pass.
        return Ok(Action::await_change());
    }
    let snapshot = context.read(deployment, &mut memory).await?;
    let plan = decide(&snapshot);
    drop(snapshot);
    context.subscribe(&plan, &mut memory);
    match plan.hold {
        Some(Hold::Objects) => return Ok(Action::await_change()),
        Some(Hold::Reads) => return Ok(Action::requeue(NEXT)),
        Some(Hold::Actions | Hold::Charts | Hold::Watch) | None => {}
    }
    context.scrub_secrets(&plan, &mut memory);
    let outcome = context.apply(deployment, &plan, &mut memory).await?;
    let mut at = plan.wake;
    match plan.hold {
        Some(Hold::Watch) => return Ok(Action::await_change()),
        Some(Hold::Actions) => return Ok(Action::requeue(NEXT)),
        Some(Hold::Charts) => {}
        _ if outcome.untrue => return Ok(Action::requeue(NEXT)),
        _ => at = at.into_iter().chain(context.publish(deployment, &plan, &outcome.begun, &mut memory).await?).min(),
    }
    if outcome.again {
        return Ok(Action::requeue(NEXT));
    }
    Ok(wake(at.into_iter().chain(memory.again(now())).min(), now()))
}

/// When the next pass follows by itself.
fn wake(at: Option<Timestamp>, now: Timestamp) -> Action {
    match at {
        Some(at) => {
            let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Action::requeue(wait.max(Duration::from_millis(50)))
        }
        None => Action::await_change(),
    }
}

#[allow(clippy::disallowed_methods, reason = "the one clock of a pass")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl Context {
    /// Has watches and tasks follow what the plan requests, and keeps its memory.
    fn subscribe(&self, plan: &Plan, memory: &mut Memory) {
        memory.keep(plan);
        self.inputs.subscribe(&plan.requests);
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
        }
        if let Some(setting) = &plan.requests.setting {
            self.say(setting.clone());
        }
    }

    /// The resource that rules instead of this one.
    fn older_deployment(&self, deployment: &OpenStackDeployment) -> Option<String> {
        let all = self.deployments.get().map(Store::state).unwrap_or_default();
        older(all.iter().map(AsRef::as_ref).filter(|other| !self.is_over(other)), Some(deployment))
    }

    /// Whether all was done of a resource: of what the watch has not told of yet as well, nothing is done twice.
    fn is_over(&self, deployment: &OpenStackDeployment) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        is_finalized(deployment) || deployment.uid().is_some_and(|uid| over.contains(&uid))
    }
}
