//! The number of a node, and the names and addresses that follow from it.

use std::net::Ipv4Addr;

use anyhow::bail;
use serde::{Deserialize, Serialize};

/// The machine's address in the network that connects it with the nodes.
pub(super) const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 1);
/// The prefix length of this network.
pub(super) const PREFIX: &str = "/24";
/// The maximum number of nodes: as many as a database or broker needs for a quorum.
pub(super) const MAX: u8 = 3;

/// The number of a node. Node 1 runs the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Number(u8);

impl Number {
    pub(super) const FIRST: Self = Self(1);

    /// Returns the numbers of all nodes that can exist.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (1..=MAX).map(Self)
    }

    /// Returns the number in the name of a node, such as `node2`.
    pub(super) fn parse(name: &str) -> anyhow::Result<Self> {
        match Self::all().find(|number| number.name() == name) {
            Some(number) => Ok(number),
            None => bail!("there is no node {name:?}: the nodes are node1 to node{MAX}"),
        }
    }

    /// Whether this is one of the first `count` nodes.
    pub(super) fn is_within(self, count: u8) -> bool {
        self.0 <= count
    }

    pub(super) fn name(self) -> String {
        format!("node{}", self.0)
    }

    /// Returns the name of the node's folder.
    pub(super) fn folder(self) -> String {
        if self == Self::FIRST { "node".into() } else { self.name() }
    }

    /// Returns the address of the node in the network of the nodes.
    pub(super) fn address(self) -> Ipv4Addr {
        let [a, b, c, machine] = MACHINE.octets();
        Ipv4Addr::new(a, b, c, machine + self.0)
    }

    /// Returns the address range of the node's pods, which is a part of `settings::PODS`.
    pub(super) fn pods(self) -> String {
        format!("10.244.{}.0/24", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_different_names_and_addresses() {
        let facts = |number: Number| (number.name(), number.address().to_string(), number.pods());
        let all: Vec<_> = Number::all().map(facts).collect();
        let expected = [
            ("node1", "10.123.0.2", "10.244.1.0/24"),
            ("node2", "10.123.0.3", "10.244.2.0/24"),
            ("node3", "10.123.0.4", "10.244.3.0/24"),
        ];
        assert_eq!(all, expected.map(|(name, address, pods)| (name.into(), address.into(), pods.into())));
    }

    #[test]
    fn parses_only_names_of_nodes() {
        assert!(Number::parse("node1").unwrap() == Number::FIRST);
        for wrong in ["node0", "node4", "2", "node"] {
            assert!(Number::parse(wrong).unwrap_err().to_string().contains("node1 to node3"), "{wrong}");
        }
    }

    #[test]
    fn the_first_nodes_are_within_the_count() {
        let within = |count| Number::all().filter(|number| number.is_within(count)).count();
        assert_eq!([within(1), within(2), within(3)], [1, 2, 3]);
    }
}
