//! Runs the controller of NodeMaintenance resources. This module does I/O.
//!
//! ```text
//! observe   reads the node, its pods, PodDisruptionBudgets, Nova and Neutron        execute   carries out one action
//! ```
//!
//! The controller reconciles one maintenance in a pass. A pass repeats three steps until the maintenance must wait: it
//! reads the state of the cluster, decides on an action, and executes the action. Between passes, the controller keeps
//! in memory only two things of each maintenance: the migrations that Nova refused, and the last failure.
//!
//! The controller queries Nova while a maintenance waits for a change that only Nova reports, and once a minute while a
//! compute node is ready to drain. If an action fails, or a pass takes too long or lacks a permission, the controller
//! logs and counts the error, and writes the error to the status of the maintenance. Other maintenances continue.

#![allow(clippy::disallowed_methods, reason = "uses the clock for windows and for timestamps in the status")]

mod execute;
mod observe;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::{self, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use osdpl_client::{Error, Stored, run_controller};
use osdpl_core::api::{MAINTENANCE_FINALIZER, NodeMaintenance, NodeMaintenanceStatus, RETRY};
use osdpl_core::maintenance::CloudSettings;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use crate::decide::{Action, Decision, ObservedState, RequeueDelay, Snapshot, decide};
use crate::kubernetes::Cluster;
use crate::{OpenStackClient, Operator};
use execute::ExecuteError;

/// The default delay until the next pass, while a maintenance waits for a change that no watch reports.
pub const REQUEUE_DELAY: Duration = Duration::from_secs(10);

/// The delay until the next pass while instances are migrating.
const MIGRATION_REQUEUE: Duration = Duration::from_secs(2);

/// The maximum delay before the controller retries a failed action.
const MAX_BACKOFF: Duration = Duration::from_mins(5);

/// The time between a panic of the controller and its restart.
const RESTART_DELAY: Duration = Duration::from_secs(2);

/// The maximum number of actions that one pass executes.
const MAX_ACTIONS: usize = 16;

/// The maximum duration of a pass.
///
/// Only one pass runs at a time. So if a pass takes longer, the controller stops it, and retries it after the waiting
/// passes of other maintenances. The limit is high, because Nova responds to some requests only after a minute
/// ([`crate::openstack::RESPONSE_TIMEOUT`]). The controller can stop a pass safely at any point: the controller writes
/// the status before each action, and the next pass reads the effects of the action from the cluster, Nova and Neutron.
const PASS_TIMEOUT: Duration = Duration::from_mins(3);

/// The controller of NodeMaintenance resources, with the clients and the state that every pass uses.
struct MaintenanceController {
    cluster: Cluster,
    operator: Arc<dyn Operator>,
    openstack: OpenStackClient,
    /// The controller sends a notification here after a maintenance has ended. Each notification starts a pass of every
    /// maintenance.
    trigger: Arc<Notify>,
    requeue_delay: Duration,
    /// The maximum duration of a pass: [`PASS_TIMEOUT`], except in tests.
    pass_timeout: Duration,
    /// The token that stops the controller and its current pass.
    stop: CancellationToken,
    /// The data that the controller keeps about each maintenance, by the name of the NodeMaintenance.
    ///
    /// Each pass holds the lock of this map until the pass ends, so only one pass runs at a time. This is necessary
    /// because the decision about a maintenance depends on the other maintenances.
    states: Mutex<BTreeMap<String, State>>,
}

/// The data that the controller keeps in memory about a maintenance between passes.
///
/// A restart of the operator loses this data. The loss has only one effect: the controller retries a failed action or a
/// refused migration earlier.
#[derive(Default)]
struct State {
    /// The UUIDs of the instances that Nova refuses to migrate, each with Nova's message.
    refused_migrations: BTreeMap<String, String>,
    /// The failure of the last action or pass; `None` if it succeeded.
    failure: Option<Failure>,
}

/// A failed action of a maintenance, or a pass that took too long. The controller retries the action or the pass.
struct Failure {
    /// The error message, which the controller also writes to the status.
    message: String,
    /// When the controller retries the action or the pass. If a person changes the NodeMaintenance earlier, the
    /// controller retries at once.
    until: Instant,
    /// The number of failures in a row.
    count: u32,
    /// The [`Input`] at the time of the failure. If a later pass finds another input, a person has changed the
    /// NodeMaintenance, so the controller retries before the time `until`.
    input: Input,
}

/// The properties of a NodeMaintenance that a person can change to make the controller retry a failed action at once:
/// the generation, whether the resource is being deleted, and whether it has the annotation that requests a retry.
type Input = (Option<i64>, bool, bool);

fn input_of(maintenance: &NodeMaintenance) -> Input {
    let metadata = &maintenance.metadata;
    (metadata.generation, metadata.deletion_timestamp.is_some(), maintenance.annotations().contains_key(RETRY))
}

/// Runs the controller until `stop` is cancelled, then stops the current pass.
///
/// `requeue_delay` is the delay until the next pass while a maintenance waits for a change that no watch reports. The
/// default of the operator's command line is [`REQUEUE_DELAY`].
pub async fn run(
    client: Client,
    operator: Arc<dyn Operator>,
    openstack: OpenStackClient,
    requeue_delay: Duration,
    stop: CancellationToken,
) {
    let this = Arc::new(MaintenanceController {
        cluster: Cluster::new(client),
        operator,
        openstack,
        trigger: Arc::default(),
        requeue_delay,
        pass_timeout: PASS_TIMEOUT,
        stop,
        states: Mutex::default(),
    });
    while !this.stop.is_cancelled() {
        // Do not add the text of the panic to the message, because the text may contain secrets. Rust itself has
        // already printed the text to stderr.
        if AssertUnwindSafe(run_once(&this)).catch_unwind().await.is_err() {
            tracing::error!("the controller of NodeMaintenance resources panicked; restarting it");
            this.operator.count_failure();
            tokio::time::sleep(RESTART_DELAY).await;
        }
    }
}

/// Runs the controller until `stop` is cancelled or the controller panics.
async fn run_once(this: &Arc<MaintenanceController>) {
    let stop = &this.stop;
    tokio::select! {
        () = this.operator.ready() => {}
        () = stop.cancelled() => return,
    }
    let controller = Controller::new(this.cluster.stored_maintenances(), watcher::Config::default());
    let store = controller.store();
    let passes = controller.reconcile_all_on(this.triggers()).graceful_shutdown_on(stop.clone().cancelled_owned()).run(
        reconcile,
        requeue_failed,
        Arc::clone(this),
    );
    run_controller(passes, "a pass of a NodeMaintenance failed", &store, || {}, stop).await;
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn requeue_failed(_: Arc<Stored<NodeMaintenance>>, _: &Error, this: Arc<MaintenanceController>) -> controller::Action {
    this.operator.count_failure();
    controller::Action::requeue(this.short_delay())
}

/// Reconciles one maintenance. Stops the pass after [`PASS_TIMEOUT`], or as soon as the controller must stop.
async fn reconcile(
    stored: Arc<Stored<NodeMaintenance>>,
    this: Arc<MaintenanceController>,
) -> Result<controller::Action, Error> {
    let Ok(maintenance) = stored.content() else { return Ok(controller::Action::await_change()) };
    let pass = async {
        // Take the lock before the time limit starts, so that the limit does not include passes of other maintenances.
        let mut states = this.states.lock().await;
        let pass = run_pass(maintenance, &this, &mut states);
        let name = maintenance.name_any();
        match tokio::time::timeout(this.pass_timeout, pass).await {
            Ok(Err(error)) if error.is_forbidden() => {
                drop(states);
                this.report(&name, error.to_string()).await;
                return Err(error);
            }
            Ok(outcome) => return outcome,
            Err(tokio::time::error::Elapsed { .. }) => this.operator.count_failure(),
        }
        let message = format!(
            "osdpl stopped its work on this maintenance after {} s and will retry it: Nova, Neutron or the API server responds too slowly; check them",
            this.pass_timeout.as_secs()
        );
        tracing::warn!(maintenance = name, "{message}");
        let state = states.entry(name.clone()).or_default();
        let until = state.record_failure(message.clone(), input_of(maintenance), this.requeue_delay).until;
        drop(states);
        this.report(&name, message).await;
        Ok(requeue_at(until))
    };
    tokio::select! {
        outcome = pass => outcome,
        () = this.stop.cancelled() => Ok(controller::Action::await_change()),
    }
}

/// Executes one action of a maintenance after another, until the maintenance must wait or is complete.
async fn run_pass(
    maintenance: &NodeMaintenance,
    this: &MaintenanceController,
    states: &mut BTreeMap<String, State>,
) -> Result<controller::Action, Error> {
    let name = maintenance.name_any();
    let setting = this.operator.setting();
    // After a failure, the controller writes the error into the status. This write triggers another pass at once. That
    // pass must not repeat the failed action before the time `failure.until`.
    let failure = states.get(&name).and_then(|state| state.failure.as_ref());
    if let Some(failure) =
        failure.filter(|failure| failure.input == input_of(maintenance) && failure.until > Instant::now())
    {
        return Ok(requeue_at(failure.until));
    }
    for _ in 0..MAX_ACTIONS {
        let Some(current) = this.cluster.get_maintenance(&name).await? else {
            states.remove(&name);
            break;
        };
        let state = states.entry(name.clone()).or_default();
        let Some(mut decision) = this.decide(&current, setting.as_deref(), &state.refused_migrations).await? else {
            return Ok(controller::Action::await_change());
        };
        // After a failure, this pass executes an action that may fail again. Keep the error in the status until an
        // action has succeeded.
        if let (Some(failure), Some(_)) = (&state.failure, &decision.action) {
            decision.status.message.clone_from(&failure.message);
        }
        let current = match this.cluster.publish_status(current, &decision.status).await {
            // Someone changed the NodeMaintenance after the controller read it. The next iteration reads the
            // NodeMaintenance again.
            Err(error) if error.is_conflict() => continue,
            published => published?,
        };
        let Some(action) = decision.action.clone() else {
            state.failure = None;
            return Ok(this.requeue_after(&decision));
        };
        match this.execute(&current, &action, setting.as_deref(), &mut state.refused_migrations).await {
            Ok(()) => state.failure = None,
            // Someone changed the NodeMaintenance or the node after the controller read it. The next iteration reads
            // both again.
            Err(ExecuteError::Cluster(error)) if error.is_conflict() => continue,
            Err(error) => {
                this.operator.count_failure();
                tracing::warn!(maintenance = name, %error, "an action of the maintenance failed; retrying");
                let failure = state.record_failure(error.to_string(), input_of(&current), this.requeue_delay);
                decision.status.message.clone_from(&failure.message);
                let until = failure.until;
                match this.cluster.publish_status(current, &decision.status).await {
                    Err(error) if error.is_conflict() => continue,
                    published => drop(published?),
                }
                return Ok(requeue_at(until));
            }
        }
        if matches!(action, Action::Migrate(_)) {
            return Ok(this.requeue_after(&decision));
        }
    }
    Ok(controller::Action::requeue(MIGRATION_REQUEUE))
}

fn requeue_at(time: Instant) -> controller::Action {
    controller::Action::requeue(time.saturating_duration_since(Instant::now()).max(Duration::from_millis(50)))
}

fn time_until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default()
}

impl State {
    /// Records the failure of an action, or of a pass that took too long. The delay until the next attempt doubles with
    /// each failure in a row.
    fn record_failure(&mut self, message: String, input: Input, requeue_delay: Duration) -> &Failure {
        let count = self.failure.as_ref().map_or(0, |failure| failure.count) + 1;
        let pause = requeue_delay.saturating_mul(1 << count.min(8)).min(MAX_BACKOFF);
        let until = Instant::now() + pause;
        self.failure.insert(Failure { message, until, count, input })
    }
}

impl MaintenanceController {
    /// Reads the state of the cluster, and decides the next action and the status of the maintenance.
    ///
    /// Returns `None` if the controller has nothing to do for the maintenance until a watch reports a change.
    async fn decide(
        &self,
        maintenance: &NodeMaintenance,
        setting: Option<&CloudSettings>,
        refused_migrations: &BTreeMap<String, String>,
    ) -> Result<Option<Decision>, Error> {
        let status = maintenance.status.clone().unwrap_or_default();
        let name = maintenance.name_any();
        let unobserved = ObservedState::default();
        let snapshot = Snapshot {
            name: &name,
            spec: &maintenance.spec,
            status: &status,
            generation: maintenance.metadata.generation,
            started: has_started(maintenance),
            deleting: maintenance.metadata.deletion_timestamp.is_some(),
            retry: maintenance.annotations().contains_key(RETRY),
            setting,
            observed: &unobserved,
            now: Timestamp::now(),
        };
        if snapshot.deleting && !snapshot.started {
            return Ok(None);
        }
        let node = self.cluster.get_node(&maintenance.spec.node).await?;
        let mut observed = ObservedState {
            node: node.map(|node| observe::read_node(&node, setting)),
            refused_migrations: refused_migrations.clone(),
            ..ObservedState::default()
        };
        if (Snapshot { observed: &observed, ..snapshot }).is_idle() {
            return Ok(None);
        }
        self.observe(maintenance, &snapshot, &mut observed).await?;
        Ok(Some(decide(&Snapshot { observed: &observed, ..snapshot })))
    }

