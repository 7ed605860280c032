//! Reads the status of Rook's `CephCluster`.

use serde_json::Value;

use super::super::{NotReady, is_uuid};

/// The fields that osdpl reads from the status of a `CephCluster` (`ClusterStatus` in Rook's `ceph.rook.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The namespace and name of the `CephCluster`: `namespace/name`.
    pub path: String,
    /// The value of `status.phase`, such as `Progressing` or `Ready`. An external Ceph cluster has the phase
    /// `Connected` instead of `Ready`. Empty before Rook's first reconcile.
    pub phase: String,
    /// The value of `status.message`, which says what Rook is doing.
    pub message: String,
    /// The value of `status.ceph.health`: `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`; empty until Ceph has responded to
    /// Rook.
    pub health: String,
    /// The value of `status.ceph.fsid`, the cluster's UUID, in lower case; `None` until Rook reports it.
    pub fsid: Option<String>,
}

impl Cluster {
    /// Reads the status of a `CephCluster` from the Kubernetes object. A missing field becomes an empty string, and a
    /// missing fsid becomes `None`.
    pub fn from_object(namespace: &str, name: &str, object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let fsid = text("/status/ceph/fsid").to_ascii_lowercase();
        Self {
            path: format!("{namespace}/{name}"),
            phase: text("/status/phase"),
            message: text("/status/message"),
            health: text("/status/ceph/health"),
            fsid: Some(fsid).filter(|fsid| is_uuid(fsid)),
        }
    }

    /// Returns the problem in the status of the `CephCluster`; `None` if there is no problem.
    ///
    /// Callers can treat the problem as a warning: the settings that osdpl reads from Rook's other objects are valid
    /// anyway.
    pub fn not_ready_reason(&self) -> Option<NotReady> {
        let path = &self.path;
        if !matches!(self.phase.as_str(), "Ready" | "Connected") {
            let phase = if self.phase.is_empty() { "not reconciled yet" } else { &self.phase };
            let message = if self.message.is_empty() { String::new() } else { format!(" ({})", self.message) };
            return Some(NotReady::Rook(format!(
                "CephCluster {path} is {phase}{message}; see the log of Rook's operator"
            )));
        }
        (self.health == "HEALTH_ERR").then(|| {
            NotReady::Rook(format!("CephCluster {path} is in HEALTH_ERR; run `ceph health detail` in Rook's toolbox"))
        })
    }
}

/// Returns the single `CephCluster` of a namespace, and its fsid. Rook supports only one `CephCluster` in each
/// namespace.
///
/// # Errors
/// Returns an error if osdpl can't read the `CephCluster`s of the namespace, if there is none, or if Rook does not
/// report the fsid yet.
pub(crate) fn only(namespace: &str, clusters: Result<Vec<Cluster>, String>) -> Result<(Cluster, String), NotReady> {
    let clusters = clusters.map_err(NotReady::Rook)?;
    let none = || {
        NotReady::Rook(format!(
            "there is no CephCluster in namespace {namespace}; create one, or correct spec.features.storage.ceph.rook.namespace"
        ))
    };
    let cluster = clusters.into_iter().next().ok_or_else(none)?;
    let Some(fsid) = cluster.fsid.clone() else {
        let pending = || {
            let path = &cluster.path;
            NotReady::Rook(format!(
                "CephCluster {path} has no fsid (status.ceph.fsid), because Rook has not reached Ceph yet; see the log of Rook's operator"
            ))
        };
        return Err(cluster.not_ready_reason().unwrap_or_else(pending));
    };
    Ok((cluster, fsid))
}
