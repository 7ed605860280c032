//! Measures how long nodes are `NotReady`, by the clock of this process. The times in the nodes' conditions come from
//! clocks of other machines, which may be wrong by hours.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use osdpl_core::health::node::Readiness;

/// The time at which this process saw a node become `NotReady`, by the node's name; `None` for a node that was ready
/// when this process last saw it.
///
/// The process keeps these times, because the times in the nodes' conditions come from clocks of other machines. A
/// restart of the operator loses the times. osdpl then uses the times in the nodes' conditions, see
/// [`NodeTimes::observe`].
#[derive(Default)]
pub(super) struct NodeTimes(BTreeMap<String, Option<Timestamp>>);

impl NodeTimes {
    /// Returns the readiness of a node. If the node is `NotReady`, the result contains the time at which the node
    /// became `NotReady`, by this process's clock. `now` is the current time of this clock.
    ///
    /// If the node was already `NotReady` when this process first saw the node, the result contains the time in the
    /// node's condition, or `now` if that time is in the future. If the result were always `now`, each restart of the
    /// operator would prolong the time until osdpl reports the node. If the condition has no time, the function returns
    /// `readiness` unchanged.
    pub(super) fn observe(&mut self, node: &str, readiness: Readiness, now: Timestamp) -> Readiness {
        let known = self.0.get(node).copied();
        let since = match (readiness, known) {
            (Readiness::Ready, _) => None,
            (Readiness::Missing(None), _) => return readiness,
            (Readiness::Missing(Some(_)), Some(known)) => Some(known.unwrap_or(now)),
            (Readiness::Missing(Some(since)), None) => Some(since.min(now)),
        };
        if known != Some(since) {
            self.0.insert(node.to_owned(), since);
        }
        if since.is_some() { Readiness::Missing(since) } else { readiness }
    }

    /// Forgets all nodes that are not in `existing`, so that the map does not grow for ever. Does nothing until the map
    /// contains more deleted than existing nodes.
    pub(super) fn forget_others<'a>(&mut self, existing: impl Iterator<Item = &'a str>) {
        let existing: BTreeSet<&str> = existing.collect_set();
        if self.0.len() > 2 * existing.len() {
            self.0.retain(|node, _| existing.contains(node.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn measures_how_long_a_node_is_missing_by_the_own_clock() {
        for offset in [-3600, 0, 3600] {
            let mut times = NodeTimes::default();
            let mut observe = |readiness, second| times.observe("a", readiness, at(5000 + offset + second));
            let lost = Readiness::Missing(Some(at(5001)));
            assert_eq!(observe(Readiness::Ready, 0), Readiness::Ready);
            assert_eq!(observe(lost, 2), Readiness::Missing(Some(at(5002 + offset))), "{offset}");
            assert_eq!(observe(lost, 9), Readiness::Missing(Some(at(5002 + offset))), "{offset}");
            assert_eq!(observe(Readiness::Ready, 10), Readiness::Ready);
            assert_eq!(observe(lost, 20), Readiness::Missing(Some(at(5020 + offset))), "{offset}");
        }
    }

    #[test]
    fn uses_the_time_of_the_condition_for_a_node_that_was_lost_before() {
        let observe = |since, now| NodeTimes::default().observe("a", Readiness::Missing(Some(at(since))), at(now));
        assert_eq!(observe(10, 50), Readiness::Missing(Some(at(10))));
        assert_eq!(observe(90, 50), Readiness::Missing(Some(at(50))), "the other clock is ahead");
        assert_eq!(NodeTimes::default().observe("a", Readiness::Missing(None), at(1)), Readiness::Missing(None));
    }

    #[test]
    fn forgets_nodes_that_no_longer_exist() {
        let mut times = NodeTimes::default();
        for name in ["a", "b", "c"] {
            times.observe(name, Readiness::Ready, at(0));
        }
        times.forget_others(["a", "b"].into_iter());
        assert_eq!(times.0.len(), 3);
        times.forget_others(["a"].into_iter());
        assert_eq!(times.0.keys().collect::<Vec<_>>(), ["a"]);
    }
}
