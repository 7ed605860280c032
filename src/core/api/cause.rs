//! `status.causes`: what is to be mended, and what waits for it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is to be mended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CauseStatus {
    /// What is wrong, and why, in one line.
    pub message: String,
    /// What to look at: what is to be mended, its pod, a claim, a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<CauseObject>,
    /// What waits for it, directly or not: components and Jobs, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Since when it is told, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
}

/// An object to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CauseObject {
    /// Its kind: `StatefulSet`, `Pod`, `PersistentVolumeClaim`, `Node` …; `Release` is helm's.
    pub kind: String,
    /// Its namespace; empty for a node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// `StatefulSet openstack/mariadb-server`
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
