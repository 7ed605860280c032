//! The entries of `status.causes`: each root cause, with the objects to inspect, and the components and Jobs that it
//! affects.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A root cause: the reason why components or Jobs are not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootCauseStatus {
    /// The problem and its reason, in one line.
    pub message: String,
    /// The objects to inspect, such as the failing workload, its pod, a volume claim or a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<CauseObject>,
    /// The components and Jobs that are not ready because of the root cause, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected: Vec<String>,
    /// The time when the operator first reported the root cause, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
}

/// An object that a person should inspect to find and fix the root cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CauseObject {
    /// The kind of the object, such as `StatefulSet`, `Pod` or `Node`, or `Release` for a helm release.
    pub kind: String,
    /// The namespace of the object; empty for a node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// Formats the object as `StatefulSet openstack/mariadb-server`.
impl fmt::Display for CauseObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        if namespace.is_empty() {
            write!(formatter, "{kind} {name}")
        } else {
            write!(formatter, "{kind} {namespace}/{name}")
        }
    }
}
