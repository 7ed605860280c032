//! Checks an object's metadata, which the schema of a custom resource does not describe.

use std::collections::BTreeSet;

use serde_json::Value;

use osdpl_core::catalog::schema::field_path;
use osdpl_core::catalog::{did_you_mean, has_catalog_keys};
use osdpl_core::finding::{CATALOGUE, Finding};

/// The fields of `metadata` that the API server knows (`k8s.io/apimachinery` `ObjectMeta`).
const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Returns the unknown fields of an object's metadata, each with a hint about a similar known field.
pub(super) fn unknown(object: &Value) -> impl Iterator<Item = (String, String)> {
    let keys = object["metadata"].as_object().into_iter().flat_map(|metadata| metadata.keys());
    let unknown_keys = keys.filter(|key| !FIELDS.contains(&key.as_str()));
    unknown_keys.map(|key| (field_path("metadata", key), did_you_mean(key, FIELDS)))
}

/// Checks an object's name, namespace, labels and annotations as the API server does.
pub(super) fn check(object: &Value) -> Vec<Finding> {
    let metadata = &object["metadata"];
    if !metadata.is_null() && !metadata.is_object() {
        return vec![violation("metadata", "must be a map; write name and namespace below it")];
    }
    let mut found: Vec<Finding> =
        name(&metadata["name"]).into_iter().chain(namespace(&metadata["namespace"])).collect();
    for part in ["labels", "annotations"] {
        let field = format!("metadata.{part}");
        match &metadata[part] {
            Value::Null => {}
            Value::Object(entries) => {
                let not_texts = entries.iter().filter(|(_, value)| !value.is_string());
                found.extend(not_texts.map(|(key, _)| {
                    violation(&field_path(&field, key), "must be a string; put the value in quotes, or remove the key")
                }));
            }
            _ => found.push(violation(&field, "must be a map of strings; write key: value below it")),
        }
    }
    found
}

fn name(name: &Value) -> Option<Finding> {
    let message = match name {
        Value::Null => "is required; give the resource a name, such as cloud".to_owned(),
        Value::String(name) if name.is_empty() => "is required; give the resource a name, such as cloud".to_owned(),
        Value::String(name) if name.len() <= 253 && name.split('.').all(is_label) => return None,
        Value::String(name) => format!(
            "{name:?} is not a valid name (at most 253 lower case letters, digits, '-' and '.', with a letter or digit at both ends); choose another, such as cloud"
        ),
        _ => "must be a string; put the name in quotes, or choose another name, such as cloud".to_owned(),
    };
    Some(violation("metadata.name", message))
}

fn namespace(namespace: &Value) -> Option<Finding> {
    let message = match namespace {
        Value::Null => return None,
        Value::String(name) if name.len() <= 63 && is_label(name) => return None,
        Value::String(name) => format!(
            "{name:?} is not a valid namespace (at most 63 lower case letters, digits and '-', with a letter or digit at both ends); use an existing one, such as openstack"
        ),
        _ => "must be a string; put the namespace in quotes, or use another namespace, such as openstack".to_owned(),
    };
    Some(violation("metadata.namespace", message))
}

/// Whether a string is a DNS-1123 label, except for its length (`k8s.io/apimachinery/pkg/util/validation`).
fn is_label(text: &str) -> bool {
    let is_end = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let ends = [text.chars().next(), text.chars().next_back()];
    ends.into_iter().all(|end| end.is_some_and(is_end)) && text.chars().all(|letter| is_end(letter) || letter == '-')
}

/// Returns a warning if an object is a `ConfigMap` with an addition to the catalogue, but no osdpl resource names it.
///
/// `named` contains the names of all objects that resources reference.
pub(super) fn check_unnamed_addition(object: &Value, named: &BTreeSet<String>) -> Option<Finding> {
    let data = object["data"].as_object().filter(|_| object["kind"] == "ConfigMap")?;
    let name = object["metadata"]["name"].as_str().filter(|name| !named.contains(*name))?;
    let message = format!(
        "no resource names this ConfigMap, so it adds nothing to the catalogue; add {{name: {name}}} to \
         spec.catalog of the resource, or remove the ConfigMap"
    );
    has_catalog_keys(data.keys()).then(|| Finding::warning(CATALOGUE, "metadata.name", message))
}

fn violation(field: &str, message: impl Into<String>) -> Finding {
    Finding::error("schema", field, message)
}
