//! Plans rollouts of the data plane: the update strategies of `DaemonSets`, and the next pods to evict.

use super::action::{Action, Planned};
use super::draft::Draft;
use super::kept::Refusal;
use osdpl_core::api::{RolloutPhase, RolloutStatus};
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Desired, Finding};
use osdpl_core::observed::Observed;
use osdpl_core::plan::{Plan, Policy};
use osdpl_core::rollout::{self, Eviction, Input, NextRollouts, Rollouts, Strategy};

/// Returns the rollouts that osdpl last wrote to the status.
///
/// The status in the snapshot may be older, because the watch may not have reported the last write yet.
pub(crate) fn last(draft: &Draft<'_>) -> Rollouts {
    let status = draft.snapshot.deployment.status.as_ref();
    let stored = || status.map(|status| status.rollouts.clone()).unwrap_or_default();
    draft.snapshot.kept.rollouts.clone().unwrap_or_else(stored)
}

/// Plans to set the update strategy of each `DaemonSet` whose strategy in the cluster differs from the desired one.
///
/// osdpl sets the strategy before helm changes the pod template. Otherwise Kubernetes would follow the old strategy and
/// replace all pods itself, without osdpl's batches.
///
/// If another field manager owns the strategy, osdpl does not change the strategy, and adds a warning.
pub(crate) fn plan_strategies(draft: &mut Draft<'_>, desired: &Desired, observed: &Observed, plan: &Plan) {
    if draft.paused {
        return;
    }
    let missing = rollout::strategies_to_set(desired, observed, draft.catalog(), plan);
    draft.kept.strategies.retain(|known| missing.contains(known));
    draft.kept.refused_strategies.retain(|known| missing.contains(known));
    for strategy in missing {
        let is_refused = draft.kept.refused_strategies.contains(&strategy);
        if !is_refused && !draft.kept.strategies.contains(&strategy) {
            let action = Action::SetStrategy(strategy.clone());
            let reason =
                if strategy.on_delete { "osdpl replaces the pods in batches" } else { "Kubernetes replaces the pods" };
            let refusal = draft.attempt(Planned::new(action, reason));
            draft.problems.extend(refusal.map(|refusal| refusal.message.clone()));
        }
        // Do not warn about the strategy if helm must still upgrade the release, because the upgrade sets the strategy.
        if strategy.settled && strategy.on_delete && is_refused {
            draft.findings.push(refused_strategy_warning(&strategy));
        }
    }
}

/// Plans the evictions of the next batch of pods of each rollout; returns the status of all rollouts.
pub(crate) fn plan_evictions(
    draft: &mut Draft<'_>,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    policy: &Policy,
) -> NextRollouts {
    let snapshot = draft.snapshot;
    let listed = || snapshot.rolling.values().flat_map(|rolling| &rolling.pods).map(|pod| &pod.uid);
    draft.kept.evicted.retain(|uid| listed().any(|listed| listed == uid));
    let before = last(draft);
    let mut next = rollout::decide(&Input {
        desired,
        observed,
        catalog: draft.catalog(),
        plan,
        policy,
        settings: &snapshot.deployment.spec.nodes.rollout,
        rolling: &snapshot.rolling,
        nodes: snapshot.nodes.as_deref(),
        before: &before,
        evicted: &draft.kept.evicted,
        now: snapshot.now,
    });
    let refused = next.evict.iter().find_map(|pod| {
        let refusal = draft.refusal(&Action::Evict(pod.clone()))?;
        (refusal.until > snapshot.now).then(|| (pod.clone(), refusal))
    });
    match refused {
        Some((pod, refusal)) => {
            draft.requeue([refusal.until]);
            if let Some(rollout) = next.component.as_ref().and_then(|name| next.rollouts.get_mut(name)) {
                report_refused_eviction(rollout, Vec::new(), &pod, refusal);
            }
        }
        None => {
            for pod in &next.evict {
                let reason = next.component.clone().unwrap_or_default();
                draft.add(Planned::new(Action::Evict(pod.clone()), format!("rollout of {reason}")));
            }
        }
    }
    draft.requeue(next.requeue_at);
    draft.kept.rollouts = Some(next.rollouts.clone());
    next
}

/// Reports in the status of a rollout that the API server refused the eviction of a pod.
///
/// `evicted` contains the nodes whose pods were evicted earlier in the same batch.
pub fn report_refused_eviction(rollout: &mut RolloutStatus, evicted: Vec<String>, pod: &Eviction, refusal: &Refusal) {
    rollout.batch = evicted;
    rollout.phase = if rollout.batch.is_empty() { RolloutPhase::Waiting } else { RolloutPhase::Rolling };
    rollout.message = format!("pod {} on {} can't be evicted yet: {}", pod.name, pod.node, refusal.message);
}

fn refused_strategy_warning(strategy: &Strategy) -> Finding {
    let Strategy { namespace, name, .. } = strategy;
    let message = format!(
        "the update strategy of DaemonSet {namespace}/{name} is not OnDelete, and osdpl does not change it because \
         another field manager owns this field: Kubernetes replaces the pods by itself, and not in batches; set \
         OnDelete with that field manager, which this command shows: kubectl -n {namespace} get daemonset {name} \
         --show-managed-fields -o yaml"
    );
    Finding::new(Level::Warning, "spec.nodes.rollout", message)
}
