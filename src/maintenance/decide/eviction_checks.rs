//! Checks whether quorums and disruption budgets permit the eviction of a node's pods.

use std::collections::BTreeSet;

/// A `StatefulSet` whose pods need a quorum, and which has a pod on the node of the maintenance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Members {
    /// The namespace and name of the `StatefulSet`, as `namespace/name`.
    pub set: String,
    /// The desired number of pods of the `StatefulSet`.
    pub replicas: i32,
    /// One item for each pod: the name of its node, and whether the pod is ready.
    pub pods: Vec<(String, bool)>,
}

/// A `PodDisruptionBudget` that selects a pod on the node of the maintenance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    /// The namespace and name of the `PodDisruptionBudget`, as `namespace/name`.
    pub name: String,
    /// The number of evictions that the budget currently allows.
    pub allowed: i32,
    /// The number of healthy pods that the budget selects.
    pub healthy: i32,
    /// The number of healthy pods that the budget requires.
    pub wanted: i32,
    /// Whether at least one of the node's pods that the budget selects is ready. The eviction API has different rules
    /// for ready and unready pods.
    pub ready: bool,
    /// Whether unready pods may always be evicted (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always: bool,
}

impl Budget {
    /// Whether the eviction API would refuse to evict one of the node's pods that the budget selects.
    ///
    /// With the default policy `IfHealthyBudget`, the eviction API permits the eviction of an unready pod if enough
    /// other pods are healthy.
    fn refuses(&self) -> bool {
        let is_satisfied = self.wanted > 0 && self.healthy >= self.wanted;
        self.allowed < 1 && (self.ready || !(self.always || is_satisfied))
    }
}

/// Returns one message for each quorum and each disruption budget that forbids the eviction of a node's pods.
///
/// `away` contains the nodes of the other maintenances that have started. The function regards the pods on these nodes
/// as unavailable.
pub(crate) fn eviction_obstacles(
    node: &str,
    away: &BTreeSet<String>,
    sets: &[Members],
    budgets: &[Budget],
) -> Vec<String> {
    let quorums = sets.iter().filter_map(|members| {
        let Members { set, replicas, pods } = members;
        let gone = |at: &str| at == node || away.contains(at);
        let left = pods.iter().filter(|(at, ready)| *ready && !gone(at)).count();
        let needed = usize::try_from(*replicas / 2 + 1).unwrap_or(1);
        (left < needed).then(|| {
            format!(
                "StatefulSet {set} would keep {left} of {replicas} pods ready without this node but needs {needed} for its quorum; make its other pods ready, or scale it up"
            )
        })
    });
    let budgets = budgets.iter().filter(|budget| budget.refuses()).map(|budget| {
        let Budget { name, healthy, wanted, .. } = budget;
        format!(
            "PodDisruptionBudget {name} allows no eviction: {healthy} of its pods are healthy, and at least {wanted} must stay healthy; make its other pods ready, or change the budget"
        )
    });
    quorums.chain(budgets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_excludes_nodes_in_maintenance() {
        let members = |pods: &[(&str, bool)]| Members {
            set: "o/db".into(),
            replicas: 3,
            pods: pods.iter().map(|(node, ready)| ((*node).to_owned(), *ready)).collect(),
        };
        let all = [("n1", true), ("n2", true), ("n3", true)];
        let refused = |pods: &[(&str, bool)], away: &[&str]| {
            let away = away.iter().map(|node| (*node).to_owned()).collect();
            !eviction_obstacles("n1", &away, &[members(pods)], &[]).is_empty()
        };
        assert!(!refused(&all, &[]));
        assert!(refused(&all, &["n2"]));
        assert!(refused(&[("n1", true), ("n2", true), ("n3", false)], &[]));
        assert!(
            !refused(&[("n1", false), ("n2", true), ("n3", true)], &[]),
            "must permit the eviction of an unready pod: the ready pods keep the quorum"
        );
        let budget =
            |allowed| Budget { name: "o/db".into(), allowed, healthy: 2, wanted: 2, ready: true, always: false };
        let none = BTreeSet::new();
        assert_eq!(eviction_obstacles("n1", &none, &[], &[budget(1)]), Vec::<String>::new());
        let found = eviction_obstacles("n1", &none, &[], &[budget(0)]);
        assert!(found[0].starts_with(
            "PodDisruptionBudget o/db allows no eviction: 2 of its pods are healthy, and at least 2 must"
        ));
    }

    #[test]
    fn budget_permits_eviction_of_unready_pods() {
        let refused = |healthy, ready, always| {
            let budget = Budget { name: "o/db".into(), allowed: 0, healthy, wanted: 2, ready, always };
            !eviction_obstacles("n1", &BTreeSet::new(), &[], &[budget]).is_empty()
        };
        assert!(refused(2, true, true), "must refuse the eviction of a ready pod with any policy");
        assert!(!refused(2, false, false), "must permit the eviction of an unready pod if enough pods are healthy");
        assert!(refused(1, false, false));
        assert!(!refused(1, false, true));
        let uncounted = Budget { name: "o/db".into(), allowed: 0, healthy: 0, wanted: 0, ready: false, always: false };
        assert_eq!(eviction_obstacles("n1", &BTreeSet::new(), &[], &[uncounted]).len(), 1);
    }
}
