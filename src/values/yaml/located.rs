//! Parses YAML into a tree in which every node has its line and column in the file. Error messages and the provenance
//! of values name this location.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::{Error, read};

/// A node of the tree, with the location of its key.
///
/// A node without a key, such as an item of a list, has the location of its first character. If the YAML contains an
/// alias (`*name`), the node has the location of the alias, not that of its anchor (`&name`).
#[derive(Debug)]
pub struct LocatedNode {
    location: Location,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Map(Vec<(String, LocatedNode)>),
    List(Vec<LocatedNode>),
    Scalar(Value),
}

impl LocatedNode {
    /// Returns the node at the path `keys` below this node; `None` if there is none. The key of an item of a list is
    /// the item's index, from 0.
    pub fn find<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Option<&Self> {
        keys.into_iter().try_fold(self, |node, key| node.child(key))
    }

    /// Returns the node at the path `keys` below this node. If a key is missing, returns the last node that exists on
    /// the path.
    pub fn nearest<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> &Self {
        let mut node = self;
        for key in keys {
            let Some(child) = node.child(key) else { break };
            node = child;
        }
        node
    }

    /// Returns the line of the node, counted from 1; 0 if the line is unknown.
    pub fn line(&self) -> u64 {
        self.location.line()
    }

    /// Returns the node's text if the node is a string, otherwise `None`.
    pub fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Scalar(value) => value.as_str(),
            Node::Map(_) | Node::List(_) => None,
        }
    }

    /// Returns the node, and everything below it, as a JSON value.
    pub fn value(&self) -> Value {
        match &self.node {
            Node::Map(map) => map.iter().map(|(key, node)| (key.clone(), node.value())).collect(),
            Node::List(list) => list.iter().map(Self::value).collect(),
            Node::Scalar(value) => value.clone(),
        }
    }

    /// Returns the approximate size of the node as JSON, in bytes. The content of an anchor counts again for each
    /// alias.
    pub fn size(&self) -> usize {
        let content: usize = match &self.node {
            Node::Map(map) => map.iter().map(|(key, node)| json_length(key) + node.size()).sum(),
            Node::List(list) => list.iter().map(Self::size).sum(),
            Node::Scalar(value) => value.as_str().map_or(0, json_length),
        };
        PUNCTUATION + content
    }

    /// Deserializes the node as a `T`. Errors contain the file name `file`.
    ///
    /// Use this function for a type that osdpl also reads from JSON. The function converts the node to JSON text first,
    /// so that the compiled program contains only the JSON deserializer of the type.
    ///
    /// # Errors
    /// Returns an error if the node does not have the shape of `T`. The error has the line and column of the wrong key
    /// or item, or of the map that lacks a key.
    pub fn deserialize<T: DeserializeOwned>(&self, file: &str) -> Result<T, Error> {
        let mut json = String::new();
        let mut locations = vec![self.location];
        self.write(&mut json, &mut locations);
        serde_json::from_str(&json).map_err(|error| {
            let location = locations.get(error.line().saturating_sub(1)).unwrap_or(&self.location);
            let message = read::problem::translate(&error.to_string());
            Error { file: file.to_owned(), line: location.line(), column: location.column(), message }
        })
    }

    /// Writes the node as JSON. Begins a new line for each key, each item of a list and each end of a map, and adds the
    /// YAML location of each line to `locations`. So the caller can find the YAML location for the line number of a
    /// JSON error.
    fn write(&self, json: &mut String, locations: &mut Vec<Location>) {
        match &self.node {
            Node::Map(map) => {
                json.push('{');
                for (index, (key, node)) in map.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let _ = write!(json, "{comma}\n{}:", Value::from(key.as_str()));
                    locations.push(node.location);
                    node.write(json, locations);
                }
                json.push_str("\n}");
                locations.push(self.location);
            }
            Node::List(list) => {
                json.push('[');
                for (index, node) in list.iter().enumerate() {
                    json.push_str(if index == 0 { "\n" } else { ",\n" });
                    locations.push(node.location);
                    node.write(json, locations);
                }
                json.push(']');
            }
            Node::Scalar(value) => {
                let _ = write!(json, "{value}");
            }
        }
    }

    fn child(&self, key: &str) -> Option<&Self> {
        match &self.node {
            Node::Map(map) => map.iter().find(|(known, _)| known == key).map(|(_, node)| node),
            Node::List(list) => list.get(key.parse::<usize>().ok()?),
            Node::Scalar(_) => None,
        }
    }
}

/// The approximate number of bytes that a node takes as JSON in addition to its keys and texts.
const PUNCTUATION: usize = 8;

/// Returns the length of a text as JSON, in bytes. JSON needs six bytes for most control characters.
fn json_length(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..b' ' => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

impl<'de> Deserialize<'de> for LocatedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer)
            .map(|Spanned { value, referenced, .. }| Self { location: referenced, node: value })
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
            entries.push((key.value, LocatedNode { location: key.referenced, ..value }));
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

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Scalar(text.into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
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
        assert_eq!((found.line(), found.value()), (5, true.into()));
        assert_eq!(tree.find(["fragments", "1", "when"]).unwrap().text(), Some("spec.x > 1"));
        assert!(tree.find(["fragments", "7"]).is_none());
    }

    #[test]
    fn falls_back_to_the_nearest_parent() {
        let tree: LocatedNode = parse("x", TEXT).unwrap();
        assert_eq!(tree.nearest(["fragments", "0", "releases", "nova", "values", "other"]).line(), 5);
        assert_eq!(tree.nearest(["fragments", "1", "releases"]).line(), 7, "an alias has its own line");
    }

    #[test]
    fn size_counts_escapes_and_aliases() {
        let size = |text: &str| parse::<LocatedNode>("x", text).unwrap().size();
        assert_eq!(size("abc"), PUNCTUATION + 3);
        assert_eq!(size("a: [bc, 1]"), 4 * PUNCTUATION + 3);
        assert_eq!(size(r#""\x01\n""#), PUNCTUATION + 8);
        assert_eq!(size("[&a bc, *a, *a]"), 4 * PUNCTUATION + 6);
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the shape is tested")]
    struct Strict {
        name: String,
        count: Option<u8>,
    }

    #[test]
    fn deserialization_errors_have_the_location_of_the_key() {
        let error = |text: &str| {
            let tree: LocatedNode = parse("a.yaml", text).unwrap();
            tree.deserialize::<Vec<Strict>>("a.yaml").unwrap_err().to_string()
        };
        assert_eq!(error("- name: a\n- name: b\n  count: [1]\n"), "a.yaml:3:3: invalid type: sequence, expected u8");
        assert_eq!(error("- name: a\n  count: hunter2"), "a.yaml:2:3: invalid type: string, expected u8");
        assert!(error("- name: a\n  nmae: b").starts_with("a.yaml:2:3: unknown field `nmae`"));
        assert_eq!(error("- {name: a}\n- count: 1\n"), "a.yaml:2:3: missing field `name`");
        assert_eq!(error("a: 1"), "a.yaml:1:1: invalid type: map, expected a sequence");
        let tree: LocatedNode = parse("a.yaml", "- &a {name: \"a\\nb\", count: 1}\n- *a\n").unwrap();
        assert_eq!(tree.deserialize::<Vec<Strict>>("a.yaml").unwrap()[1].name, "a\nb");
    }
}
