//! Classifies the objects of a document: those to validate, those that are read with them, and those that most likely
//! are meant to be osdpl resources.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Kind;
use super::document::VERSION;
use osdpl_core::catalog::did_you_mean;
use osdpl_core::finding::Finding;

/// The kinds of osdpl resources.
const KINDS: [&str; 2] = ["OpenStackDeployment", "NodeMaintenance"];

/// Returns the objects of a document with the field of each; a list as printed by kubectl is expanded.
pub fn objects(value: &Value) -> Vec<(String, &Value)> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value["items"].as_array() {
        Some(items) if is_list => {
            items.iter().enumerate().map(|(index, item)| (format!("items[{index}]"), item)).collect()
        }
        _ => vec![(String::new(), value)],
    }
}

/// Returns what is wrong with an object that is not an osdpl resource but most likely meant to be one.
pub fn likely_mistake(object: &Value) -> Option<Finding> {
    let (kind, version) = (object["kind"].as_str(), object["apiVersion"].as_str());
    if Kind::of(object).is_some() {
        return None;
    }
    match (kind, version) {
        (Some(kind), None) if KINDS.contains(&kind) => {
            let message = format!("it is missing; write apiVersion: {VERSION}");
            Some(Finding::error("resource", "apiVersion", message))
        }
        (kind, Some(version)) if version.starts_with("osdpl.dev/") => {
            let (kind, known) = (kind.unwrap_or_default(), KINDS.join(" and "));
            let message = format!(
                "there is no kind {kind:?} of osdpl{}; there are {known}: correct it",
                did_you_mean(kind, KINDS)
            );
            Some(Finding::error("resource", "kind", message))
        }
        _ => None,
    }
}

/// Whether an object is a Secret or a `ConfigMap`, which resources may reference.
pub(super) fn is_source(object: &Value) -> bool {
    object["apiVersion"] == "v1" && ["Secret", "ConfigMap"].map(Value::from).contains(&object["kind"])
}

/// Collects every text of a spec that may be the name of an object.
pub(super) fn named(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let is_name = |key: &str| key == "name" || key == "secretName" || key.ends_with("Secret");
            let names = map.iter().filter(|(key, _)| is_name(key)).filter_map(|(_, value)| value.as_str());
            found.extend(names.map(str::to_owned));
            map.values().for_each(|value| named(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
