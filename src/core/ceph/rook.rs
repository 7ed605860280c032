//! Builds the objects with which osdpl requests pools, file systems and users from Rook, and reads the settings of the
//! Ceph cluster that Rook runs in the same Kubernetes cluster.
//!
//! Each service that stores data in Ceph has its own Ceph user with minimal rights. The only exception is Nova, which
//! shares Cinder's user. osdpl reads the cephx key of `client.admin` only if the spec allows it.
//!
//! osdpl uses Rook's API `ceph.rook.io/v1`, its ConfigMap `rook-ceph-mon-endpoints`, its Secret `rook-ceph-mon`, and
//! the Secrets `rook-ceph-client-<name>` that Rook creates for `CephClient`s.

mod cluster;
mod read;

use std::collections::BTreeSet;

use osdpl_values::CollectSorted;
use serde_json::{Map, Value, json};

pub use cluster::Cluster;

use super::Consumer;

/// The name of the ConfigMap in which Rook stores the addresses of Ceph's monitors.
pub const ENDPOINTS: &str = "rook-ceph-mon-endpoints";

/// The name of the Secret in which Rook stores the Ceph user `client.admin`: the user's name under `ceph-username`, and
/// the cephx key under `ceph-secret`.
const MONITORS: &str = "rook-ceph-mon";

/// The settings in `features.storage.ceph` for a Ceph cluster that Rook runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RookSettings {
    /// The namespace of the `CephCluster`.
    pub namespace: String,
    /// Whether osdpl gives the charts the cephx key of `client.admin`, so that the charts create pools and users
    /// themselves.
    pub admin: bool,
    /// The settings of pools in the spec, by the pool's name. A pool without settings gets the defaults.
    pools: Map<String, Value>,
}

/// An object of Rook's API `ceph.rook.io/v1` with which osdpl requests a pool, a file system or a Ceph user from Rook.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The kind of the object: `CephBlockPool`, `CephFilesystem` or `CephClient`.
    pub kind: &'static str,
    /// The name of the object, and of the pool, file system or user that Rook creates for it.
    pub name: String,
    /// The desired `spec` of the object.
    pub spec: Value,
}

impl Consumer {
    /// Returns the name of the consumer's pool (for Manila, of its file system) in a Ceph cluster that Rook runs. The
    /// spec contains the pool's settings under the same name, in `features.storage.ceph.rook.pools`.
    pub(super) fn rook_pool(self) -> &'static str {
        match self {
            Self::Glance => "images",
            Self::Cinder => "volumes",
            Self::CinderBackup => "backups",
            Self::Nova => "vms",
            Self::Manila => "shares",
            Self::Gnocchi => "metrics",
        }
    }
}

impl RookSettings {
    /// Reads the settings for Rook from `features.storage.ceph`, which the feature's schema has validated; `None` if
    /// the mode is not `rook`.
    pub fn from_feature(feature: &Value) -> Option<Self> {
        let namespace = feature["rook"]["namespace"].as_str().unwrap_or("rook-ceph").to_owned();
        let pools = feature["rook"]["pools"].as_object().cloned().unwrap_or_default();
        let admin = feature["rook"]["access"] == "admin";
        (feature["mode"] == "rook").then_some(Self { namespace, admin, pools })
    }

    /// Returns the names of Rook's Secrets that osdpl is allowed to read: if osdpl gives the charts the cephx key of
    /// `client.admin`, only the Secret with this key; otherwise, the Secrets with the cephx keys of all consumers' Ceph
    /// users.
    pub fn secrets(&self) -> BTreeSet<String> {
        if self.admin {
            return [MONITORS.to_owned()].into();
        }
        Consumer::ALL.into_iter().map(|consumer| Self::secret(user(consumer))).collect_set()
    }

    /// Returns the name of the Secret in which Rook stores the cephx key of a Ceph user.
    fn secret(user: &str) -> String {
        format!("rook-ceph-client-{user}")
    }

