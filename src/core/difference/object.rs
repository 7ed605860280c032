//! One object, as a manifest has it.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::release::{KEEP, Key};
use osdpl_values::{plain_numbers, without_nulls};

/// helm's annotation on hooks: the moments, with commas.
const HOOK: &str = "helm.sh/hook";

/// Kinds without namespaces, of those that charts make (Kubernetes 1.36's API resources, and those of the operators in the catalogue).
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

/// What an object is told by: its group, not the version of it that a manifest happens to name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Id {
    /// `Deployment` and the like.
    pub kind: String,
    /// `apps` and the like; empty for the core.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its namespace; empty for a kind that has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, group: _, namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(formatter, "{kind} {namespace}{slash}{name}")
    }
}

/// An object with all that a manifest says of it. Secrets inside.
#[derive(Clone, PartialEq)]
pub struct Object {
    id: Id,
    content: Map<String, Value>,
}

/// Its content may be secret.
impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Object").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The objects of a release, out of what its manifest holds; what has no kind or name is none, and helm's tests are not installed.
pub fn objects(contents: Vec<Map<String, Value>>, release: &Key) -> Vec<Object> {
    let objects = contents.into_iter().filter_map(|content| Object::new(content, release));
    objects.filter(|object| !object.is_test()).collect()
}

impl Object {
    fn new(mut content: Map<String, Value>, release: &Key) -> Option<Self> {
        // What is null is not there, and 1.0 is 1.
        without_nulls(&mut content);
        plain_numbers(&mut content);
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
        // Said or not, it is the same one.
        if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            if !namespace.is_empty() {
                metadata.insert("namespace".to_owned(), namespace.clone().into());
            }
        }
        let id = Id { kind, group, namespace, name };
        (!id.kind.is_empty() && !id.name.is_empty()).then_some(Self { id, content })
    }

    /// What it is told by.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// All that is said of it.
    pub fn content(&self) -> &Map<String, Value> {
        &self.content
    }

    /// What stands below these keys.
    pub fn at(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.content.get(*first)?, |value, key| value.get(key))
    }

    /// Whether helm makes it at a moment of its own and not with the rest.
    pub fn is_hook(&self) -> bool {
        self.moments().is_some()
    }

    /// Whether helm makes it anew at upgrades.
    pub fn is_hook_of_upgrades(&self) -> bool {
        let is_one = |moment: &str| ["pre-upgrade", "post-upgrade"].contains(&moment.trim().to_lowercase().as_str());
        self.moments().is_some_and(|moments| moments.split(',').any(is_one))
    }

    /// Whether all that it says is secret.
    pub fn is_secret(&self) -> bool {
        self.id.kind == "Secret" && self.id.group.is_empty()
    }

    /// Whether helm leaves it where no manifest names it any more.
    pub fn is_kept(&self) -> bool {
        let policy = self.at(&["metadata", "annotations", KEEP]).and_then(Value::as_str);
        policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
    }

    fn is_test(&self) -> bool {
        self.moments().is_some_and(|moments| moments.split(',').all(|moment| moment.trim().starts_with("test")))
    }

    fn moments(&self) -> Option<&str> {
        self.at(&["metadata", "annotations", HOOK])?.as_str()
    }
}
