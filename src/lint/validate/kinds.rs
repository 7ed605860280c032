//! Classifies the objects of a document: resources to validate, objects that resources reference, and objects that the
//! user most likely meant as osdpl resources.

use std::collections::BTreeSet;

use serde_json::Value;

use osdpl_core::catalog::did_you_mean;
use osdpl_core::finding::Finding;

/// All kinds of osdpl resources.
const KINDS: [Kind; 2] = [Kind::OpenStackDeployment, Kind::NodeMaintenance];
/// The `apiVersion` of all osdpl resources.
pub(super) const VERSION: &str = "osdpl.dev/v1alpha1";

/// The kind of an osdpl resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The resource that describes an OpenStack cloud.
    OpenStackDeployment,
    /// The resource that requests the maintenance of a node.
    NodeMaintenance,
}

impl Kind {
    /// Returns the kind of an object; `None` if the object is not an osdpl resource.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let is_ours = object["apiVersion"].as_str().is_some_and(|version| version.starts_with("osdpl.dev/"));
        match object["kind"].as_str() {
            Some("OpenStackDeployment") if is_ours => Some(Self::OpenStackDeployment),
            Some("NodeMaintenance") if is_ours => Some(Self::NodeMaintenance),
            _ => None,
        }
    }

    /// Returns the kind as manifests write it in the field `kind`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OpenStackDeployment => "OpenStackDeployment",
            Self::NodeMaintenance => "NodeMaintenance",
        }
    }
}

/// Whether an object is an `OpenStackDeployment`, with or without an `apiVersion`.
pub fn is_deployment(object: &Value) -> bool {
    let may_be_ours = object["apiVersion"].is_null() && object["kind"] == Kind::OpenStackDeployment.name();
    may_be_ours || Kind::of(object) == Some(Kind::OpenStackDeployment)
}

/// Returns the objects of a document, each with its path in the document.
///
/// A list, as kubectl prints it, contains several objects with paths such as `items[0]`. Any other document is one
/// object, whose path is empty.
pub fn objects(value: &Value) -> Vec<(String, &Value)> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value["items"].as_array() {
        Some(items) if is_list => {
            items.iter().enumerate().map(|(index, item)| (format!("items[{index}]"), item)).collect()
        }
        _ => vec![(String::new(), value)],
    }
}

/// Returns a finding if an object is most likely an osdpl resource with a missing `apiVersion` or an unknown `kind`.
pub fn likely_mistake(object: &Value) -> Option<Finding> {
    let (kind, version) = (object["kind"].as_str(), object["apiVersion"].as_str());
    if Kind::of(object).is_some() {
        return None;
    }
    match (kind, version) {
        (Some(kind), None) if KINDS.map(Kind::name).contains(&kind) => {
            let message = format!("is required; write apiVersion: {VERSION}");
            Some(Finding::error("resource", "apiVersion", message))
        }
        (kind, Some(version)) if version.starts_with("osdpl.dev/") => {
            let (kind, known) = (kind.unwrap_or_default(), KINDS.map(Kind::name).join(" and "));
            let message = format!(
                "there is no kind {kind:?} of osdpl{}; choose from {known}",
                did_you_mean(kind, KINDS.map(Kind::name))
            );
            Some(Finding::error("resource", "kind", message))
        }
        _ => None,
    }
}

/// Whether an object is a Secret or a `ConfigMap`, which osdpl resources may reference.
pub(super) fn is_source(object: &Value) -> bool {
    object["apiVersion"] == "v1" && ["Secret", "ConfigMap"].map(Value::from).contains(&object["kind"])
}

/// Adds to `found` each string in a spec that may be the name of a referenced object, such as a Secret.
pub(super) fn collect_names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let is_name = |key: &str| key == "name" || key == "secretName" || key.ends_with("Secret");
            let names = map.iter().filter(|(key, _)| is_name(key)).filter_map(|(_, value)| value.as_str());
            found.extend(names.map(str::to_owned));
            map.values().for_each(|value| collect_names(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
