//! Reads from an object's `managedFields` which fields each writer (field manager) owns. The API server stores these
//! fields in the notation `FieldsV1`.
//!
//! A `FieldsV1` is a tree of maps. A key is `f:<name of a field>`, `k:<keys that identify a list item>` or
//! `v:<value of a list item>`. The key `.` means that the writer also owns the field or list item that the map stands
//! for.

use std::fmt;

use osdpl_values::plain_text;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The maximum number of paths that osdpl keeps as strings for one field manager. A field manager can own a hundred
/// fields of a Deployment, but messages show only a few paths. osdpl keeps the paths beyond this number only as hashes.
const KEPT: usize = 32;

/// The maximum length of a path in bytes; osdpl cuts off the rest. Paths of any length are possible, because keys of
/// maps can have any length.
const LONGEST: usize = 120;

/// The top-level fields whose changes osdpl does not report as drift, as keys of `FieldsV1`.
const SKIPPED: [&str; 2] = ["f:metadata", "f:status"];

/// The fields of an object that one writer (field manager) owns, except for fields below `metadata` and `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedFields {
    /// The paths of at most `KEPT` owned fields, such as `spec.template.spec.containers[name=api].image`.
    pub paths: Vec<String>,
    /// The number of all owned fields, including those whose paths are not in `paths`.
    pub count: usize,
    /// The hashes of the paths of all owned fields. In the hashed paths, `[]` stands for any item of a list.
    pub hashes: Vec<PathHash>,
}

/// The hash of a field's path (FNV-1a, 32 bits). A hash takes less memory than the path itself.
///
/// If two paths of an object have the same hash, osdpl counts the owners of both fields as owners of one field, and so
/// can fail to notice that someone removed one of the fields. The probability is one in some millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathHash(u32);

impl PathHash {
    const NONE: Self = Self(0x811c_9dc5);

    /// Returns the hash of a path in the notation of [`crate::release::Field`].
    pub fn of(path: &str) -> Self {
        Self::NONE.with(path)
    }

    fn with(self, text: &str) -> Self {
        Self(text.bytes().fold(self.0, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }

    /// Returns the hash of the path of a child node in the `FieldsV1` tree, from the hash of the parent's path (`self`)
    /// and the child's `key`.
    fn below(self, key: &str) -> Self {
        match key.strip_prefix("f:") {
            Some(name) if self == Self::NONE => self.with(name),
            Some(name) => self.with(".").with(name),
            None => self.with("[]"),
        }
    }
}

impl<'de> Deserialize<'de> for OwnedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Self::default();
        deserializer.deserialize_any(Walk { fields: &mut fields, path: String::new(), hash: PathHash::NONE })?;
        Ok(fields)
    }
}

/// Collects the fields that a writer (field manager) owns below one node of a `FieldsV1` tree, while serde parses the
/// tree.
struct Walk<'a> {
    fields: &'a mut OwnedFields,
    path: String,
    hash: PathHash,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    /// The result of visiting a node of the `FieldsV1` tree: whether the node has children. A node without children is
    /// an owned field.
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("fields")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<bool, A::Error> {
        let mut inner = false;
        while let Some(key) = entries.next_key::<String>()? {
            if self.path.is_empty() && SKIPPED.contains(&key.as_str()) || key == "." {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            inner = true;
            let path = join(&self.path, &key);
            let hash = self.hash.below(&key);
            let leaf = !entries.next_value_seed(Walk { fields: &mut *self.fields, path: path.clone(), hash })?;
            if leaf {
                self.fields.count += 1;
                self.fields.hashes.push(hash);
                if self.fields.paths.len() < KEPT {
                    self.fields.paths.push(path);
                }
            }
        }
        Ok(inner)
    }
}

/// Builds the path of a field from the path of the field's parent and the field's key in `FieldsV1`.
fn join(path: &str, key: &str) -> String {
    let (prefix, name) = key.split_at_checked(2).unwrap_or(("", key));
    let mut joined = match prefix {
        "f:" if path.is_empty() => name.to_owned(),
        "f:" => format!("{path}.{name}"),
        "k:" => format!("{path}[{}]", item(name)),
        _ => format!("{path}[…]"),
    };
    if joined.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| joined.is_char_boundary(*end)).unwrap_or(0);
        joined.truncate(end);
    }
    joined
}

/// Formats the keys that identify a list item: returns `name=api` for `{"name":"api"}`.
fn item(key: &str) -> String {
    let Ok(parts) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(key) else {
        return "…".into();
    };
    parts.iter().map(|(name, value)| format!("{name}={}", plain_text(value))).collect::<Vec<_>>().join(",")
}
