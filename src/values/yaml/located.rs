//! A YAML tree in which every node knows its line, for provenance.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A node with the position of its key, if it has one, and of its start. For an alias, the position of the alias.
#[derive(Debug)]
pub struct LocatedNode {
    key: Option<Position>,
    start: Position,
    node: Node,
}

/// A line and a column, from 1.
type Position = (u64, u64);

#[derive(Debug)]
enum Node {
    Map(Vec<(String, LocatedNode)>),
    List(Vec<LocatedNode>),
    Leaf(String),
}

impl LocatedNode {
    /// Parses a YAML document.
    ///
    /// # Errors
    /// If the text is not valid YAML; with line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, super::Error> {
        super::read::read(file, text)
    }

    /// Returns the node below these keys. List items are addressed by index, from 0.
    pub fn find<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Option<&Self> {
        keys.into_iter().try_fold(self, |node, key| node.child(key))
    }

    /// As [`Self::find`], but returns the last existing node on the way if a key is missing.
    pub fn nearest<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> &Self {
        let mut node = self;
        for key in keys {
            let Some(child) = node.child(key) else { break };
            node = child;
        }
        node
    }

    /// Returns the line of the key, or of the start without a key, from 1; 0 if it is unknown.
    pub fn line(&self) -> u64 {
        self.key.unwrap_or(self.start).0
    }

    /// Returns the text of a scalar as written.
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
        Spanned::deserialize(deserializer).map(|Spanned { value, referenced, .. }| Self {
            key: None,
            start: (referenced.line(), referenced.column()),
            node: value,
        })
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
            let position = (key.referenced.line(), key.referenced.column());
            entries.push((key.value, LocatedNode { key: Some(position), ..value }));
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

/// A document as JSON with at most one key or scalar per line, and the position of each line in the YAML document.
pub(super) struct LocatedJson {
    text: String,
    /// Whether the end of a map has a line of its own, with the position of the map. Otherwise it is on the line of the
    /// last value, because the JSON library locates errors that concern a value behind it.
    ends_have_lines: bool,
    positions: Vec<Position>,
}

impl LocatedJson {
    /// Writes a value with the positions of the document that it was parsed from.
    pub(super) fn new(node: &LocatedNode, value: &Value, ends_have_lines: bool) -> Self {
        let mut json = Self { text: String::new(), ends_have_lines, positions: Vec::new() };
        json.write(node, value);
        json
    }

    /// Returns the JSON.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the position in the YAML document for a line of the JSON, from 1.
    pub(super) fn position(&self, line: usize) -> Position {
        line.checked_sub(1).and_then(|index| self.positions.get(index)).copied().unwrap_or_default()
    }

    fn write(&mut self, node: &LocatedNode, value: &Value) {
        match (&node.node, value) {
            (Node::Map(entries), Value::Object(map)) => {
                self.line("{", node.start);
                let entries = entries.iter().filter_map(|(key, below)| Some((key, below, map.get(key)?)));
                for (index, (key, below, value)) in entries.enumerate() {
                    self.comma(index);
                    self.line(&format!("{}:", Value::from(key.as_str())), below.key.unwrap_or(below.start));
                    self.write(below, value);
                }
                self.end("}", node.start);
            }
            (Node::List(entries), Value::Array(list)) => {
                self.line("[", node.start);
                for (index, (below, value)) in entries.iter().zip(list).enumerate() {
                    self.comma(index);
                    self.write(below, value);
                }
                self.end("]", node.start);
            }
            (_, value) => self.line(&value.to_string(), node.start),
        }
    }

    /// Begins a line.
    fn line(&mut self, text: &str, position: Position) {
        if !self.positions.is_empty() {
            self.text.push('\n');
        }
        self.text += text;
        self.positions.push(position);
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.text.push(',');
        }
    }

    fn end(&mut self, text: &str, position: Position) {
        if self.ends_have_lines {
            self.line(text, position);
        } else {
            self.text += text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "why: x\nfragments:\n- why: one\n  releases: &a\n    nova: {values: {debug: true}}\n- when: spec.x > 1\n  releases: *a\n";

    #[test]
    fn finds_lines_and_scalar_texts() {
        let tree = LocatedNode::parse("x", TEXT).unwrap();
        let debug = ["fragments", "0", "releases", "nova", "values", "debug"];
        let found = tree.find(debug).unwrap();
        assert_eq!((found.line(), found.text()), (5, Some("true")));
        assert_eq!(tree.find(["fragments", "1", "when"]).unwrap().text(), Some("spec.x > 1"));
        assert!(tree.find(["fragments", "7"]).is_none());
    }

    #[test]
    fn falls_back_to_the_nearest_parent() {
        let tree = LocatedNode::parse("x", TEXT).unwrap();
        assert_eq!(tree.nearest(["fragments", "0", "releases", "nova", "values", "other"]).line(), 5);
        assert_eq!(tree.nearest(["fragments", "1", "releases"]).line(), 7, "the line of the alias");
    }
}
