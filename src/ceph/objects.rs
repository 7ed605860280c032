//! What is written for the charts: which object, where, with what in it.

use std::collections::{BTreeMap, BTreeSet};

use super::{CONFIG_MAP, Ceph, Consumer, User};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `ceph.conf`.
    ConfigMap,
    /// A key.
    Secret,
}

/// An object that charts mount.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it holds.
    pub data: BTreeMap<String, String>,
}

impl std::fmt::Display for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Secrets are never shown.
impl std::fmt::Debug for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self} with {:?}", self.data.keys().collect::<Vec<_>>())
    }
}

/// The releases that mount a consumer's key, beside that of its own service.
fn mounted_by(consumer: Consumer, ceph: &Ceph) -> &'static [&'static str] {
    match consumer {
        Consumer::Glance => &["glance"],
        Consumer::Cinder => &["cinder", "libvirt"],
        Consumer::CinderBackup => &["cinder"],
        Consumer::Nova if ceph.has_own_nova() || ceph.volumes() == Some(Consumer::Nova) => &["nova", "libvirt"],
        Consumer::Nova => &["nova"],
        Consumer::Manila => &["manila"],
        Consumer::Gnocchi => &["gnocchi"],
    }
}

/// Every object that the wanted releases mount, each in its release's namespace (`releases`: the namespace by the catalogue's name). What the
/// catalogue has no release for is there for charts that a person installs: in `namespace`, the resource's own.
pub fn objects(ceph: &Ceph, namespace: &str, releases: &BTreeMap<&str, &str>) -> Vec<Object> {
    let mut objects = BTreeMap::new();
    for (consumer, user) in &ceph.users {
        let outside = matches!(consumer, Consumer::Manila | Consumer::Gnocchi).then_some(namespace);
        let mounting = mounted_by(*consumer, ceph).iter().filter_map(|release| releases.get(release).copied());
        let namespaces: BTreeSet<&str> = mounting.chain(outside).collect();
        for namespace in namespaces {
            let conf = BTreeMap::from([("ceph.conf".to_owned(), ceph.configuration())]);
            for (kind, name, data) in
                [(Kind::ConfigMap, CONFIG_MAP, conf), (Kind::Secret, consumer.keyring(), keyring(user))]
            {
                let object = Object { kind, namespace: namespace.to_owned(), name: name.to_owned(), data };
                objects.insert((kind, namespace.to_owned(), name), object);
            }
        }
    }
    objects.into_values().collect()
}

/// `key`, which the charts' scripts read, and a file for who mounts it as it is.
fn keyring(user: &User) -> BTreeMap<String, String> {
    let key = user.key.reveal();
    let file = format!("[client.{}]\n    key = {key}\n", user.name);
    [("key".to_owned(), key.to_owned()), ("keyring".to_owned(), file)].into()
}
