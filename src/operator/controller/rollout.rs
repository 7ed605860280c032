//! Rolling the data plane, carried out: a pass decides, evicts what goes now, and says how far it is.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::gather::Wish;
use super::memory::Memory;
use crate::cluster::Evicted;
use osdpl_core::api::{OpenStackDeployment, RolloutPhase};
use osdpl_core::catalog::Level;
use osdpl_core::desired::Finding;
use osdpl_core::plan::Plan;
use osdpl_core::rollout::{self, Input, NextRollouts, Rollouts, Strategy};

/// How long a pod is left alone whose eviction was refused: disruption budgets change with other pods, and nothing tells when.
const AGAIN: Duration = Duration::from_secs(10);

/// What is remembered of rollouts between passes; losing it costs nothing.
#[derive(Default)]
pub struct Rolled {
    /// What was said last: the status that a watch tells may be older.
    said: Option<Rollouts>,
    /// The uids of pods that were evicted and are still shown.
    evicted: BTreeSet<String>,
    /// The strategies that were set, until a watch tells.
    set: BTreeSet<Strategy>,
    /// Those that someone else says otherwise.
    unguarded: BTreeSet<Strategy>,
    /// Until when the pod of this uid is not evicted, and the words of the refusal.
    refused: Option<(Timestamp, String, String)>,
}

impl Rolled {
    /// What was said last.
    pub fn said(&self, deployment: &OpenStackDeployment) -> Rollouts {
        let stored = || deployment.status.as_ref().map(|status| status.rollouts.clone()).unwrap_or_default();
        self.said.clone().unwrap_or_else(stored)
    }
}

impl Context {
    /// Decides and evicts; a spec that is refused leaves everything as it is.
    pub(super) async fn roll(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        wish: &Wish,
        memory: &mut Memory,
    ) -> NextRollouts {
        let before = memory.rolled.said(deployment);
        if wish.refused {
            return NextRollouts { rollouts: before, ..NextRollouts::default() };
        }
        let seen = self.tasks.observe();
        let shown = || seen.rolling.values().flat_map(|rolling| &rolling.pods).map(|pod| &pod.uid);
        memory.rolled.evicted.retain(|uid| shown().any(|shown| shown == uid));
        let scene = Input {
            desired: &wish.desired,
            observed: &wish.observed,
            catalog: &self.catalog(),
            plan,
            policy: &wish.policy,
            settings: &deployment.spec.nodes.rollout,
            rolling: &seen.rolling,
            nodes: seen.nodes(),
            before: &before,
            evicted: &memory.rolled.evicted,
            now: super::now(),
        };
        let mut next = rollout::decide(&scene);
        self.tasks.watch_rollouts(next.watch.clone());
        self.evict(&mut next, &mut memory.rolled).await;
        memory.rolled.said = Some(next.rollouts.clone());
        next
    }

    /// Sets the strategies that live `DaemonSets` lack, before helm brings them another template. What is refused is told, and tried again; what
    /// someone else says stays, and is told.
    pub(super) async fn guard(&self, plan: &Plan, wish: &mut Wish, memory: &mut Memory) {
        if wish.refused || wish.policy.paused {
            return;
        }
        let wanted = rollout::strategies_to_set(&wish.desired, &wish.observed, &self.catalog(), plan);
        let Rolled { set, unguarded, .. } = &mut memory.rolled;
        set.retain(|known| wanted.contains(known));
        unguarded.retain(|known| wanted.contains(known));
        for strategy in wanted {
            if !set.contains(&strategy) && !unguarded.contains(&strategy) {
                match self.cluster.set_strategy(&strategy).await {
                    Ok(true) => {
                        tracing::info!(daemonset = strategy.name, on_delete = strategy.on_delete, "strategy set");
                        set.insert(strategy.clone());
                    }
                    Ok(false) => drop(unguarded.insert(strategy.clone())),
                    Err(error) => {
                        wish.problems.push(error.to_string());
                        wish.wake = wish.wake.into_iter().chain(super::now().checked_add(AGAIN).ok()).min();
                    }
                }
            }
            // Of one whose release is not as wanted yet helm is about to say it.
            if strategy.settled && strategy.on_delete && unguarded.contains(&strategy) {
                wish.findings.push(unguarded_by_us(&strategy));
            }
        }
    }

    /// Evicts a batch. What is refused is told, and tried again.
    async fn evict(&self, next: &mut NextRollouts, rolled: &mut Rolled) {
        let now = super::now();
        rolled.refused = rolled
            .refused
            .take()
            .filter(|(until, _, uid)| *until > now && next.evict.iter().any(|pod| pod.uid == *uid));
        let mut gone = Vec::new();
        for pod in next.evict.iter().filter(|_| rolled.refused.is_none()) {
            let answer = self.cluster.evict(pod).await;
            let refusal = match answer {
                Ok(Evicted::Going) => {
                    tracing::info!(pod = pod.name, node = pod.node, "evicted");
                    rolled.evicted.insert(pod.uid.clone());
                    gone.push(pod.node.clone());
                    continue;
                }
                Ok(Evicted::Refused(why)) => why,
                Err(error) => error.to_string(),
            };
            let until = now.checked_add(AGAIN).unwrap_or(now);
            let why = format!("pod {} on {} may not go yet: {refusal}", pod.name, pod.node);
            rolled.refused = Some((until, why, pod.uid.clone()));
            break;
        }
        let Some((until, why, _)) = &rolled.refused else { return };
        next.requeue_at = next.requeue_at.into_iter().chain([*until]).min();
        let said = next.component.as_ref().and_then(|name| next.rollouts.get_mut(name));
        if let Some(said) = said {
            said.batch = gone;
            said.phase = if said.batch.is_empty() { RolloutPhase::Waiting } else { RolloutPhase::Rolling };
            said.message.clone_from(why);
        }
    }
}

fn unguarded_by_us(strategy: &Strategy) -> Finding {
    let Strategy { namespace, name, .. } = strategy;
    Finding::new(Level::Warning, "spec.nodes.rollout", format!(
            "DaemonSet {namespace}/{name} has another update strategy than OnDelete by another hand, which is respected: Kubernetes replaces its pods by itself, and not in batches; see kubectl -n {namespace} get daemonset {name} --show-managed-fields -o yaml"
        ))
}
