//! What a `CephCluster` says of itself.

use serde_json::Value;

use super::super::{Unready, is_uuid};

/// A `CephCluster`, as far as its status tells (`ClusterStatus` of Rook's `ceph.rook.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `namespace/name`.
    pub place: String,
    /// `status.phase`: `Ready`, or `Connected` for a Ceph that Rook only uses; empty before Rook looked.
    pub phase: String,
    /// `status.message`: what Rook is at.
    pub message: String,
    /// `status.ceph.health`: `HEALTH_OK`, `HEALTH_WARN`, `HEALTH_ERR`; empty until Ceph answered.
    pub health: String,
    /// `status.ceph.fsid`, a UUID in lower case.
    pub fsid: Option<String>,
}

impl Cluster {
    /// Reads one; what is not there is empty.
    pub fn of(namespace: &str, name: &str, object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let fsid = text("/status/ceph/fsid").to_ascii_lowercase();
        Self {
            place: format!("{namespace}/{name}"),
            phase: text("/status/phase"),
            message: text("/status/message"),
            health: text("/status/ceph/health"),
            fsid: Some(fsid).filter(|fsid| is_uuid(fsid)),
        }
    }

    /// What keeps it from serving anybody, though what was read of it stays true.
    pub fn trouble(&self) -> Option<Unready> {
        let place = &self.place;
        if !matches!(self.phase.as_str(), "Ready" | "Connected") {
            let phase = if self.phase.is_empty() { "not looked at yet" } else { &self.phase };
            let message = if self.message.is_empty() { String::new() } else { format!(" ({})", self.message) };
            return Some(Unready::Rook(format!(
                "CephCluster {place} is {phase}{message}; Rook's operator says why in its log"
            )));
        }
        (self.health == "HEALTH_ERR").then(|| {
            Unready::Rook(format!(
                "CephCluster {place} is in HEALTH_ERR; `ceph health detail` in Rook's toolbox says why"
            ))
        })
    }
}

/// The one of a namespace: Rook runs no second one there.
///
/// # Errors
/// What is missing: the object, or its identity.
pub fn only(namespace: &str, clusters: Result<Vec<Cluster>, String>) -> Result<(Cluster, String), Unready> {
    let clusters = clusters.map_err(Unready::Rook)?;
    let none = || {
        Unready::Rook(format!(
            "no CephCluster is in namespace {namespace}; make one, or correct spec.features.storage.ceph.rook.namespace"
        ))
    };
    let cluster = clusters.into_iter().next().ok_or_else(none)?;
    let Some(fsid) = cluster.fsid.clone() else {
        let pending = || {
            let place = &cluster.place;
            Unready::Rook(format!(
                "CephCluster {place} does not tell its fsid (status.ceph.fsid); Rook has not reached Ceph"
            ))
        };
        return Err(cluster.trouble().unwrap_or_else(pending));
    };
    Ok((cluster, fsid))
}