    /// Returns the objects for the pools, file systems and users that osdpl requests from Rook for the consumers in
    /// `active`; empty if the charts create the pools and users themselves. `consumers` are all consumers of the cloud,
    /// also those whose releases are paused, because a user's capabilities depend on them.
    pub fn manifests(&self, consumers: &BTreeSet<Consumer>, active: &BTreeSet<Consumer>) -> Vec<Manifest> {
        if self.admin {
            return Vec::new();
        }
        let pools = active.iter().map(|consumer| {
            let (name, pool) = (consumer.rook_pool(), self.pool(consumer.rook_pool()));
            let (kind, spec) = if *consumer == Consumer::Manila {
                ("CephFilesystem", filesystem(&pool))
            } else {
                ("CephBlockPool", pool)
            };
            Manifest { kind, name: name.to_owned(), spec }
        });
        let users: BTreeSet<&str> = active.iter().map(|consumer| user(*consumer)).collect_set();
        let clients = users.into_iter().map(|name| Manifest {
            kind: "CephClient",
            name: name.to_owned(),
            spec: json!({"caps": capabilities(name, consumers)}),
        });
        pools.chain(clients).collect()
    }

    fn pool(&self, name: &str) -> Value {
        let none = Value::Null;
        let pool_settings = self.pools.get(name).unwrap_or(&none);
        let mut spec = json!({
            "failureDomain": pool_settings["failureDomain"].as_str().unwrap_or("host"),
            "replicated": {"size": self.replicas(name)},
        });
        if let Some(class) = pool_settings["deviceClass"].as_str() {
            spec["deviceClass"] = class.into();
        }
        if let Some(size) = pool_settings["maxSize"].as_str() {
            spec["quotas"] = json!({"maxSize": size});
        }
        spec
    }

    fn replicas(&self, pool: &str) -> i64 {
        self.pools.get(pool).and_then(|pool_settings| pool_settings["replicas"].as_i64()).unwrap_or(3)
    }
}

/// Returns the consumers in `releases`, which are names in the catalogue. For example, the release cinder contains the
/// consumers cinder and cinder-backup.
pub fn consumers<'a>(releases: impl Iterator<Item = &'a str>) -> BTreeSet<Consumer> {
    let of = |release| match release {
        "glance" => vec![Consumer::Glance],
        "cinder" => vec![Consumer::Cinder, Consumer::CinderBackup],
        "nova" | "libvirt" => vec![Consumer::Nova],
        "manila" => vec![Consumer::Manila],
        "gnocchi" => vec![Consumer::Gnocchi],
        _ => Vec::new(),
    };
    releases.flat_map(of).collect_set()
}

/// Returns the name of the Ceph user that osdpl requests from Rook for a consumer. Nova shares Cinder's user.
pub(super) fn user(consumer: Consumer) -> &'static str {
    if consumer == Consumer::Nova { Consumer::Cinder.user() } else { consumer.user() }
}

/// Returns the `spec` of a `CephFilesystem`. The data pool gets all settings in `pool`, and the metadata pool gets only
/// the failure domain and the number of replicas.
fn filesystem(pool: &Value) -> Value {
    let mut data = pool.clone();
    data["name"] = "data".into();
    let metadata = json!({"failureDomain": pool["failureDomain"], "replicated": pool["replicated"]});
    json!({
        "metadataPool": metadata, "dataPools": [data], "metadataServer": {"activeCount": 1, "activeStandby": true},
        // If someone deletes the CephFilesystem, Rook must not delete the data in Ceph.
        "preserveFilesystemOnDelete": true,
    })
}

/// Returns the capabilities (Ceph's access rights) that a Ceph user needs for its consumers.
///
/// Manila's user gets no access to pools, because Manila's `CephFS` driver creates shares only through Ceph's manager
/// (see the driver's documentation). Every other user gets full access to the pools of its consumers, as in Ceph's
/// documentation of RBD with OpenStack. The user of Cinder and Nova can also read Glance's images, to clone them.
fn capabilities(name: &str, consumers: &BTreeSet<Consumer>) -> Value {
    if name == Consumer::Manila.user() {
        return json!({"mon": "allow r", "mgr": "allow rw"});
    }
    let own = consumers.iter().filter(|consumer| user(**consumer) == name);
    let own: Vec<String> = own.map(|consumer| format!("profile rbd pool={}", consumer.rook_pool())).collect();
    let clones = name == Consumer::Cinder.user() && consumers.contains(&Consumer::Glance);
    let images = clones.then(|| format!("profile rbd-read-only pool={}", Consumer::Glance.rook_pool()));
    let osd: Vec<String> = own.iter().cloned().chain(images).collect();
    json!({"mon": "profile rbd", "osd": osd.join(", "), "mgr": own.join(", ")})
}

/// Whether `live`, an object in the Kubernetes cluster, already contains all fields of `wanted`. If so, osdpl need not
/// write the object. `live` may have further fields, which Rook or the API server set.
pub fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| contains(live, wanted)))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests;
