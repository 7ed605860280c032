//! Rollouts of the data plane: decides which outdated pods are evicted now, or what a rollout waits for.
//!
//! Pure module (no I/O). The `DaemonSets` of the releases in `values/nodes.yaml` use the update strategy `OnDelete`:
//! Kubernetes does not replace their outdated pods, osdpl evicts them in batches. The status stores a person's approval
//! and the nodes of the batch; all else is derived from the existing pods, so that a restarted operator continues.
//!
//! ```text
//! batch in flight   new pods that are not ready, and nodes whose pod was deleted
//! pause             starts when the last new pod became ready
//! stopped           a new pod is unhealthy: the rollout waits until it is ready or the template changes
//! approved          the status contains the revision that a person or the spec approved
//! ```
//!
//! One component is rolled out at a time, in the order of the catalogue.

mod messages;
mod part;
mod pod_counts;
mod preview;
mod state;
mod strategy;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::{Approval, Rollout, RolloutPhase, RolloutStatus};
use crate::catalog::Catalog;
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{DaemonSetGroup, Node, Observed, RolloutPods};
use crate::plan::{Plan, Policy, Step};
use part::Part;

pub use preview::preview_restarts;
pub use state::State;
pub use strategy::{Strategy, strategies_to_set};

/// How long an approval is kept after the newest record of its release was created.
///
/// The watch on `DaemonSets` may report a changed template later than the watch on records reports the record.
const APPROVAL_GRACE: SignedDuration = SignedDuration::from_mins(5);

/// The maximum number of nodes that the status of a rollout lists.
const NAMED: usize = 20;

/// The status of each rollout, by component: `nova/compute`.
pub type Rollouts = BTreeMap<String, RolloutStatus>;

/// The input of [`decide`].
pub struct Input<'a> {
    /// The desired state of the cloud.
    pub desired: &'a Desired,
    /// The observed state of the cloud.
    pub observed: &'a Observed,
    /// The catalogue, which lists the releases to roll out in their order.
    pub catalog: &'a Catalog,
    /// The plan of this pass for all releases.
    pub plan: &'a Plan,
    /// What the spec and its annotations allow.
    pub policy: &'a Policy,
    /// The rollout settings of the spec: batch size, pause, approval.
    pub settings: &'a Rollout,
    /// The pods of the `DaemonSets` that the operator watches.
    pub rolling: &'a BTreeMap<DaemonSetGroup, RolloutPods>,
    /// The nodes by name; `None` if they cannot be read.
    pub nodes: Option<&'a BTreeMap<String, Node>>,
    /// The rollouts in the previous status.
    pub before: &'a Rollouts,
    /// The uids of recently evicted pods. The watch may still report them as running.
    pub evicted: &'a BTreeSet<String>,
    /// The current time.
    pub now: Timestamp,
}

/// A pod that the operator evicts, so that its `DaemonSet` makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid, because another pod may reuse the name.
    pub uid: String,
    /// The node that the pod runs on.
    pub node: String,
}

/// What a pass decides about all rollouts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NextRollouts {
    /// The next status of every rollout.
    pub rollouts: Rollouts,
    /// The pods to evict now, all of one component.
    pub evict: Vec<Eviction>,
    /// The component of the pods to evict, a key of [`NextRollouts::rollouts`].
    pub component: Option<String>,
    /// The `DaemonSets` whose pods the operator must watch for the next pass.
    pub watch: BTreeSet<DaemonSetGroup>,
    /// When the next pass must start at the latest, because a pause or a timeout ends then.
    pub requeue_at: Option<Timestamp>,
    /// Whether the pods of a rollout are not observed yet. An approval may apply to them and must not be dropped.
    pub is_incomplete: bool,
}

