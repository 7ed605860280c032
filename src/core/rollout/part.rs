//! A component of the data plane: its `DaemonSets`, what is wanted of them, what was said of them.

use super::tally::Tally;
use super::{NAMED, Scene, State, is_automatic};
use crate::api::{RolloutPhase, RolloutStatus};
use crate::catalog::{Component, WorkloadKind};
use crate::desired::DesiredRelease;
use crate::observed::{Daemons, Rolling, Workload};
use crate::plan::{Step, Wait};
use osdpl_values::{Path, get};

/// Where charts are told how their `DaemonSets`' pods are replaced (helm-toolkit's `kubernetes_upgrades_daemonset`).
const STRATEGY: [&str; 5] = ["pod", "lifecycle", "upgrades", "daemonsets", "pod_replacement_strategy"];

/// A component of a release whose `DaemonSets` are rolled.
pub(super) struct Part<'a> {
    pub(super) release: &'a str,
    pub(super) wanted: &'a DesiredRelease,
    component: &'a Component,
    pub(super) rolling: Option<&'a Rolling>,
    pub(super) before: Option<&'a RolloutStatus>,
    pub(super) tally: Tally,
    /// Whether its newest revision may be rolled out.
    pub(super) approved: bool,
}

/// The parts, in the order in which they are rolled.
pub(super) fn parts<'a>(scene: &Scene<'a>) -> Vec<Part<'a>> {
    let named = scene.catalog.rollout.iter();
    let wanted = named.filter_map(|name| Some((name.as_str(), scene.desired.releases.get(name)?)));
    wanted.flat_map(|(name, wanted)| of_release(scene, name, wanted)).collect()
}

fn of_release<'a>(scene: &Scene<'a>, release: &'a str, wanted: &'a DesiredRelease) -> Vec<Part<'a>> {
    let own = |workload: &&Workload| workload.namespace == wanted.key.namespace && workload.release == wanted.key.name;
    // One that was just given back to Kubernetes is not ours, whatever its objects say yet.
    let ours = leaves_pods(wanted) && wanted.managed && !scene.observed.is_others(&wanted.key);
    let sets: Vec<&Workload> = scene
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
        let daemons = Daemons { namespace: wanted.key.namespace.clone(), component: component.clone() };
        let rolling = scene.rolling.get(&daemons);
        let before = scene.before.get(&component.to_string());
        let batch = before.map(|said| said.batch.as_slice()).unwrap_or_default();
        let tally = Tally::of(scene, &sets, rolling, batch);
        let mut part = Part { release, wanted, component, rolling, before, tally, approved: false };
        part.approved = part.is_approved(scene);
        part
    };
    components.into_iter().map(part).collect()
}

impl Part<'_> {
    pub(super) fn name(&self) -> String {
        self.component.to_string()
    }

    pub(super) fn daemons(&self) -> Daemons {
        Daemons { namespace: self.wanted.key.namespace.clone(), component: self.component.clone() }
    }

    /// Whether anything is to be made anew, or on its way.
    pub(super) fn is_on(&self) -> bool {
        let under_way = |said: &RolloutStatus| said.phase.is_on() && said.approved;
        self.tally.stale_said > 0 || self.before.is_some_and(under_way)
    }

    /// By the spec, by the word of a person about this very revision, or about the change that led to it.
    fn is_approved(&self, scene: &Scene<'_>) -> bool {
        let known = |said: &RolloutStatus| {
            // What the spec allowed it does not allow any more.
            let revision = said.approved && !said.automatic && said.revision == self.tally.revision;
            revision || said.approved_inputs == self.wanted.inputs
        };
        is_automatic(scene.settings)
            || scene.policy.approved.as_deref() == Some(scene.plan.hash.as_str())
            || self.before.is_some_and(known)
    }

    /// What is kept of a rollout that is over.
    pub(super) fn over(&self) -> Option<RolloutStatus> {
        let said = self.before.filter(|said| said.phase == RolloutPhase::Complete)?;
        Some(RolloutStatus { approved_inputs: String::new(), ..said.clone() })
    }

    /// What is to be said; what was said stands while too little is seen.
    pub(super) fn told(&self, scene: &Scene<'_>, state: &State, promised: String) -> Option<RolloutStatus> {
        if *state == State::Unseen {
            let known = self.before.cloned();
            return known
                .map(|said| RolloutStatus { approved_inputs: first_of(promised, &said.approved_inputs), ..said });
        }
        if *state == State::Joining {
            return self.over();
        }
        let Tally { total, revision, ready, .. } = &self.tally;
        let few = |mut nodes: Vec<String>| {
            nodes.truncate(NAMED);
            nodes
        };
        Some(RolloutStatus {
            phase: state.phase(),
            release: self.release.to_owned(),
            revision: revision.clone(),
            approved: self.approved,
            automatic: is_automatic(scene.settings),
            approved_inputs: promised,
            updated: *ready,
            total: *total,
            batch_size: scene.settings.batch(*total),
            batch: few(state.batch()),
            skipped: few(self.tally.skipped.iter().cloned().collect()),
            message: state.to_string(),
        })
    }
}

/// Whether helm is at a release, or about to be.
pub(super) fn is_changing(step: &Step) -> bool {
    matches!(step, Step::Do(..) | Step::Wait(Wait::Helm { .. } | Wait::Needs(_)))
}

/// Whether a release's values say that its daemons' old pods are left alone.
pub(super) fn leaves_pods(release: &DesiredRelease) -> bool {
    get(&release.values, &strategy()).is_some_and(|strategy| strategy == "OnDelete")
}

/// Whether a component of a release is rolled, by the values that it is to have.
pub(super) fn is_daemons(release: &DesiredRelease, component: &Component) -> bool {
    leaves_pods(release) && release.components.get(component) == Some(&WorkloadKind::DaemonSet)
}

fn strategy() -> Path {
    STRATEGY.iter().fold(Path::root(), |path, key| path.child(key))
}

fn first_of(promised: String, known: &str) -> String {
    if promised.is_empty() { known.to_owned() } else { promised }
}
