//! Nodes are taken out of the cloud and given back: a small controller beside reconcile. Shell room.
//!
//! ```text
//! look   what is: the node, its pods, what guards them, nova's and neutron's word     act   one step
//! ```
//!
//! Each pass asks for what it needs and keeps nothing of it; nova is asked while a maintenance waits for something that nova alone knows, and
//! seldom while a compute is ready to be drained. What goes wrong here is logged, counted and told in the maintenance's status, and stops nothing else.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: windows, and when something was done")]

mod act;
mod look;

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
use act::Trouble;
use osdpl_core::api::{MAINTENANCE_FINALIZER, NodeMaintenance, RETRY};
use osdpl_core::maintenance::{Act, Again, Case, Decision, Facts, Setting, decide};

/// How long it waits until it looks again at what nobody tells, where nothing else is said.
pub const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The same while instances are on their way.
const SOON: Duration = Duration::from_secs(2);

/// The longest pause after steps that failed.
const SELDOM: Duration = Duration::from_mins(5);

/// How soon it starts again after a panic.
const RESTART: Duration = Duration::from_secs(2);

/// How many steps are taken in a row before others have their turn.
const MOST: usize = 16;

/// What passes work with.
struct Maintaining {
    context: Arc<Context>,
    cloud: Cloud,
    poke: Arc<Notify>,
    again: Duration,
    /// One pass at a time: limits are counted.
    memory: Mutex<BTreeMap<String, Remembered>>,
}

/// What is remembered of a maintenance; losing it costs a try.
#[derive(Default)]
struct Remembered {
    /// The instances that nova refuses to migrate, with its words.
    refused: BTreeMap<String, String>,
    /// The step that failed last.
    failed: Option<Failed>,
}

/// A step that failed.
struct Failed {
    /// Why.
    message: String,
    /// Until when it is not tried again, as long as the resource is as it was.
    until: Timestamp,
    /// How often in a row.
    count: u32,
    /// What a person may have changed since.
    wish: Wish,
}

/// What a person says: another generation, a deletion, another try.
type Wish = (Option<i64>, bool, bool);

fn wish(maintenance: &NodeMaintenance) -> Wish {
    let metadata = &maintenance.metadata;
    (metadata.generation, metadata.deletion_timestamp.is_some(), maintenance.annotations().contains_key(RETRY))
}

/// Runs until `stop`; then lets the pass that runs end.
pub async fn run(context: Arc<Context>, cloud: Cloud, again: Duration, stop: CancellationToken) {
    let this = Arc::new(Maintaining { context, cloud, poke: Arc::default(), again, memory: Mutex::default() });
    while !stop.is_cancelled() {
        // A panic has been printed by the hook already; its text may hold anything.
        if AssertUnwindSafe(control(&this, stop.clone())).catch_unwind().await.is_err() {
            tracing::error!("the task that takes nodes out panicked, and is started again");
            this.context.metrics.maintenance_failed();
            tokio::time::sleep(RESTART).await;
        }
    }
}

async fn control(this: &Arc<Maintaining>, stop: CancellationToken) {
    tokio::select! {
        () = this.context.tasks.ready() => {}
        () = stop.cancelled() => return,
    }
    let api: Api<NodeMaintenance> = Api::all(this.context.cluster.client().clone());
    let controller = Controller::new(api, watcher::Config::default());
    let store = controller.store();
    let passes = controller.reconcile_all_on(this.pokes()).graceful_shutdown_on(stop.clone().cancelled_owned()).run(
        reconcile,
        failed,
        Arc::clone(this),
    );
    drive(passes, "a node's maintenance does not get on", (&store, || {}), &stop).await;
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn failed(_: Arc<NodeMaintenance>, _: &Error, this: Arc<Maintaining>) -> Action {
    this.context.metrics.maintenance_failed();
    Action::requeue(this.again.min(SOON))
}

/// One pass for one maintenance: as many steps as can be taken at once.
async fn reconcile(maintenance: Arc<NodeMaintenance>, this: Arc<Maintaining>) -> Result<Action, Error> {
    let name = maintenance.name_any();
    let mut memory = this.memory.lock().await;
    let setting = this.context.setting();
    // Its own words in the status are no reason to try again.
    let failed = memory.get(&name).and_then(|own| own.failed.as_ref());
    if let Some(failed) = failed.filter(|failed| failed.wish == wish(&maintenance) && failed.until > Timestamp::now()) {
        return Ok(at(failed.until));
    }
    for _ in 0..MOST {
        let Some(now) = this.context.cluster.maintenance(&name).await? else {
            memory.remove(&name);
            break;
        };
        let own = memory.entry(name.clone()).or_default();
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
            // Someone else has changed it at the same moment: it is looked at anew.
            Err(Trouble::Cluster(error)) if error.is_conflict() => continue,
            Err(trouble) => {
                this.context.metrics.maintenance_failed();
                tracing::warn!(maintenance = name, error = %trouble, "a step failed");
                let failed = own.fails(trouble.to_string(), wish(&now), this.again);
                let mut status = decision.status;
                status.message.clone_from(&failed.message);
                let until = failed.until;
                this.context.cluster.publish_maintenance(now, &status).await?;
                return Ok(at(until));
            }
        }
        if matches!(act, Act::Migrate(_)) {
            return Ok(this.later(&decision));
        }
    }
    Ok(Action::requeue(SOON))
}

fn at(time: Timestamp) -> Action {
    let wait = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
    Action::requeue(wait.max(Duration::from_millis(50)))
}

impl Remembered {
    /// Notes that a step failed: each time in a row it is left alone for twice as long.
    fn fails(&mut self, message: String, wish: Wish, again: Duration) -> &Failed {
        let count = self.failed.as_ref().map_or(0, |failed| failed.count) + 1;
        let pause = again.saturating_mul(1 << count.min(8)).min(SELDOM);
        let until = Timestamp::now().checked_add(pause).unwrap_or(Timestamp::MAX);
        self.failed.insert(Failed { message, until, count, wish })
    }
}

impl Maintaining {
    /// What is to be done; nothing where all is done already and only a change is awaited.
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
        let node = look::node(self.context.cluster.node(&maintenance.spec.node).await?.as_ref(), setting);
        let mut facts = Facts { node, refused: refused.clone(), ..Facts::default() };
        if (Case { facts: &facts, ..case }).is_at_rest() {
            return Ok(None);
        }
        self.look(maintenance, &case, &mut facts).await?;
        Ok(Some(decide(&Case { facts: &facts, ..case })))
    }

    fn later(&self, decision: &Decision) -> Action {
        let again = decision.again.map(|again| match again {
            Again::Soon => self.again.min(SOON),
            Again::Later => self.again,
        });
        let wake = decision.wake.map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
        again.into_iter().chain(wake).min().map_or_else(Action::await_change, Action::requeue)
    }

    /// When what is seen of pods changes, what the cloud says, or another maintenance ends; a burst is one.
    fn pokes(&self) -> impl futures::Stream<Item = ()> + Send + 'static + use<> {
        let (poke, pause) = (Arc::clone(&self.poke), self.again.min(SOON));
        let seen = Box::pin(self.context.tasks.changes());
        let sources = (poke, seen, self.context.settings());
        futures::stream::unfold(sources, move |(poke, mut seen, mut settings)| async move {
            tokio::select! {
                () = poke.notified() => {}
                told = seen.next() => told?,
                told = settings.changed() => told.ok()?,
            }
            tokio::time::sleep(pause).await;
            Some(((), (poke, seen, settings)))
        })
    }
}
