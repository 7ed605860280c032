//! What forbids that a node's pods go: quorums, and disruption budgets.

use std::collections::BTreeSet;

/// A `StatefulSet` that keeps a quorum, and has a pod on the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// `namespace/name`.
    pub set: String,
    /// How many pods it is to have.
    pub replicas: i32,
    /// Its pods: on which node each is, and whether it is ready.
    pub pods: Vec<(String, bool)>,
}

/// A `PodDisruptionBudget` of a pod on the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// `namespace/name`.
    pub name: String,
    /// How many of its pods may be evicted now.
    pub allowed: i32,
    /// How many of its pods are healthy.
    pub healthy: i32,
    /// How many must be.
    pub wanted: i32,
    /// Whether one of its pods on the node is ready: those that are not may go under other rules.
    pub ready: bool,
    /// Whether a pod that is not ready may go at any time (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always: bool,
}

impl Budget {
    /// Whether an eviction on the node is refused, as the eviction API has it: a pod that is not ready may go without being allowed for where as
    /// many are healthy as must be, which is what the policy `IfHealthyBudget`, the default, says.
    fn refuses(&self) -> bool {
        let is_kept = self.wanted > 0 && self.healthy >= self.wanted;
        self.allowed < 1 && (self.ready || !(self.always || is_kept))
    }
}

/// What forbids it, a line each. Pods on nodes that others are taking out count as gone.
pub fn refusals(node: &str, away: &BTreeSet<String>, sets: &[Members], budgets: &[Budget]) -> Vec<String> {
    let quorums = sets.iter().filter_map(|members| {
        let Members { set, replicas, pods } = members;
        let gone = |at: &str| at == node || away.contains(at);
        let left = pods.iter().filter(|(at, ready)| *ready && !gone(at)).count();
        let needed = usize::try_from(*replicas / 2 + 1).unwrap_or(1);
        (left < needed).then(|| {
            format!(
                "StatefulSet {set} would keep {left} of {replicas} pods ready without this node, and needs {needed} for its quorum; have its other pods ready, or give it more of them"
            )
        })
    });
    let budgets = budgets.iter().filter(|budget| budget.refuses()).map(|budget| {
        let Budget { name, healthy, wanted, .. } = budget;
        format!(
            "PodDisruptionBudget {name} allows no eviction: {healthy} of its pods are healthy, and {wanted} must be; have its other pods ready"
        )
    });
    quorums.chain(budgets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_counts_pods_on_other_nodes_that_are_not_taken_out() {
        let members = |pods: &[(&str, bool)]| Members {
            set: "o/db".into(),
            replicas: 3,
            pods: pods.iter().map(|(node, ready)| ((*node).to_owned(), *ready)).collect(),
        };
        let all = [("n1", true), ("n2", true), ("n3", true)];
        let refused = |pods: &[(&str, bool)], away: &[&str]| {
            let away = away.iter().map(|node| (*node).to_owned()).collect();
            !refusals("n1", &away, &[members(pods)], &[]).is_empty()
        };
        assert!(!refused(&all, &[]));
        assert!(refused(&all, &["n2"]));
        assert!(refused(&[("n1", true), ("n2", true), ("n3", false)], &[]));
        assert!(
            !refused(&[("n1", false), ("n2", true), ("n3", true)], &[]),
            "the one that goes is the one that is not ready"
        );
        let budget =
            |allowed| Budget { name: "o/db".into(), allowed, healthy: 2, wanted: 2, ready: true, always: false };
        let none = BTreeSet::new();
        assert_eq!(refusals("n1", &none, &[], &[budget(1)]), Vec::<String>::new());
        let told = refusals("n1", &none, &[], &[budget(0)]);
        assert!(
            told[0]
                .starts_with("PodDisruptionBudget o/db allows no eviction: 2 of its pods are healthy, and 2 must be")
        );
    }

    #[test]
    fn a_budget_does_not_keep_the_pod_that_is_broken() {
        let refused = |healthy, ready, always| {
            let budget = Budget { name: "o/db".into(), allowed: 0, healthy, wanted: 2, ready, always };
            !refusals("n1", &BTreeSet::new(), &[], &[budget]).is_empty()
        };
        assert!(refused(2, true, true), "a ready one is counted whatever the policy");
        assert!(!refused(2, false, false), "the node that fails is the one that is repaired");
        assert!(refused(1, false, false));
        assert!(!refused(1, false, true));
        let uncounted = Budget { name: "o/db".into(), allowed: 0, healthy: 0, wanted: 0, ready: false, always: false };
        assert_eq!(refusals("n1", &BTreeSet::new(), &[], &[uncounted]).len(), 1);
    }
}
