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
    let budgets = budgets.iter().filter(|budget| budget.allowed < 1).map(|budget| {
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
        let budget = |allowed| Budget { name: "o/db".into(), allowed, healthy: 2, wanted: 2 };
        let none = BTreeSet::new();
        assert_eq!(refusals("n1", &none, &[], &[budget(1)]), Vec::<String>::new());
        let told = refusals("n1", &none, &[], &[budget(0)]);
        assert!(
            told[0]
                .starts_with("PodDisruptionBudget o/db allows no eviction: 2 of its pods are healthy, and 2 must be")
        );
    }
}
