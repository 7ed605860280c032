//! Reads the cephx keys of Ceph users and the addresses of monitors from Rook's objects.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use super::super::{Admin, Ceph, CephxKey, Consumer, Layout, Monitors, NotReady, Pool, User, ValueError};
use super::cluster::{Cluster, only};
use super::{ENDPOINTS, MONITORS, RookSettings, user};

/// The data of a `ConfigMap` or Secret, by key.
type Data = BTreeMap<String, Vec<u8>>;

impl RookSettings {
    /// Reads the settings of a Ceph cluster from Rook's objects.
    ///
    /// `clusters` are the `CephCluster`s of Rook's namespace. `data` returns the data of a `ConfigMap` or Secret by its
    /// name, or the reason why osdpl can't read the object. The method calls `data` for the `ConfigMap` [`ENDPOINTS`]
    /// and for the Secret of each Ceph user. If the charts get the cephx key of `client.admin`, it calls `data` for the
    /// Secret [`MONITORS`] instead of the users' Secrets.
    ///
    /// Returns the settings, or the reason why Rook's objects do not contain valid settings yet. Also returns the
    /// `CephCluster`; `None` if osdpl could not read it, or if Rook has not reported its fsid yet.
    pub fn read(
        &self,
        consumers: &BTreeSet<Consumer>,
        clusters: Result<Vec<Cluster>, String>,
        mut data: impl FnMut(&str) -> Result<Data, String>,
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
        mut data: &mut impl FnMut(&str) -> Result<Data, String>,
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

    fn monitors(&self, data: &mut impl FnMut(&str) -> Result<Data, String>) -> Result<Monitors, NotReady> {
        let endpoints = data(ENDPOINTS).map_err(|problem| {
            NotReady::Rook(format!("{problem}; Rook creates it after someone has created a CephCluster"))
        })?;
        let monitors = text(&endpoints, "data").map(|text| addresses(&text)).and_then(|text| Monitors::parse(&text));
        monitors.map_err(|complaint| {
            let object = self.path(ENDPOINTS);
            NotReady::Rook(format!(
                "ConfigMap {object}, key data: {complaint}; Rook has not published the addresses of its monitors yet"
            ))
        })
    }

    fn user(&self, consumer: Consumer, data: &mut impl FnMut(&str) -> Result<Data, String>) -> Result<User, NotReady> {
        let (name, secret) = (user(consumer), Self::secret(user(consumer)));
        let client = self.path(name);
        let stored = data(&secret)
            .map_err(|problem| NotReady::Rook(format!("{problem}; Rook creates it for CephClient {client}")))?;
        let key = text(&stored, name).or_else(|_| text(&stored, "userKey"));
        let key = key.and_then(|key| CephxKey::parse(&key)).map_err(|complaint| {
            let object = self.path(&secret);
            NotReady::Rook(format!("Secret {object}, key {name}: {complaint}; inspect CephClient {client}"))
        })?;
        let pools = vec![Pool { name: consumer.rook_pool().to_owned(), role: None, device_class: None }];
        Ok(User { name: name.to_owned(), key, pools })
    }

    fn admin(
        &self,
        consumers: &BTreeSet<Consumer>,
        data: &mut impl FnMut(&str) -> Result<Data, String>,
    ) -> Result<Admin, NotReady> {
        let object = self.path(MONITORS);
        let stored = data(MONITORS).map_err(|problem| {
            NotReady::Rook(format!("{problem}; Rook creates it after someone has created a CephCluster"))
        })?;
        let malformed =
            |key: &str, complaint: ValueError| NotReady::Rook(format!("Secret {object}, key {key}: {complaint}"));
        let name = text(&stored, "ceph-username").map_err(|complaint| malformed("ceph-username", complaint))?;
        if name != "client.admin" {
            return Err(NotReady::Rook(format!(
                "Secret {object}, key ceph-username: the value is not client.admin (usual for an external Ceph); set spec.features.storage.ceph.rook.access to leastPrivilege"
            )));
        }
        let key = text(&stored, "ceph-secret").and_then(|key| CephxKey::parse(&key));
        let key = key.map_err(|complaint| malformed("ceph-secret", complaint))?;
        let replicas = consumers.iter().map(|consumer| (*consumer, self.replicas(consumer.rook_pool())));
        Ok(Admin { key, replicas: replicas.collect_map() })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
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
