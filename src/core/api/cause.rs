//! `status.causes`: root causes, and the objects they affect.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A root cause that needs a fix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootCauseStatus {
    /// The problem and its reason, in one line.
    pub message: String,
    /// The objects to inspect: the cause itself, its pod, a claim, a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<CauseObject>,
    /// The affected components and Jobs that wait for it, directly or not, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected: Vec<String>,
    /// The time of the first report, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
}

/// An object to inspect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CauseObject {
    /// Its kind: `StatefulSet`, `Pod`, `PersistentVolumeClaim`, `Node` …; `Release` is a helm release.
    pub kind: String,
    /// Its namespace; empty for a node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
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
