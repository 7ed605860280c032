//! Reconcile, the one pipe: gather → select → resolve → plan → act → report. Shell room.
//!
//! A pass is short and never waits for helm. The end of a child, a release record, a workload, a Secret, the resource itself: each pokes the
//! next pass.

mod act;
mod ceph;
mod certificates;
mod changes;
mod charts;
mod drive;
mod extend;
mod external;
mod failing;
mod fence;
mod gather;
mod hosts;
mod learn;
mod leftovers;
mod likeness;
mod maintenance;
mod memory;
mod named;
mod nodes;
mod outcomes;
mod pending;
mod preview;
mod publish;
mod rollout;
mod ruling;
mod secrets;
mod site;
mod spent;
mod store;
mod sweep;
mod teardown;
mod written;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

pub use act::upgrade;
pub use charts::{ChartSource, wanted};
pub use drive::drive;
pub use extend::Book;
pub use fence::Fence;
pub use preview::{Preview, preview};
pub use ruling::older;
pub use secrets::secrets;

use crate::cluster::{Cluster, Error, Inputs};
use crate::helm::Runner;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use memory::Memory;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Desired;
use osdpl_core::plan::{Plan, plan};
use osdpl_core::scrub::Scrubber;
use teardown::is_over;

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
    let outcome = pass(&deployment, &context).await;
    context.tell_failure(&deployment, outcome.as_ref().err()).await;
    outcome
}

async fn pass(deployment: &OpenStackDeployment, context: &Context) -> Result<Action, Error> {
    let _measured = context.metrics.start_pass();
    let mut memory = context.memory.lock().await;
    if context.is_over(deployment) {
        return Ok(Action::await_change());
    }
    let untold = memory.written.as_mut().and_then(|written| written.untold(deployment));
    let deployment = untold.as_ref().unwrap_or(deployment);
    if let Some(older) = context.older_deployment(deployment) {
        return context.yield_to(deployment, &older).await;
    }
    if !context.extend(&deployment.namespace().unwrap_or_default(), &mut memory).await {
        // What the spec names may be in a ConfigMap that was not read yet; the first answer pokes.
        return Ok(Action::await_change());
    }
    if deployment.metadata.deletion_timestamp.is_some() {
        return context.teardown(deployment, &mut memory).await;
    }
    if context.cluster.set_finalizer(deployment, true).await? {
        return Ok(Action::await_change());
    }
    let catalog = context.catalog();
    let first = gather::selection(deployment, &deployment.spec, &catalog);
    context.inputs.watch(&named::references(&deployment.spec, &catalog, &first));
    ceph::watch(&context.inputs, &deployment.spec);
    if context.inputs.is_reading() {
        // Nothing is planned from objects that were not read yet; the first answer pokes.
        return Ok(Action::await_change());
    }
    let wish = context.gather(deployment, first, &mut memory).await?;
    context.carry_out(deployment, wish, &mut memory).await
}

fn wake(plan: &Plan, wish: &gather::Wish, now: Timestamp) -> Action {
    let times = plan.requeue_at.into_iter().chain(wish.wake);
    match times.min() {
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
    /// Plans, takes the steps, and tells what came of it.
    async fn carry_out(
        &self,
        deployment: &OpenStackDeployment,
        mut wish: gather::Wish,
        memory: &mut Memory,
    ) -> Result<Action, Error> {
        self.attend(&wish);
        self.probe(&wish);
        self.hosts(deployment, &mut wish, memory).await;
        self.settle(deployment, &wish);
        let now = now();
        let empty = Desired::default();
        let desired = if wish.refused { &empty } else { &*wish.desired };
        let mut plan = if wish.refused {
            Plan::default()
        } else {
            plan(desired, &wish.observed, &self.catalog(), &wish.policy, now)
        };
        pending::hold(&mut plan, &wish.pending);
        self.guard(&plan, &mut wish, memory).await;
        let repairs = spent::repairs(&plan, &wish.policy);
        self.act(&mut plan, &wish, memory).await;
        let rolled = self.roll(deployment, &plan, &wish, memory).await;
        self.spend(deployment, &plan, &mut wish, (repairs, &rolled), memory).await;
        plan.requeue_at = plan.requeue_at.into_iter().chain(rolled.requeue_at).min();
        if wish.refused {
            plan = gather::frozen(&wish.desired, &wish.observed);
        }
        // After a restart the charts are read anew, which is no news.
        if pending::is_unsaid(deployment, &wish, &plan) && self.runner.table().is_empty() {
            return Ok(wake(&plan, &wish, now));
        }
        let (changes, again) = self.changes(&plan, &wish, memory).await;
        let later = self.publish(deployment, &wish, &plan, (&changes, &rolled.rollouts), None, memory).await?;
        plan.requeue_at = plan.requeue_at.into_iter().chain(later).chain(again).min();
        Ok(wake(&plan, &wish, now))
    }

    /// The resource that rules instead of this one.
    fn older_deployment(&self, deployment: &OpenStackDeployment) -> Option<String> {
        let all = self.deployments.get().map(Store::state).unwrap_or_default();
        older(all.iter().map(AsRef::as_ref).filter(|other| !self.is_over(other)), Some(deployment))
    }

    /// Whether all was done of a resource: of what the watch has not told of yet as well, nothing is done twice.
    fn is_over(&self, deployment: &OpenStackDeployment) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        is_over(deployment) || deployment.uid().is_some_and(|uid| over.contains(&uid))
    }
}
