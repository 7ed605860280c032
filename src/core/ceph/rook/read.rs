//! Reads the cephx keys of Ceph users and the addresses of monitors from Rook's objects.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use super::super::{Admin, Ceph, CephxKey, Consumer, Layout, Monitors, NotReady, Pool, User, ValueError};
use super::cluster::{Cluster, only};
use super::{ENDPOINTS, MONITORS, RookSettings, user};

/// The data of a `ConfigMap` or Secret, by key.
type Data = BTreeMap<String, Vec<u8>>;

/// The object of the user for which Rook creates the addresses of the monitors and the cephx key of `client.admin`, in
/// the words of messages.
const CLUSTER: &str = "the CephCluster";

impl RookSettings {
    /// Reads the settings of a Ceph cluster from Rook's objects.
    ///
    /// `clusters` are the `CephCluster`s of Rook's namespace. `data` returns the data of a `ConfigMap` or Secret by its
    /// name: `None` if the object does not exist, or an error with the reason why osdpl can't read the object. The
    /// method calls `data` for the `ConfigMap` [`ENDPOINTS`] and for the Secret of each Ceph user. If the charts get the
    /// cephx key of `client.admin`, it calls `data` for the Secret [`MONITORS`] instead of the users' Secrets.
    ///
    /// Returns the settings, or the reason why Rook's objects do not contain valid settings yet. Also returns the
    /// `CephCluster`; `None` if there is none, if osdpl could not read it, or if Rook has not reported its fsid yet.
    pub fn read(
        &self,
        consumers: &BTreeSet<Consumer>,
        clusters: Result<Vec<Cluster>, String>,
        mut data: impl FnMut(&str) -> Result<Option<Data>, String>,
    ) -> (Result<Ceph, NotReady>, Option<Cluster>) {
        match only(&self.namespace, clusters) {
            Ok((cluster, fsid)) => (self.settings(consumers, fsid, &mut data), Some(cluster)),
            Err(problem) => (Err(problem), None),
        }
    }

    fn settings(
        &self,
        consumers: &BTreeSet<Consumer>,
        fsid: String,
        mut data: &mut impl FnMut(&str) -> Result<Option<Data>, String>,
    ) -> Result<Ceph, NotReady> {
        let monitors = self.monitors(&mut data)?;
        let admin = self.admin.then(|| self.admin(consumers, &mut data)).transpose()?;
        let mut users = BTreeMap::new();
        for consumer in consumers.iter().filter(|_| !self.admin) {
            users.insert(*consumer, self.user(*consumer, &mut data)?);
        }
        let object = self.path(ENDPOINTS);
        Ok(Ceph { object, layout: Layout::Rook, monitors, fsid: Some(fsid), users, admin })
    }

    fn monitors(&self, data: &mut impl FnMut(&str) -> Result<Option<Data>, String>) -> Result<Monitors, NotReady> {
        let object = format!("ConfigMap {}", self.path(ENDPOINTS));
        let endpoints = existing(data(ENDPOINTS), &object, CLUSTER)?;
        let monitors = text(&endpoints, "data").map(|text| addresses(&text)).and_then(|text| Monitors::parse(&text));
        monitors.map_err(|problem| unusable(&object, "data", "monitor addresses", CLUSTER, problem))
    }

    fn user(
        &self,
        consumer: Consumer,
        data: &mut impl FnMut(&str) -> Result<Option<Data>, String>,
    ) -> Result<User, NotReady> {
        let (name, secret) = (user(consumer), Self::secret(user(consumer)));
        let (object, client) = (format!("Secret {}", self.path(&secret)), format!("CephClient {}", self.path(name)));
        let stored = existing(data(&secret), &object, &client)?;
        let key = text(&stored, name).or_else(|_| text(&stored, "userKey"));
        let key = key.and_then(|key| CephxKey::parse(&key));
        let key = key.map_err(|problem| unusable(&object, name, "cephx key", &client, problem))?;
        let pools = vec![Pool { name: consumer.rook_pool().to_owned(), role: None, device_class: None }];
        Ok(User { name: name.to_owned(), key, pools })
    }

    fn admin(
        &self,
        consumers: &BTreeSet<Consumer>,
        data: &mut impl FnMut(&str) -> Result<Option<Data>, String>,
    ) -> Result<Admin, NotReady> {
        let object = format!("Secret {}", self.path(MONITORS));
        let stored = existing(data(MONITORS), &object, CLUSTER)?;
        let name = text(&stored, "ceph-username");
        let name = name.map_err(|problem| unusable(&object, "ceph-username", "user name", CLUSTER, problem))?;
        if name != "client.admin" {
            return Err(NotReady::Rook(format!(
                "{object}, key ceph-username: the value is not client.admin (usual for an external Ceph); set spec.features.storage.ceph.rook.access to leastPrivilege"
            )));
        }
        let key = text(&stored, "ceph-secret").and_then(|key| CephxKey::parse(&key));
        let key = key.map_err(|problem| unusable(&object, "ceph-secret", "cephx key", CLUSTER, problem))?;
        let replicas = consumers.iter().map(|consumer| (*consumer, self.replicas(consumer.rook_pool())));
        Ok(Admin { key, replicas: replicas.collect_map() })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

/// Returns the data of an object that Rook creates, or why there is no data. `object` is the kind and name of the
/// object, and `source` the object for which Rook creates it.
fn existing(data: Result<Option<Data>, String>, object: &str, source: &str) -> Result<Data, NotReady> {
    data.map_err(NotReady::Rook)?.ok_or_else(|| {
        NotReady::Rook(format!(
            "{object} does not exist yet; Rook creates it for {source}; if it stays missing, see the log of Rook's operator"
        ))
    })
}

/// Returns the error that an object that Rook creates for `source` has no usable value under a key. `what` names the
/// value.
fn unusable(object: &str, key: &str, what: &str, source: &str, problem: ValueError) -> NotReady {
    NotReady::Rook(match problem {
        ValueError::Missing | ValueError::Empty => format!(
            "{object} has no {what} in the key {key}: Rook has not published the {what} yet; wait, or inspect {source}"
        ),
        // The remedy in the text of `problem` is for Secrets that a person writes.
        problem => {
            let problem = problem.to_string();
            let problem = problem.split(';').next().unwrap_or_default();
            format!("{object}, key {key}: osdpl can't read the {what} ({problem}); inspect {source}")
        }
    })
}

fn text(data: &Data, key: &str) -> Result<String, ValueError> {
    let bytes = data.get(key).ok_or(ValueError::Missing)?;
    std::str::from_utf8(bytes).map(|text| text.trim().to_owned()).map_err(|_| ValueError::NotText)
}

/// Removes the monitors' names from Rook's list of addresses: `a=10.0.0.1:6789,b=10.0.0.2:6789` becomes
/// `10.0.0.1:6789,10.0.0.2:6789`.
fn addresses(text: &str) -> String {
    let address = |entry: &str| entry.split_once('=').map_or(entry, |(_, address)| address).to_owned();
    text.split(',').map(address).collect::<Vec<_>>().join(",")
}
