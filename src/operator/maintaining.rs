//! The controller of NodeMaintenance resources. Module with I/O.
//!
//! ```text
//! look   observes the node, its pods, their budgets, nova and neutron     act   executes one action
//! ```
//!
//! Each pass reads the state that it needs and keeps none of it. Nova is queried while a maintenance waits for state
//! that only nova has, and rarely while a compute node is ready to drain. Errors are logged, counted and written to the
//! maintenance's status, and affect nothing else.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: windows, and when something was done")]

mod act;
mod observe;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use crate::cluster::Error;
use crate::controller::{Context, drive};
use crate::http::Cloud;
use act::ActError;
use osdpl_core::api::{MAINTENANCE_FINALIZER, NodeMaintenance, RETRY};
use osdpl_core::maintenance::{Act, Case, Decision, Facts, RequeueDelay, Setting, decide};

/// The default requeue delay for state that no watch reports.
pub const REQUEUE_DELAY: Duration = Duration::from_secs(10);

/// The requeue delay while instances are migrating.
const MIGRATION_REQUEUE: Duration = Duration::from_secs(2);

/// The maximum backoff after failed actions.
const MAX_BACKOFF: Duration = Duration::from_mins(5);

/// The restart delay after a panic.
const RESTART_DELAY: Duration = Duration::from_secs(2);

/// The maximum number of actions per pass.
const MAX_ACTIONS: usize = 16;

/// The context of the passes.
struct MaintenanceController {
    context: Arc<Context>,
    cloud: Cloud,
    trigger: Arc<Notify>,
    requeue_delay: Duration,
    /// The lock runs one pass at a time, because limits depend on other maintenances.
    states: Mutex<BTreeMap<String, State>>,
}

/// State per maintenance. Its loss only costs a retry.
#[derive(Default)]
struct State {
    /// The instances that nova refuses to migrate, with its message.
    refused: BTreeMap<String, String>,
    /// The last failed action.
    failed: Option<Failed>,
}

/// A failed action.
struct Failed {
    /// The error.
    message: String,
    /// The end of the backoff, unless the resource changes.
    until: Timestamp,
    /// The number of failures in a row.
    count: u32,
    /// The trigger at that time, which a person may have changed since.
    trigger: Trigger,
}

/// The parts of a resource that a person controls: generation, deletion, retry annotation.
type Trigger = (Option<i64>, bool, bool);

fn trigger_of(maintenance: &NodeMaintenance) -> Trigger {
    let metadata = &maintenance.metadata;
    (metadata.generation, metadata.deletion_timestamp.is_some(), maintenance.annotations().contains_key(RETRY))
}

/// Runs until `stop`, then completes the current pass.
pub async fn run(context: Arc<Context>, cloud: Cloud, requeue_delay: Duration, stop: CancellationToken) {
    let this = Arc::new(MaintenanceController {
        context,
        cloud,
        trigger: Arc::default(),
        requeue_delay,
        states: Mutex::default(),
    });
    while !stop.is_cancelled() {
        // The panic hook has already printed the panic, whose text may contain secrets.
        if AssertUnwindSafe(control(&this, stop.clone())).catch_unwind().await.is_err() {
            tracing::error!("the maintenance task panicked and is restarted");
            this.context.metrics.count_maintenance_failure();
            tokio::time::sleep(RESTART_DELAY).await;
        }
    }
}