/// Decides about the rollout of every component of the data plane.
pub fn decide(input: &Input<'_>) -> NextRollouts {
    let parts = part::parts(input);
    let mut next = NextRollouts { rollouts: pending_approvals(input), ..NextRollouts::default() };
    let mut complete = Rollouts::new();
    let active: Vec<&Part> = parts.iter().filter(|part| part.is_active()).collect();
    next.watch = active.iter().map(|part| part.daemons()).collect();
    for part in parts.iter().filter(|part| !part.is_active() && !next.rollouts.contains_key(&part.name())) {
        complete.extend(part.completed().map(|status| (part.name(), status)));
    }
    next.rollouts.extend(complete);
    let turn = state::current_component(input, &active);
    for part in active {
        let state = state::evaluate(input, part, turn.as_deref());
        next.requeue_at = next.requeue_at.into_iter().chain(state.requeue_at()).min();
        next.is_incomplete |= state == State::Unobserved;
        if let State::Evict(pods) = &state {
            (next.evict, next.component) = (pods.clone(), Some(part.name()));
        }
        let approved_inputs =
            next.rollouts.remove(&part.name()).map(|status| status.approved_inputs).unwrap_or_default();
        next.rollouts.extend(part.next_status(input, &state, approved_inputs).map(|status| (part.name(), status)));
    }
    next
}

/// Returns the approvals that apply to a later change of a release's templates.
///
/// The revision of a component's pods is known only after helm changed the template. Until then the approval names the
/// inputs that a person approved.
fn pending_approvals(input: &Input<'_>) -> Rollouts {
    let agreed = input.policy.approved.as_deref() == Some(input.plan.hash.as_str());
    let changing = |name: &String, release: &DesiredRelease| {
        let runs = input.observed.releases.get(&release.key).is_some_and(|record| record.was_deployed);
        agreed && runs && input.plan.decisions.get(name).is_some_and(|own| part::is_changing(&own.step))
    };
    let named = input.catalog.rollout.iter().filter_map(|name| Some((name, input.desired.releases.get(name)?)));
    let approvals_of = |(name, release): (&String, &DesiredRelease)| {
        let (changing, mut approvals) = (changing(name, release), Rollouts::new());
        for component in release.components.keys().filter(|component| part::is_rolled_out(release, component)) {
            let known = input.before.get(&component.to_string()).filter(|status| !status.phase.is_active());
            let is_known = known.is_some_and(|status| status.approved_inputs == release.inputs)
                && !has_expired(input, name, release);
            if changing || is_known {
                let (release, approved_inputs) = (name.clone(), release.inputs.clone());
                let status = RolloutStatus { release, approved_inputs, ..known.cloned().unwrap_or_default() };
                approvals.insert(component.to_string(), status);
            }
        }
        approvals
    };
    named.flat_map(approvals_of).collect()
}

/// Whether an approval for inputs has expired.
///
/// It has if helm finished so long ago that the watch would have reported a changed template.
fn has_expired(input: &Input<'_>, name: &str, release: &DesiredRelease) -> bool {
    let since = input.observed.releases.get(&release.key).and_then(|record| record.created_at);
    let settled = input.plan.decisions.get(name).is_some_and(|own| own.step == Step::Ready);
    settled && since.is_some_and(|since| input.now.duration_since(since) > APPROVAL_GRACE)
}

/// Whether the stored status contains all approvals in `now`.
///
/// Only then may the annotation with the approval be removed.
pub fn are_approvals_stored(now: &Rollouts, stored: &Rollouts) -> bool {
    let approval =
        |status: &RolloutStatus| (status.approved.then(|| status.revision.clone()), status.approved_inputs.clone());
    let default = RolloutStatus::default();
    now.iter().all(|(name, status)| approval(status) == approval(stored.get(name).unwrap_or(&default)))
}

/// Returns the rollouts that wait for approval.
pub fn awaiting_approval(rollouts: &Rollouts) -> impl Iterator<Item = (&String, &RolloutStatus)> {
    rollouts.iter().filter(|(_, status)| status.phase == RolloutPhase::AwaitingApproval)
}

/// Returns how many nodes may miss a pod, for each group of `DaemonSets` of which a batch is being replaced.
pub fn rolling_batches(rollouts: &Rollouts, desired: &Desired) -> BTreeMap<DaemonSetGroup, i32> {
    let rolling = rollouts.iter().filter(|(_, status)| status.phase == RolloutPhase::Rolling);
    let of = |(name, status): (&String, &RolloutStatus)| {
        let namespace = desired.releases.get(&status.release)?.key.namespace.clone();
        Some((DaemonSetGroup { namespace, component: crate::catalog::Component::parse(name)? }, status.batch_size))
    };
    rolling.filter_map(of).collect()
}

/// Whether the spec lets rollouts start without a person's approval.
fn is_automatic(settings: &Rollout) -> bool {
    settings.approval == Some(Approval::Automatic)
}

#[cfg(test)]
mod tests;
