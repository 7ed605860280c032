//! A YAML tree in which every node knows its line. Provenance shows these lines.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// A node of the tree, with the line of its key.
///
/// A node without a key has the line where it starts; an alias has its own line.
#[derive(Debug)]
pub struct LocatedNode {
    line: u64,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Map(Vec<(String, LocatedNode)>),
    List(Vec<LocatedNode>),
    Leaf(String),
}

impl LocatedNode {
    /// Returns the node below these keys. An item of a list is addressed by its index, from 0.
    pub fn find<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Option<&Self> {
        keys.into_iter().try_fold(self, |node, key| node.child(key))
    }

    /// Returns the node below these keys, or the last existing one on the way if a key is missing.
    pub fn nearest<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> &Self {
        let mut node = self;
        for key in keys {
            let Some(child) = node.child(key) else { break };
            node = child;
        }
        node
    }

    /// Returns the line of the node, from 1; 0 if it is unknown.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the text of a scalar as written; `None` for a map or list.
    pub fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Leaf(text) => Some(text),
            Node::Map(_) | Node::List(_) => None,
        }
    }

    fn child(&self, key: &str) -> Option<&Self> {
        match &self.node {
            Node::Map(map) => map.iter().find(|(known, _)| known == key).map(|(_, node)| node),
            Node::List(list) => list.get(key.parse::<usize>().ok()?),
            Node::Leaf(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for LocatedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer)
            .map(|Spanned { value, referenced, .. }| Self { line: referenced.line(), node: value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, LocatedNode>()? {
            entries.push((key.value, LocatedNode { line: key.referenced.line(), ..value }));
        }
        Ok(Node::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Node::List(entries))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Leaf(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf("null".to_owned()))
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const TEXT: &str = "why: x\nfragments:\n- why: one\n  releases: &a\n    nova: {values: {debug: true}}\n- when: spec.x > 1\n  releases: *a\n";

    #[test]
    fn finds_lines_and_scalar_texts() {
        let tree: LocatedNode = parse("x", TEXT).unwrap();
        let debug = ["fragments", "0", "releases", "nova", "values", "debug"];
        let found = tree.find(debug).unwrap();
        assert_eq!((found.line(), found.text()), (5, Some("true")));
        assert_eq!(tree.find(["fragments", "1", "when"]).unwrap().text(), Some("spec.x > 1"));
        assert!(tree.find(["fragments", "7"]).is_none());
    }

    #[test]
    fn falls_back_to_the_nearest_parent() {
        let tree: LocatedNode = parse("x", TEXT).unwrap();
        assert_eq!(tree.nearest(["fragments", "0", "releases", "nova", "values", "other"]).line(), 5);
        assert_eq!(tree.nearest(["fragments", "1", "releases"]).line(), 7, "an alias has its own line");
    }
}