async fn control(this: &Arc<MaintenanceController>, stop: CancellationToken) {
    tokio::select! {
        () = this.context.tasks.ready() => {}
        () = stop.cancelled() => return,
    }
    let api: Api<NodeMaintenance> = Api::all(this.context.cluster.client().clone());
    let controller = Controller::new(api, watcher::Config::default());
    let store = controller.store();
    let passes = controller.reconcile_all_on(this.triggers()).graceful_shutdown_on(stop.clone().cancelled_owned()).run(
        reconcile,
        failed,
        Arc::clone(this),
    );
    drive(passes, "the maintenance of a node failed to reconcile", (&store, || {}), &stop).await;
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn failed(_: Arc<NodeMaintenance>, _: &Error, this: Arc<MaintenanceController>) -> Action {
    this.context.metrics.count_maintenance_failure();
    Action::requeue(this.requeue_delay.min(MIGRATION_REQUEUE))
}

/// A pass for one maintenance: executes as many actions as possible.
async fn reconcile(maintenance: Arc<NodeMaintenance>, this: Arc<MaintenanceController>) -> Result<Action, Error> {
    let name = maintenance.name_any();
    let mut known = this.states.lock().await;
    let setting = this.context.setting();
    // A change of the status by the pass itself must not trigger a retry.
    let failed = known.get(&name).and_then(|own| own.failed.as_ref());
    if let Some(failed) =
        failed.filter(|failed| failed.trigger == trigger_of(&maintenance) && failed.until > Timestamp::now())
    {
        return Ok(requeue_at(failed.until));
    }
    for _ in 0..MAX_ACTIONS {
        let Some(now) = this.context.cluster.maintenance(&name).await? else {
            known.remove(&name);
            break;
        };
        let own = known.entry(name.clone()).or_default();
        let Some(mut decision) = this.decision(&now, setting.as_deref(), &own.refused).await? else {
            return Ok(Action::await_change());
        };
        if let (Some(failed), Some(_)) = (&own.failed, &decision.act) {
            decision.status.message.clone_from(&failed.message);
        }
        let now = this.context.cluster.publish_maintenance(now, &decision.status).await?;
        let Some(act) = decision.act.clone() else { return Ok(this.later(&decision)) };
        match this.act(&now, &act, setting.as_deref(), &mut own.refused).await {
            Ok(()) => own.failed = None,
            // The object changed at the same time: inspect it again.
            Err(ActError::Cluster(error)) if error.is_conflict() => continue,
            Err(trouble) => {
                this.context.metrics.count_maintenance_failure();
                tracing::warn!(maintenance = name, error = %trouble, "an action failed");
                let failed = own.record_failure(trouble.to_string(), trigger_of(&now), this.requeue_delay);
                let mut status = decision.status;
                status.message.clone_from(&failed.message);
                let until = failed.until;
                this.context.cluster.publish_maintenance(now, &status).await?;
                return Ok(requeue_at(until));
            }
        }
        if matches!(act, Act::Migrate(_)) {
            return Ok(this.later(&decision));
        }
    }
    Ok(Action::requeue(MIGRATION_REQUEUE))
}

fn requeue_at(time: Timestamp) -> Action {
    let wait = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
    Action::requeue(wait.max(Duration::from_millis(50)))
}

impl State {
    /// Records a failed action and doubles the backoff.
    fn record_failure(&mut self, message: String, trigger: Trigger, requeue_delay: Duration) -> &Failed {
        let count = self.failed.as_ref().map_or(0, |failed| failed.count) + 1;
        let pause = requeue_delay.saturating_mul(1 << count.min(8)).min(MAX_BACKOFF);
        let until = Timestamp::now().checked_add(pause).unwrap_or(Timestamp::MAX);
        self.failed.insert(Failed { message, until, count, trigger })
    }
}

impl MaintenanceController {
    /// Decides the next action; `None` if everything is done and only a change can lead to another action.
    async fn decision(
        &self,
        maintenance: &NodeMaintenance,
        setting: Option<&Setting>,
        refused: &BTreeMap<String, String>,
    ) -> Result<Option<Decision>, Error> {
        let status = maintenance.status.clone().unwrap_or_default();
        let name = maintenance.name_any();
        let nothing = Facts::default();
        let case = Case {
            name: &name,
            spec: &maintenance.spec,
            status: &status,
            generation: maintenance.metadata.generation,
            begun: maintenance.finalizers().iter().any(|finalizer| finalizer == MAINTENANCE_FINALIZER),
            deleting: maintenance.metadata.deletion_timestamp.is_some(),
            retry: maintenance.annotations().contains_key(RETRY),
            setting,
            facts: &nothing,
            now: Timestamp::now(),
        };
        if case.deleting && !case.begun {
            return Ok(None);
        }
        let node = observe::node(self.context.cluster.node(&maintenance.spec.node).await?.as_ref(), setting);
        let mut facts = Facts { node, refused: refused.clone(), ..Facts::default() };
        if (Case { facts: &facts, ..case }).is_idle() {
            return Ok(None);
        }
        self.look(maintenance, &case, &mut facts).await?;
        Ok(Some(decide(&Case { facts: &facts, ..case })))
    }

    fn later(&self, decision: &Decision) -> Action {
        let requeue_delay = decision.requeue.map(|requeue_delay| match requeue_delay {
            RequeueDelay::Soon => self.requeue_delay.min(MIGRATION_REQUEUE),
            RequeueDelay::Later => self.requeue_delay,
        });
        let wake = decision
            .requeue_at
            .map(|time| Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default());
        requeue_delay.into_iter().chain(wake).min().map_or_else(Action::await_change, Action::requeue)
    }

    /// Triggers a pass when observed pods, the cloud's settings or another maintenance change, with debouncing.
    fn triggers(&self) -> impl futures::Stream<Item = ()> + Send + 'static + use<> {
        let (trigger, pause) = (Arc::clone(&self.trigger), self.requeue_delay.min(MIGRATION_REQUEUE));
        let changes = Box::pin(self.context.tasks.changes());
        let sources = (trigger, changes, self.context.settings());
        futures::stream::unfold(sources, move |(trigger, mut changes, mut settings)| async move {
            tokio::select! {
                () = trigger.notified() => {}
                change = changes.next() => change?,
                change = settings.changed() => change.ok()?,
            }
            tokio::time::sleep(pause).await;
            Some(((), (trigger, changes, settings)))
        })
    }
}
