//! Collects candidates: possible values of fields of the spec. When osdpl searches for the spec that describes a
//! running cloud, it tries each candidate.
//!
//! The candidates come from the values of the cloud's releases, or from the JSON schemas of features.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::inventory::CloudInventory;
use osdpl_values::{Path, get};

/// The path of a field of the spec, and the candidate values of the field. osdpl takes the candidates from the values
/// of the running releases, at the paths where the catalogue inserts the field.
pub(super) type FieldCandidates = (Path, Vec<Value>);

/// Returns the candidate values of the spec's fields. The result contains each field whose value the catalogue inserts
/// into the values of releases.
///
/// A field has at most two candidates: the values that occur most often in the running releases, the most frequent one
/// first.
pub(super) fn field_candidates(cloud: &CloudInventory<'_>) -> Vec<FieldCandidates> {
    let mut counts: BTreeMap<Path, BTreeMap<String, (usize, Value)>> = BTreeMap::new();
    for (name, found) in &cloud.known.releases {
        for (path, source) in cloud.catalog.bodies(name).flat_map(crate::catalog::Body::whole_scalar_expressions) {
            let (Some(field), Some(value)) = (field(&source), get(&found.effective_values, &path)) else { continue };
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

/// Returns the path, relative to `spec`, of the field that the catalogue's expression `source` inserts. Returns `None`
/// if the expression does more than read one field, or if osdpl does not search for the value of this field.
///
/// For example, the path is `region` for `spec.region`. The expression `features.network.tunnelInterface` is already
/// relative to `spec`, so the function returns it unchanged.
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

/// The fields directly below `spec` whose values osdpl searches for in the values of the running releases.
const FIELDS: [&str; 3] = ["region", "storageClass", "publicDomain"];

/// Returns each field in a JSON schema that is a boolean or has an `enum`: its path, and all values that the schema
/// allows. `parent` is the path of the field that the schema describes.
pub(super) fn choices(schema: &Value, parent: &Path) -> Vec<(Path, Vec<Value>)> {
    let mut found = Vec::new();
    let properties = schema["properties"].as_object().cloned().unwrap_or_else(Map::new);
    for (name, property) in &properties {
        let path = parent.child(name);
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

/// Returns each list in a JSON schema whose items have an `enum`: the path of the list, and all values of the `enum`.
/// `parent` is the path of the field that the schema describes.
pub(super) fn sets(schema: &Value, parent: &Path) -> Vec<(Path, Vec<Value>)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let found = properties.flat_map(|(name, property)| match property["items"]["enum"].as_array() {
        Some(members) => vec![(parent.child(name), members.clone())],
        None => sets(property, &parent.child(name)),
    });
    found.collect()
}
