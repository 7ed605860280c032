//! A Ceph that Rook runs in this Kubernetes: what is asked of Rook, and what its answers say.
//!
//! Each service is a user of its own with no more rights than it needs; `client.admin`'s key is asked for only where the spec says so. Shapes:
//! Rook's `ceph.rook.io/v1`, its ConfigMap `rook-ceph-mon-endpoints`, its Secret `rook-ceph-mon` and the Secrets `rook-ceph-client-<name>` that it
//! makes of `CephClient`s.

mod answers;
mod cluster;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub use cluster::Cluster;

use super::Consumer;

/// Where Rook says where the monitors listen.
pub const ENDPOINTS: &str = "rook-ceph-mon-endpoints";

/// Where Rook keeps `client.admin`'s key (`ceph-username`, `ceph-secret`).
pub const MONITORS: &str = "rook-ceph-mon";

/// What the feature asks of Rook.
#[derive(Clone, Debug, PartialEq)]
pub struct Rook {
    /// Rook's namespace.
    pub namespace: String,
    /// Whether the charts get `client.admin`'s key and make pools and users themselves.
    pub admin: bool,
    pools: Map<String, Value>,
}

/// An object of `ceph.rook.io/v1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// `CephBlockPool`, `CephFilesystem` or `CephClient`.
    pub kind: &'static str,
    /// Its name: of the pool, of the file system, of the user.
    pub name: String,
    /// What is wanted of it.
    pub spec: Value,
}

impl Consumer {
    /// The pool that is made for it, which is its key in the feature too.
    pub(super) fn made_pool(self) -> &'static str {
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

impl Rook {
    /// Reads `features.storage.ceph`, whose schema was checked; none in another mode.
    pub fn of(feature: &Value) -> Option<Self> {
        let namespace = feature["rook"]["namespace"].as_str().unwrap_or("rook-ceph").to_owned();
        let pools = feature["rook"]["pools"].as_object().cloned().unwrap_or_default();
        let admin = feature["rook"]["access"] == "admin";
        (feature["mode"] == "rook").then_some(Self { namespace, admin, pools })
    }

    /// The Secrets of Rook's with keys that may be asked for, whatever is wanted now: by name. `client.admin`'s only where it is passed on.
    pub fn secrets(&self) -> BTreeSet<String> {
        if self.admin {
            return [MONITORS.to_owned()].into();
        }
        Consumer::ALL.into_iter().map(|consumer| Self::secret(user(consumer))).collect()
    }

    /// The Secret that Rook makes of a user.
    fn secret(user: &str) -> String {
        format!("rook-ceph-client-{user}")
    }

    /// What is wanted of Rook for these consumers; nothing where the charts make it themselves.
    pub fn manifests(&self, consumers: &BTreeSet<Consumer>) -> Vec<Manifest> {
        if self.admin {
            return Vec::new();
        }
        let pools = consumers.iter().map(|consumer| {
            let (name, pool) = (consumer.made_pool(), self.pool(consumer.made_pool()));
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
        let wish = self.pools.get(name).unwrap_or(&none);
        let mut spec = json!({
            "failureDomain": wish["failureDomain"].as_str().unwrap_or("host"),
            "replicated": {"size": self.replicas(name)},
        });
        if let Some(class) = wish["deviceClass"].as_str() {
            spec["deviceClass"] = class.into();
        }
        if let Some(size) = wish["maxSize"].as_str() {
            spec["quotas"] = json!({"maxSize": size});
        }
        spec
    }

    fn replicas(&self, pool: &str) -> i64 {
        self.pools.get(pool).and_then(|wish| wish["replicas"].as_i64()).unwrap_or(3)
    }
}

/// The consumers that these releases (by the catalogue's names) are.
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

pub(super) fn user(consumer: Consumer) -> &'static str {
    if consumer == Consumer::Nova { Consumer::Cinder.user() } else { consumer.user() }
}

/// A file system whose data and metadata lie on pools like this one.
fn filesystem(pool: &Value) -> Value {
    let mut data = pool.clone();
    data["name"] = "data".into();
    let metadata = json!({"failureDomain": pool["failureDomain"], "replicated": pool["replicated"]});
    json!({
        "metadataPool": metadata, "dataPools": [data], "metadataServer": {"activeCount": 1, "activeStandby": true},
        // As a pool: data outlives the object.
        "preserveFilesystemOnDelete": true,
    })
}

/// Manila's driver makes shares through the manager alone (its documentation for `CephFS`). The others by Ceph's own advice for RBD with
/// `OpenStack`: their own pools whole, and for cinder and nova the images to clone from.
fn capabilities(name: &str, consumers: &BTreeSet<Consumer>) -> Value {
    if name == Consumer::Manila.user() {
        return json!({"mon": "allow r", "mgr": "allow rw"});
    }
    let own = consumers.iter().filter(|consumer| user(**consumer) == name);
    let own: Vec<String> = own.map(|consumer| format!("profile rbd pool={}", consumer.made_pool())).collect();
    let clones = name == Consumer::Cinder.user() && consumers.contains(&Consumer::Glance);
    let images = clones.then(|| format!("profile rbd-read-only pool={}", Consumer::Glance.made_pool()));
    let osd: Vec<String> = own.iter().cloned().chain(images).collect();
    json!({"mon": "profile rbd", "osd": osd.join(", "), "mgr": own.join(", ")})
}

/// Whether all that is wanted is there; what Rook and the API server added does not count.
pub fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| holds(live, wanted)))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests;
