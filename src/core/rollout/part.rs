//! Collects, for each component, the data from which osdpl decides what the component's rollout does next: the
//! component's `DaemonSets`, the desired state of its release, and the previous status of the rollout.

use super::pod_counts::PodCounts;
use super::{Input, is_automatic};
use crate::api::{RolloutPhase, RolloutStatus};
use crate::catalog::{Component, WorkloadKind};
use crate::desired::DesiredRelease;
use crate::observed::{DaemonSetGroup, RolloutPods, Workload};
use crate::plan::{Step, Wait};
use osdpl_values::{Path, get};

/// The path of the value that sets the update strategy of `DaemonSets` (helm-toolkit: `kubernetes_upgrades_daemonset`).
const STRATEGY: [&str; 5] = ["pod", "lifecycle", "upgrades", "daemonsets", "pod_replacement_strategy"];

/// A component whose pods osdpl replaces in batches, with the data from which osdpl decides about its rollout.
pub(super) struct Part<'a> {
    pub(super) release: &'a str,
    pub(super) wanted: &'a DesiredRelease,
    component: &'a Component,
    pub(super) rolling: Option<&'a RolloutPods>,
    pub(super) before: Option<&'a RolloutStatus>,
    pub(super) counts: PodCounts,
    /// Whether the spec or a person has approved the component's newest pod template.
    pub(super) approved: bool,
}

/// Returns the components whose `DaemonSets` have the update strategy `OnDelete`, in the order of `values/nodes.yaml`.
pub(super) fn parts<'a>(input: &Input<'a>) -> Vec<Part<'a>> {
    let named = input.catalog.rollout.iter();
    let wanted = named.filter_map(|name| Some((name.as_str(), input.desired.releases.get(name)?)));
    wanted.flat_map(|(name, wanted)| of_release(input, name, wanted)).collect()
}

fn of_release<'a>(input: &Input<'a>, release: &'a str, wanted: &'a DesiredRelease) -> Vec<Part<'a>> {
    let own = |workload: &&Workload| workload.namespace == wanted.key.namespace && workload.release == wanted.key.name;
    // osdpl must not evict pods of a release that it does not manage, even if the `DaemonSets` of the release have the
    // update strategy `OnDelete`.
    let ours = uses_on_delete(wanted) && wanted.managed && !input.observed.is_unmanaged(&wanted.key);
    let sets: Vec<&Workload> = input
        .observed
        .workloads
        .iter()
        .filter(|_| ours)
        .filter(own)
        .filter(|workload| workload.on_delete.is_some())
        .collect();
    let mut components: Vec<&Component> = sets.iter().map(|workload| &workload.component).collect();
    components.sort();
    components.dedup();
    let part = |component: &'a Component| {
        let sets: Vec<&Workload> = sets.iter().copied().filter(|workload| workload.component == *component).collect();
        let daemons = DaemonSetGroup { namespace: wanted.key.namespace.clone(), component: component.clone() };
        let rolling = input.rolling.get(&daemons);
        let before = input.before.get(&component.to_string());
        let batch = before.map(|status| status.batch.as_slice()).unwrap_or_default();
        let counts = PodCounts::of(input, &sets, rolling, batch);
        let mut part = Part { release, wanted, component, rolling, before, counts, approved: false };
        part.approved = part.is_approved(input);
        part
    };
    components.into_iter().map(part).collect()
}

impl Part<'_> {
    pub(super) fn name(&self) -> String {
        self.component.to_string()
    }

    pub(super) fn daemons(&self) -> DaemonSetGroup {
        DaemonSetGroup { namespace: self.wanted.key.namespace.clone(), component: self.component.clone() }
    }

    /// Whether the component has outdated pods, or an approved rollout that is not finished yet.
    pub(super) fn is_active(&self) -> bool {
        let is_active = |status: &RolloutStatus| status.phase.is_active() && status.approved;
        self.counts.stale_count > 0 || self.before.is_some_and(is_active)
    }

    /// Whether the spec or a person has approved the component's newest pod template. A person approves either the pod
    /// template, or the inputs of the upgrade that changes the pod template.
    fn is_approved(&self, input: &Input<'_>) -> bool {
        let known = |status: &RolloutStatus| {
            // An automatic approval ends as soon as the spec no longer contains `approval: Automatic`. So an automatic
            // approval in the previous status does not count.
            let revision = status.approved && !status.automatic && status.revision == self.counts.revision;
            revision || status.approved_inputs == self.wanted.inputs
        };
        is_automatic(input.settings)
            || input.policy.approved.as_deref() == Some(input.plan.hash.as_str())
            || self.before.is_some_and(known)
    }

    /// If the previous status reports a complete rollout, returns this status without the approved inputs; otherwise
    /// `None`. So the status of the OpenStackDeployment continues to show the completed rollout.
    pub(super) fn completed(&self) -> Option<RolloutStatus> {
        let status = self.before.filter(|status| status.phase == RolloutPhase::Complete)?;
        Some(RolloutStatus { approved_inputs: String::new(), ..status.clone() })
    }
}

/// Whether helm changes a release now or soon: `step` starts an operation, waits for helm, or waits for the components
/// that the release needs before its upgrade.
pub(super) fn is_changing(step: &Step) -> bool {
    matches!(step, Step::Do(..) | Step::Wait(Wait::Helm { .. } | Wait::Needs(_)))
}

/// Whether the desired values of a release set the update strategy of its `DaemonSets` to `OnDelete`.
///
/// With `OnDelete`, Kubernetes does not replace outdated pods, so osdpl evicts them.
pub(super) fn uses_on_delete(release: &DesiredRelease) -> bool {
    get(&release.values, &strategy()).is_some_and(|strategy| strategy == "OnDelete")
}

/// Whether osdpl replaces the pods of a component batch by batch, according to the desired values of its release.
pub(super) fn is_rolled_out(release: &DesiredRelease, component: &Component) -> bool {
    uses_on_delete(release) && release.components.get(component) == Some(&WorkloadKind::DaemonSet)
}

fn strategy() -> Path {
    STRATEGY.iter().fold(Path::root(), |path, key| path.child(key))
}
