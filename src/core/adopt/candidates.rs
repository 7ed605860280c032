//! What may stand in the fields of a spec that describes a cloud: what the values name, and what schemas allow.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::describe::Cloud;
use osdpl_values::{Path, get};

/// A field of the spec, and what the values have for it.
pub(super) type Named = (Path, Vec<Value>);

/// What the releases' values have where the catalogue puts a field of the spec, whole: most often first.
pub(super) fn named(cloud: &Cloud<'_>) -> Vec<Named> {
    let mut counts: BTreeMap<Path, BTreeMap<String, (usize, Value)>> = BTreeMap::new();
    for (name, found) in &cloud.known.releases {
        for (path, source) in cloud.catalog.bodies(name).flat_map(crate::catalog::Body::whole) {
            let (Some(field), Some(value)) = (field(&source), get(&found.seen, &path)) else { continue };
            if value.is_object() || value.is_array() || value.is_null() {
                continue;
            }
            let entry = counts.entry(field).or_default().entry(value.to_string());
            entry.or_insert_with(|| (0, value.clone())).0 += 1;
        }
    }
    let ordered = |values: BTreeMap<String, (usize, Value)>| {
        let mut values: Vec<_> = values.into_values().collect();
        values.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        values.into_iter().map(|(_, value)| value).take(2).collect()
    };
    counts.into_iter().map(|(field, values)| (field, ordered(values))).collect()
}

/// The field of the spec that an expression is, if it is one and no more: `features.network.tunnelInterface`, `spec.region`.
fn field(source: &str) -> Option<Path> {
    let plain =
        source.split('.').all(|key| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let path = Path::parse(source).ok().filter(|_| plain)?;
    match path.keys().split_first()? {
        (top, rest) if top == "spec" && matches!(rest, [one] if FIELDS.contains(&one.as_str())) => {
            Some(rest.iter().cloned().collect())
        }
        (top, rest) if top == "features" && rest.len() > 1 => Some(path),
        _ => None,
    }
}

/// The fields that a cloud which runs can tell.
const FIELDS: [&str; 3] = ["region", "storageClass", "publicDomain"];

/// Every field of a schema that has few values, with these.
pub(super) fn choices(schema: &Value, at: &Path) -> Vec<(Path, Vec<Value>)> {
    let mut found = Vec::new();
    let properties = schema["properties"].as_object().cloned().unwrap_or_else(Map::new);
    for (name, property) in &properties {
        let path = at.child(name);
        if let Some(values) = property["enum"].as_array() {
            found.push((path, values.clone()));
        } else if property["type"] == "boolean" {
            found.push((path, vec![true.into(), false.into()]));
        } else {
            found.extend(choices(property, &path));
        }
    }
    found
}

/// Every field of a schema that is a set of few values, with what may be in it.
pub(super) fn sets(schema: &Value, at: &Path) -> Vec<(Path, Vec<Value>)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let found = properties.flat_map(|(name, property)| match property["items"]["enum"].as_array() {
        Some(members) => vec![(at.child(name), members.clone())],
        None => sets(property, &at.child(name)),
    });
    found.collect()
}
