//! Rolling the data plane, carried out: a pass decides, evicts what goes now, and says how far it is.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::gather::Wish;
use super::memory::Memory;
use crate::api::{OpenStackDeployment, RolloutPhase};
use crate::cluster::Evicted;
use crate::plan::Plan;
use crate::rollout::{self, Next, Rollouts, Scene, Strategy};

/// How long a pod is left alone whose eviction was refused: disruption budgets change with other pods, and nothing tells when.
const AGAIN: Duration = Duration::from_secs(10);

/// What is remembered of rollouts between passes; losing it costs nothing.
#[derive(Default)]
pub struct Rolled {
    /// What was said last: the status that a watch tells may be older.
    said: Option<Rollouts>,
    /// The uids of pods that were evicted and are still shown.
    evicted: BTreeSet<String>,
    /// The strategies that were set already: what did not take is another's.
    set: BTreeSet<Strategy>,
    /// Until when nothing is evicted, and the words of the refusal.
    refused: Option<(Timestamp, String)>,
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
    ) -> Next {
        let before = memory.rolled.said(deployment);
        if wish.refused {
            return Next { rollouts: before, ..Next::default() };
        }
        self.set_strategies(plan, wish, &mut memory.rolled).await;
        let seen = self.tasks.observe();
        let shown = || seen.rolling.values().flat_map(|rolling| &rolling.pods).map(|pod| &pod.uid);
        memory.rolled.evicted.retain(|uid| shown().any(|shown| shown == uid));
        let scene = Scene {
            desired: &wish.desired,
            observed: &wish.observed,
            catalog: &self.catalog,
            plan,
            policy: &wish.policy,
            settings: &deployment.spec.nodes.rollout,
            rolling: &seen.rolling,
            nodes: seen.nodes(),
            before: &before,
            evicted: &memory.rolled.evicted,
            now: super::now(),
        };
        let mut next = rollout::next(&scene);
        self.tasks.roll(next.watch.clone());
        self.evict(&mut next, &mut memory.rolled).await;
        memory.rolled.said = Some(next.rollouts.clone());
        next
    }

    /// Sets the strategies that charts can't. What is refused is tried again once the object is another one.
    async fn set_strategies(&self, plan: &Plan, wish: &Wish, rolled: &mut Rolled) {
        let wanted = rollout::strategies(&wish.desired, &wish.observed, &self.catalog, plan);
        rolled.set.retain(|known| wanted.contains(known));
        for strategy in wanted.into_iter().filter(|_| !wish.policy.paused) {
            if rolled.set.contains(&strategy) {
                continue;
            }
            match self.cluster.set_strategy(&strategy).await {
                Ok(()) => tracing::info!(daemonset = strategy.name, on_delete = strategy.on_delete, "strategy set"),
                Err(error) => tracing::warn!(%error, "strategy not set"),
            }
            rolled.set.insert(strategy);
        }
    }

    /// Evicts a batch. What is refused is told, and tried again.
    async fn evict(&self, next: &mut Next, rolled: &mut Rolled) {
        let now = super::now();
        rolled.refused = rolled.refused.take().filter(|(until, _)| *until > now && !next.evict.is_empty());
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
            rolled.refused = Some((until, format!("pod {} on {} may not go yet: {refusal}", pod.name, pod.node)));
            break;
        }
        let Some((until, why)) = &rolled.refused else { return };
        next.wake = next.wake.into_iter().chain([*until]).min();
        let said = next.of.as_ref().and_then(|name| next.rollouts.get_mut(name));
        if let Some(said) = said {
            said.batch = gone;
            said.phase = if said.batch.is_empty() { RolloutPhase::Waiting } else { RolloutPhase::Rolling };
            said.message.clone_from(why);
        }
    }
}
