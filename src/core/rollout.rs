//! Decides about rollouts of the data plane: which outdated pods osdpl evicts in this pass, or why a rollout waits.
//!
//! The data plane consists of the DaemonSets on which instances and their networks depend: Open vSwitch, OVN, libvirt
//! and nova-compute.
//!
//! Pure module (no I/O). The releases that `values/nodes.yaml` lists have DaemonSets with the update strategy
//! `OnDelete`, so Kubernetes does not replace their outdated pods. osdpl evicts these pods, batch by batch. The status
//! of the OpenStackDeployment stores the approvals, and the existing pods show the progress. So a restarted operator
//! continues a rollout where the previous operator process stopped.
//!
//! ```text
//! batch in flight   the new pods that are not ready, and the nodes whose pod was deleted
//! pause             the time to wait between two batches; it starts when the last new pod became ready
//! stopped           a new pod is unhealthy: the rollout waits until the pod is ready or the pod template changes
//! approved          the status names the revision of the pod template that a person or the spec approved
//! ```
//!
//! osdpl rolls out one component at a time, in the order of `values/nodes.yaml`.

mod messages;
mod part;
mod pod_counts;
mod preview;
mod state;
mod strategy;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use crate::api::{Approval, Rollout, RolloutPhase, RolloutStatus};
use crate::catalog::Catalog;
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{DaemonSetGroup, Node, Observed, RolloutPods};
use crate::plan::{Plan, Policy, Step};
use part::Part;

pub use preview::preview_restarts;
pub use state::State;
pub use strategy::{Strategy, strategies_to_set};

/// The time for which a person's approval of an upgrade also applies to the rollout after the upgrade, counted from the
/// time when helm created the record of the upgrade.
///
/// Within this time, the watch on `DaemonSets` must report the pod template that the upgrade changed. The approval then
/// applies to the rollout of this template. If the watch reports no changed template in time, osdpl assumes that the
/// upgrade changed no template, and the approval expires.
const APPROVAL_GRACE: SignedDuration = SignedDuration::from_mins(5);

/// The maximum number of node names in each list of a rollout's status.
const NAMED: usize = 20;

/// The status of each rollout, by the name of the component that is rolled out, such as `nova/compute`.
pub type Rollouts = BTreeMap<String, RolloutStatus>;

/// The input of [`decide`]: the desired and observed state, the settings, the pods and the previous status.
pub struct Input<'a> {
    /// The desired state of the cloud.
    pub desired: &'a Desired,
    /// The observed state of the cloud.
    pub observed: &'a Observed,
    /// The catalogue, which lists the releases of the data plane in the order in which osdpl rolls them out.
    pub catalog: &'a Catalog,
    /// The plan of this pass, with the step of each release.
    pub plan: &'a Plan,
    /// The rules that decide which changes osdpl may make in this pass.
    pub policy: &'a Policy,
    /// The settings of rollouts in the spec, such as the batch size.
    pub settings: &'a Rollout,
    /// The pods of the data plane that the operator watches, by the group of `DaemonSets` to which they belong.
    pub rolling: &'a BTreeMap<DaemonSetGroup, RolloutPods>,
    /// The nodes of the cluster, by name; `None` if the operator cannot read them.
    pub nodes: Option<&'a BTreeMap<String, Node>>,
    /// The rollouts in the previous status of the OpenStackDeployment.
    pub before: &'a Rollouts,
    /// The uids of the pods that osdpl evicted recently. The watch on pods may still report these pods as running.
    pub evicted: &'a BTreeSet<String>,
    /// The current time.
    pub now: Timestamp,
}

/// An outdated pod that osdpl evicts now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid. The API server evicts the pod only if it has this uid, so osdpl cannot evict a new pod with the
    /// same name.
    pub uid: String,
    /// The node that the pod runs on.
    pub node: String,
}

/// The decision about all rollouts: their status, and the pods to evict now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NextRollouts {
    /// The next status of every rollout.
    pub rollouts: Rollouts,
    /// The pods that osdpl evicts in this pass. All of them belong to the same component.
    pub evict: Vec<Eviction>,
    /// The component whose pods osdpl evicts in this pass, a key of [`NextRollouts::rollouts`]; `None` if osdpl evicts
    /// no pods.
    pub component: Option<String>,
    /// The groups of `DaemonSets` whose pods the operator must watch for the next decision.
    pub watch: BTreeSet<DaemonSetGroup>,
    /// The time at which the operator must start the next pass; `None` if no rollout waits for a certain time.
    pub requeue_at: Option<Timestamp>,
    /// Whether the decision is incomplete, because the operator has not read all pods of a rollout yet. If so, the
    /// operator must not remove the approval annotation, because the approval may apply to this rollout.
    pub is_incomplete: bool,
}

/// Decides, for every component of the data plane, the status of its rollout and the pods to evict now.
pub fn decide(input: &Input<'_>) -> NextRollouts {
    let parts = part::parts(input);
    let mut next = NextRollouts { rollouts: pending_approvals(input), ..NextRollouts::default() };
    let mut complete = Rollouts::new();
    let active: Vec<&Part> = parts.iter().filter(|part| part.is_active()).collect();
    next.watch = active.iter().map(|part| part.daemons()).collect_set();
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

/// Returns the rollouts that a person has approved but that can't start yet, because helm has not changed the pod
/// templates yet.
///
/// Before helm has upgraded the release, osdpl does not know the revision of the new pod template. So the status stores
/// the digest of the approved inputs in place of that revision.
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
    named.flat_map(approvals_of).collect_map()
}

/// Whether the stored approval of a release no longer counts: the release is in sync, and helm created its newest
/// record more than [`APPROVAL_GRACE`] ago.
///
/// By then, the watch on `DaemonSets` would have reported a changed pod template.
fn has_expired(input: &Input<'_>, name: &str, release: &DesiredRelease) -> bool {
    let since = input.observed.releases.get(&release.key).and_then(|record| record.created_at);
    let settled = input.plan.decisions.get(name).is_some_and(|own| own.step == Step::Ready);
    settled && since.is_some_and(|since| input.now.duration_since(since) > APPROVAL_GRACE)
}

/// Whether `stored`, the rollouts in the status of the OpenStackDeployment, already contains all approvals in `now`,
/// the rollouts that this pass decided. If an approval is missing in `stored`, the operator must not remove the
/// approval annotation yet.
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

/// Returns the batch size of each rollout in the phase `Rolling`, by the rollout's group of `DaemonSets`. The batch
/// size is the maximum number of nodes without a ready pod.
pub fn rolling_batches(rollouts: &Rollouts, desired: &Desired) -> BTreeMap<DaemonSetGroup, i32> {
    let rolling = rollouts.iter().filter(|(_, status)| status.phase == RolloutPhase::Rolling);
    let of = |(name, status): (&String, &RolloutStatus)| {
        let namespace = desired.releases.get(&status.release)?.key.namespace.clone();
        Some((DaemonSetGroup { namespace, component: crate::catalog::Component::parse(name)? }, status.batch_size))
    };
    rolling.filter_map(of).collect_map()
}

/// Whether the spec approves all rollouts (`spec.nodes.rollout.approval: Automatic`).
fn is_automatic(settings: &Rollout) -> bool {
    settings.approval == Some(Approval::Automatic)
}

#[cfg(test)]
mod tests;
