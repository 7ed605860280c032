//! A Ceph that Rook runs in the same Kubernetes cluster: the objects requested from Rook, and the settings read from
//! it.
//!
//! Each service has its own user with minimal rights. `client.admin`'s key is only read if the spec allows it. Sources:
//! Rook's `ceph.rook.io/v1`, its ConfigMap `rook-ceph-mon-endpoints`, its Secret `rook-ceph-mon`, and the Secrets
//! `rook-ceph-client-<name>` that it creates for `CephClient`s.

mod cluster;
mod read;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub use cluster::Cluster;

use super::Consumer;

/// The ConfigMap in which Rook stores the monitors' addresses.
pub const ENDPOINTS: &str = "rook-ceph-mon-endpoints";

/// The Secret in which Rook stores `client.admin`'s key (`ceph-username`, `ceph-secret`).
const MONITORS: &str = "rook-ceph-mon";

/// The feature's settings for Rook.
#[derive(Clone, Debug, PartialEq)]
pub struct RookSettings {
    /// Rook's namespace.
    pub namespace: String,
    /// Whether the charts get `client.admin`'s key and create pools and users themselves.
    pub admin: bool,
    pools: Map<String, Value>,
}

/// An object of `ceph.rook.io/v1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// `CephBlockPool`, `CephFilesystem` or `CephClient`.
    pub kind: &'static str,
    /// The name of the pool, file system or user.
    pub name: String,
    /// The desired spec.
    pub spec: Value,
}

impl Consumer {
    /// Returns the name of its pool, which is also its key in the feature.
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
    /// Reads `features.storage.ceph`, whose schema was checked. `None` in another mode.
    pub fn from_feature(feature: &Value) -> Option<Self> {
        let namespace = feature["rook"]["namespace"].as_str().unwrap_or("rook-ceph").to_owned();
        let pools = feature["rook"]["pools"].as_object().cloned().unwrap_or_default();
        let admin = feature["rook"]["access"] == "admin";
        (feature["mode"] == "rook").then_some(Self { namespace, admin, pools })
    }

    /// Returns the names of Rook's Secrets with keys that may be read, for all consumers. `client.admin`'s is only read
    /// if the charts get it.
    pub fn secrets(&self) -> BTreeSet<String> {
        if self.admin {
            return [MONITORS.to_owned()].into();
        }
        Consumer::ALL.into_iter().map(|consumer| Self::secret(user(consumer))).collect()
    }

    /// Returns the name of the Secret that Rook creates for a user.
    fn secret(user: &str) -> String {
        format!("rook-ceph-client-{user}")
    }

    /// Returns the objects for these consumers; none if the charts create pools and users themselves.
    pub fn manifests(&self, consumers: &BTreeSet<Consumer>) -> Vec<Manifest> {
        if self.admin {
            return Vec::new();
        }
        let pools = consumers.iter().map(|consumer| {
            let (name, pool) = (consumer.rook_pool(), self.pool(consumer.rook_pool()));
            let (kind, spec) = if *consumer == Consumer::Manila {
                ("CephFilesystem", filesystem(&pool))
            } else {
                ("CephBlockPool", pool)
            };
            Manifest { kind, name: name.to_owned(), spec }
        });
        let users: BTreeSet<&str> = consumers.iter().map(|consumer| user(*consumer)).collect();
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

/// Returns the consumers of these releases, by the catalogue's names.
pub fn consumers<'a>(releases: impl Iterator<Item = &'a str>) -> BTreeSet<Consumer> {
    let of = |release| match release {
        "glance" => vec![Consumer::Glance],
        "cinder" => vec![Consumer::Cinder, Consumer::CinderBackup],
        "nova" | "libvirt" => vec![Consumer::Nova],
        "manila" => vec![Consumer::Manila],
        "gnocchi" => vec![Consumer::Gnocchi],
        _ => Vec::new(),
    };
    releases.flat_map(of).collect()
}

/// Returns the name of a consumer's Ceph user. Nova uses cinder's.
pub(super) fn user(consumer: Consumer) -> &'static str {
    if consumer == Consumer::Nova { Consumer::Cinder.user() } else { consumer.user() }
}

/// Returns a file system whose data and metadata pools have the settings of this pool.
fn filesystem(pool: &Value) -> Value {
    let mut data = pool.clone();
    data["name"] = "data".into();
    let metadata = json!({"failureDomain": pool["failureDomain"], "replicated": pool["replicated"]});
    json!({
        "metadataPool": metadata, "dataPools": [data], "metadataServer": {"activeCount": 1, "activeStandby": true},
        // Keep the data when the object is deleted, as for pools.
        "preserveFilesystemOnDelete": true,
    })
}

/// Returns the capabilities of a user.
///
/// Manila's driver creates shares only through the manager (see its documentation for `CephFS`). The others follow
/// Ceph's documentation of RBD with `OpenStack`: full access to their own pools, and for cinder and nova read access to
/// the images they clone.
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

/// Whether `live` contains everything in `wanted`. Fields that Rook or the API server added are ignored.
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
