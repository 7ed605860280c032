//! A Ceph that Rook runs in this Kubernetes: what is asked of Rook, and what its answers say.
//!
//! Each service is a user of its own with no more rights than it needs; `client.admin`'s key is never asked for. Shapes: Rook's
//! `ceph.rook.io/v1`, its ConfigMap `rook-ceph-mon-endpoints` and the Secrets `rook-ceph-client-<name>` that it makes of `CephClient`s.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Ceph, CephxKey, Complaint, Consumer, Layout, Monitors, Pool, Unready, User};

/// Where Rook says where the monitors listen.
pub const ENDPOINTS: &str = "rook-ceph-mon-endpoints";

/// What the feature asks of Rook.
#[derive(Clone, Debug, PartialEq)]
pub struct Rook {
    /// Rook's namespace.
    pub namespace: String,
    pools: Map<String, Value>,
}

/// An object of `ceph.rook.io/v1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// `CephBlockPool` or `CephClient`.
    pub kind: &'static str,
    /// Its name: of the pool, of the user.
    pub name: String,
    /// What is wanted of it.
    pub spec: Value,
}

/// The consumers that a Rook serves; nova is cinder's user, as upstream has it.
const SERVED: [Consumer; 4] = [Consumer::Glance, Consumer::Cinder, Consumer::CinderBackup, Consumer::Nova];

impl Consumer {
    /// The pool that is made for it, which is its key in the feature too.
    fn made_pool(self) -> &'static str {
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
        (feature["mode"] == "rook").then_some(Self { namespace, pools })
    }

    /// The users that Rook may be asked for, whatever is wanted now: by name.
    pub fn users() -> BTreeSet<&'static str> {
        SERVED.into_iter().map(user).collect()
    }

    /// The Secret that Rook makes of a user.
    pub fn secret(user: &str) -> String {
        format!("rook-ceph-client-{user}")
    }

    /// What is wanted of Rook for these consumers.
    pub fn manifests(&self, consumers: &BTreeSet<Consumer>) -> Vec<Manifest> {
        let pools = consumers.iter().map(|consumer| Manifest {
            kind: "CephBlockPool",
            name: consumer.made_pool().to_owned(),
            spec: self.pool(consumer.made_pool()),
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
            "replicated": {"size": wish["replicas"].as_i64().unwrap_or(3)},
        });
        if let Some(class) = wish["deviceClass"].as_str() {
            spec["deviceClass"] = class.into();
        }
        if let Some(size) = wish["maxSize"].as_str() {
            spec["quotas"] = json!({"maxSize": size});
        }
        spec
    }

    /// What Rook's answers say: the data of [`ENDPOINTS`] and of each user's Secret, or why it can't be read.
    ///
    /// # Errors
    /// What is not there yet, or is malformed.
    pub fn read(
        &self,
        consumers: &BTreeSet<Consumer>,
        mut data: impl FnMut(&str) -> Result<BTreeMap<String, Vec<u8>>, String>,
    ) -> Result<Ceph, Unready> {
        let place = |name: &str| format!("{}/{name}", self.namespace);
        let waits = |problem: String| Unready::Rook(problem);
        let endpoints =
            data(ENDPOINTS).map_err(|problem| waits(format!("{problem}; Rook makes it of a CephCluster")))?;
        let monitors = text(&endpoints, "data").map(|text| monitors(&text)).and_then(|text| Monitors::parse(&text));
        let monitors = monitors.map_err(|complaint| {
            waits(format!("ConfigMap {}, key data: {complaint}; Rook has not told its monitors", place(ENDPOINTS)))
        })?;
        let mut users = BTreeMap::new();
        for consumer in consumers {
            let (name, secret) = (user(*consumer), Self::secret(user(*consumer)));
            let held = data(&secret)
                .map_err(|problem| waits(format!("{problem}; Rook makes it of CephClient {}", place(name))))?;
            let key = text(&held, name).or_else(|_| text(&held, "userKey"));
            let key = key.and_then(|key| CephxKey::parse(&key)).map_err(|complaint| {
                waits(format!("Secret {}, key {name}: {complaint}; look at CephClient {}", place(&secret), place(name)))
            })?;
            let pools = vec![Pool { name: consumer.made_pool().to_owned(), role: None, device_class: None }];
            users.insert(*consumer, User { name: name.to_owned(), key, pools });
        }
        Ok(Ceph { object: place(ENDPOINTS), layout: Layout::Rook, monitors, fsid: None, users })
    }
}

/// The consumers that these releases (by the catalogue's names) are.
pub fn consumers<'a>(releases: impl Iterator<Item = &'a str>) -> BTreeSet<Consumer> {
    let of = |release| match release {
        "glance" => vec![Consumer::Glance],
        "cinder" => vec![Consumer::Cinder, Consumer::CinderBackup],
        "nova" | "libvirt" => vec![Consumer::Nova],
        _ => Vec::new(),
    };
    releases.flat_map(of).collect()
}

fn user(consumer: Consumer) -> &'static str {
    if consumer == Consumer::Nova { Consumer::Cinder.user() } else { consumer.user() }
}

/// Ceph's own advice for RBD with OpenStack: its own pools whole, and for cinder and nova the images to clone from.
fn capabilities(name: &str, consumers: &BTreeSet<Consumer>) -> Value {
    let own = consumers.iter().filter(|consumer| user(**consumer) == name);
    let own: Vec<String> = own.map(|consumer| format!("profile rbd pool={}", consumer.made_pool())).collect();
    let clones = name == Consumer::Cinder.user() && consumers.contains(&Consumer::Glance);
    let images = clones.then(|| format!("profile rbd-read-only pool={}", Consumer::Glance.made_pool()));
    let osd: Vec<String> = own.iter().cloned().chain(images).collect();
    json!({"mon": "profile rbd", "osd": osd.join(", "), "mgr": own.join(", ")})
}

fn text(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Result<String, Complaint> {
    let bytes = data.get(key).ok_or(Complaint::Missing)?;
    std::str::from_utf8(bytes).map(|text| text.trim().to_owned()).map_err(|_| Complaint::NotText)
}

/// `a=10.0.0.1:6789,b=10.0.0.2:6789` without the names.
fn monitors(text: &str) -> String {
    let address = |entry: &str| entry.split_once('=').map_or(entry, |(_, address)| address).to_owned();
    text.split(',').map(address).collect::<Vec<_>>().join(",")
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
