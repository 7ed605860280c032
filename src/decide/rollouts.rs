//! Rollouts of the data plane: update strategies that live `DaemonSets` lack, and the pods that are evicted now.

use super::action::{Action, Planned};
use super::draft::Draft;
use super::kept::Refusal;
use osdpl_core::api::RolloutPhase;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{Desired, Finding};
use osdpl_core::observed::Observed;
use osdpl_core::plan::{Plan, Policy};
use osdpl_core::rollout::{self, Eviction, Input, NextRollouts, Rollouts, Strategy};

/// What the last status says: the watch may be older.
pub fn last(draft: &Draft<'_>) -> Rollouts {
    let status = draft.snapshot.deployment.status.as_ref();
    let stored = || status.map(|status| status.rollouts.clone()).unwrap_or_default();
    draft.snapshot.kept.rollouts.clone().unwrap_or_else(stored)
}

/// Plans the strategies that live `DaemonSets` lack, before helm changes their templates. A strategy that another field manager holds stays,
/// with a warning.
pub fn guard(draft: &mut Draft<'_>, (desired, observed): (&Desired, &Observed), catalog: &Catalog, plan: &Plan) {
    if draft.paused {
        return;
    }
    let wanted = rollout::strategies_to_set(desired, observed, catalog, plan);
    draft.kept.strategies.retain(|known| wanted.contains(known));
    draft.kept.unguarded.retain(|known| wanted.contains(known));
    for strategy in wanted {
        let is_unguarded = draft.kept.unguarded.contains(&strategy);
        if !is_unguarded && !draft.kept.strategies.contains(&strategy) {
            let action = Action::SetStrategy(strategy.clone());
            let refusal =
                draft.attempt(Planned::new(action, "its pods are replaced by osdpl, in batches, or by nobody else"));
            draft.problems.extend(refusal.map(|refusal| refusal.message.clone()));
        }
        // Helm is about to set the strategy of a release that is not as desired yet.
        if strategy.settled && strategy.on_delete && is_unguarded {
            draft.findings.push(unguarded(&strategy));
        }
    }
}

/// Decides rollouts and plans the evictions of the next batch.
pub fn roll(
    draft: &mut Draft<'_>,
    (desired, observed): (&Desired, &Observed),
    catalog: &Catalog,
    (plan, policy): (&Plan, &Policy),
) -> NextRollouts {
    let snapshot = draft.snapshot;
    let shown = || snapshot.rolling.values().flat_map(|rolling| &rolling.pods).map(|pod| &pod.uid);
    draft.kept.evicted.retain(|uid| shown().any(|shown| shown == uid));
    let before = last(draft);
    let mut next = rollout::decide(&Input {
        desired,
        observed,
        catalog,
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
            draft.wake([refusal.until]);
            if let Some(rollout) = next.component.as_ref().and_then(|name| next.rollouts.get_mut(name)) {
                held(rollout, Vec::new(), &pod, refusal);
            }
        }
        None => {
            for pod in &next.evict {
                let reason = next.component.clone().unwrap_or_default();
                draft.add(Planned::new(Action::Evict(pod.clone()), format!("rollout of {reason}")));
            }
        }
    }
    draft.wake(next.requeue_at);
    draft.kept.rollouts = Some(next.rollouts.clone());
    next
}

/// Has a rollout report that the eviction of a pod was refused; `evicted` are the nodes whose pods were evicted before it.
pub fn held(rollout: &mut osdpl_core::api::RolloutStatus, evicted: Vec<String>, pod: &Eviction, refusal: &Refusal) {
    rollout.batch = evicted;
    rollout.phase = if rollout.batch.is_empty() { RolloutPhase::Waiting } else { RolloutPhase::Rolling };
    rollout.message = format!("pod {} on {} may not go yet: {}", pod.name, pod.node, refusal.message);
}

fn unguarded(strategy: &Strategy) -> Finding {
    let Strategy { namespace, name, .. } = strategy;
    Finding {
        level: Level::Warning,
        field: "spec.nodes.rollout".into(),
        message: format!(
            "DaemonSet {namespace}/{name} has another update strategy than OnDelete by another hand, which is respected: Kubernetes replaces its pods by itself, and not in batches; see kubectl -n {namespace} get daemonset {name} --show-managed-fields -o yaml"
        ),
    }
}