    /// Writes `message` to the status of a maintenance whose pass took too long or lacked a permission.
    ///
    /// The function also removes the observed generation from the status, so that the next pass that can observe the
    /// cluster replaces the message, even after a restart of the operator. With the current generation, the message
    /// could stay: passes skip a maintenance if its status has the current generation, and its node is ready to drain
    /// and is not a compute node.
    async fn report(&self, name: &str, message: String) {
        let write = async {
            let Some(current) = self.cluster.get_maintenance(name).await? else { return Ok(()) };
            let known = current.status.clone().unwrap_or_default();
            let status = NodeMaintenanceStatus { message, observed_generation: None, ..known };
            self.cluster.publish_status(current, &status).await.map(drop)
        };
        if let Err::<(), Error>(error) = write.await {
            tracing::warn!(maintenance = name, %error, "osdpl can't write the error of the failed pass to the status of the NodeMaintenance");
        }
    }

    /// Returns the requeue action for the next pass: after the delay or at the time that the decision requests,
    /// whichever is earlier. Without either, kube waits for a change.
    ///
    /// If a watch reports a change earlier, kube starts the next pass at once.
    fn requeue_after(&self, decision: &Decision) -> controller::Action {
        let delay = decision.requeue.map(|delay| match delay {
            RequeueDelay::Soon => self.short_delay(),
            RequeueDelay::Later => self.requeue_delay,
        });
        let until = decision.requeue_at.map(time_until);
        delay.into_iter().chain(until).min().map_or_else(controller::Action::await_change, controller::Action::requeue)
    }

    /// Returns the delay until the next pass for a situation in which a change is likely to come soon, for example
    /// while instances are migrating.
    fn short_delay(&self) -> Duration {
        self.requeue_delay.min(MIGRATION_REQUEUE)
    }

    /// Returns a stream whose items trigger a pass of every maintenance.
    ///
    /// The stream yields an item after the operator reports a change, and after a maintenance ends. Before each item,
    /// the stream waits for a short time, so that one item covers several changes in quick succession.
    fn triggers(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        let (trigger, pause) = (Arc::clone(&self.trigger), self.short_delay());
        futures::stream::unfold((trigger, self.operator.changes()), move |(trigger, mut changes)| async move {
            tokio::select! {
                () = trigger.notified() => {}
                change = changes.next() => change?,
            }
            tokio::time::sleep(pause).await;
            Some(((), (trigger, changes)))
        })
    }
}

/// Whether the maintenance has started: the NodeMaintenance has osdpl's finalizer.
fn has_started(maintenance: &NodeMaintenance) -> bool {
    maintenance.finalizers().iter().any(|finalizer| finalizer == MAINTENANCE_FINALIZER)
}

#[cfg(test)]
mod tests;
