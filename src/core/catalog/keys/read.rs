//! Deserializes a key tree from JSON or YAML.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use super::{KeyTree, KeyType, READ_MARKER, TEXT_PREFIX};

/// Implemented by hand, because the code that serde derives for an untagged enum copies every level of the tree into a
/// buffer.
impl<'de> Deserialize<'de> for KeyTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = KeyTree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("a map of keys, a list of entries' names, a number, a boolean, a string after `=`, or one of map, list, string, number, boolean, \"null\" (in quotes) and read")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<KeyTree, E> {
        if let Some(text) = name.strip_prefix(TEXT_PREFIX) {
            return Ok(KeyTree::Text(text.into()));
        }
        if name == READ_MARKER {
            return Ok(KeyTree::ReadOnly);
        }
        KeyType::deserialize(StrDeserializer::new(name)).map(KeyTree::Leaf)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<KeyTree, E> {
        Ok(KeyTree::Boolean(value))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<KeyTree, E> {
        Ok(KeyTree::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<KeyTree, E> {
        Ok(KeyTree::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<KeyTree, E> {
        Ok(Number::from_f64(number).map_or(KeyTree::Leaf(KeyType::Number), KeyTree::Number))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeyTree, A::Error> {
        let mut entries: Vec<Box<str>> = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(KeyTree::List(entries.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyTree, A::Error> {
        let mut entries: Vec<(Box<str>, KeyTree)> = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(KeyTree::map(entries))
    }
}
