//! Parses the objects of a manifest and normalizes them: if two objects mean the same to Kubernetes, they become equal.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::release::{RESOURCE_POLICY_ANNOTATION, ReleaseKey};
use osdpl_values::{normalize_numbers, remove_nulls};

/// The annotation that makes an object a helm hook. Its value is a comma-separated list of helm's hook events.
const HOOK: &str = "helm.sh/hook";

/// The cluster-scoped kinds of objects that a chart can create. Each of them is in the API of Kubernetes 1.36, or is
/// defined by a CRD of a Kubernetes operator that the catalogue installs.
const CLUSTER: [&str; 14] = [
    "Namespace",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "StorageClass",
    "PriorityClass",
    "IngressClass",
    "RuntimeClass",
    "CSIDriver",
    "APIService",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ClusterIssuer",
];

/// The identity of a Kubernetes object: two objects with the same identity are versions of one object. The identity
/// does not contain the API version, so an object whose API version changes keeps its identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Id {
    /// The kind of the object, such as `Deployment`.
    pub kind: String,
    /// The API group of the object, such as `apps`; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The namespace of the object; empty for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, group: _, namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(formatter, "{kind} {namespace}{slash}{name}")
    }
}

/// An object of a manifest with its full content, which may contain secrets.
#[derive(Clone, PartialEq)]
pub struct Object {
    id: Id,
    content: Map<String, Value>,
}

/// Debug output contains only the identity, because the content may contain secrets.
impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Object").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Returns the objects of a release's manifest. Leaves out documents without a kind or name, and helm's test hooks.
pub fn parse_objects(contents: Vec<Map<String, Value>>, release: &ReleaseKey) -> Vec<Object> {
    let objects = contents.into_iter().filter_map(|content| Object::new(content, release));
    objects.filter(|object| !object.is_test()).collect()
}

impl Object {
    fn new(mut content: Map<String, Value>, release: &ReleaseKey) -> Option<Self> {
        // Remove differences that mean nothing to Kubernetes: a field that is null has no value, and 1.0 equals 1.
        remove_nulls(&mut content);
        normalize_numbers(&mut content);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let metadata = content.get("metadata");
        let kind = text(content.get("kind"));
        let version = text(content.get("apiVersion"));
        let group = version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        let name = text(metadata.and_then(|metadata| metadata.get("name")));
        let mut namespace = text(metadata.and_then(|metadata| metadata.get("namespace")));
        if CLUSTER.contains(&kind.as_str()) {
            namespace.clear();
        } else if namespace.is_empty() {
            namespace.clone_from(&release.namespace);
        }
        // If the manifest names no namespace for a namespaced object, helm creates the object in the release's
        // namespace. Set this namespace in `metadata`, so that the object equals an object whose manifest names the
        // namespace.
        if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            if !namespace.is_empty() {
                metadata.insert("namespace".to_owned(), namespace.clone().into());
            }
        }
        let id = Id { kind, group, namespace, name };
        (!id.kind.is_empty() && !id.name.is_empty()).then_some(Self { id, content })
    }

    /// Returns the kind, API group, namespace and name of the object.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Returns the full content of the object; it may contain secrets.
    pub fn content(&self) -> &Map<String, Value> {
        &self.content
    }

    /// Returns the value at the path `keys` in the object; `None` if the object has no value at this path.
    pub fn at(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.content.get(*first)?, |value, key| value.get(key))
    }

    /// Whether the object is a helm hook: helm creates it at a certain event, such as before an upgrade, and not
    /// together with the other objects of the manifest.
    pub(crate) fn is_hook(&self) -> bool {
        self.events().is_some()
    }

    /// Whether the object is a hook that helm deletes and creates again at every upgrade.
    pub(crate) fn is_hook_of_upgrades(&self) -> bool {
        let is_upgrade = |event: &str| ["pre-upgrade", "post-upgrade"].contains(&event.trim().to_lowercase().as_str());
        self.events().is_some_and(|events| events.split(',').any(is_upgrade))
    }

    /// Whether the object is a Secret. osdpl must not show its values.
    pub fn is_secret(&self) -> bool {
        self.id.kind == "Secret" && self.id.group.is_empty()
    }

    /// Whether helm keeps the object in the cluster when an upgrade removes it from the manifest
    /// (`resource-policy: keep`).
    pub fn is_kept(&self) -> bool {
        let policy = self.at(&["metadata", "annotations", RESOURCE_POLICY_ANNOTATION]).and_then(Value::as_str);
        policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
    }

    fn is_test(&self) -> bool {
        self.events().is_some_and(|events| events.split(',').all(|event| event.trim().starts_with("test")))
    }

    fn events(&self) -> Option<&str> {
        self.at(&["metadata", "annotations", HOOK])?.as_str()
    }
}
