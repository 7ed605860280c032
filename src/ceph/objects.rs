//! What is written for the charts: which object, where, with what in it.

use std::collections::{BTreeMap, BTreeSet};

use super::{ADMIN_SECRET, CONFIG_MAP, Ceph, Consumer, Unready, User, fsid_of};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `ceph.conf`.
    ConfigMap,
    /// A key, in a Secret of the type that charts make.
    Secret,
    /// A Secret of no type.
    Opaque,
}

impl Kind {
    /// What Kubernetes calls it.
    pub fn name(self) -> &'static str {
        if self == Self::ConfigMap { "ConfigMap" } else { "Secret" }
    }
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

impl Object {
    /// What is wrong where what stands there is of another Ceph: whoever follows to it loses sight of all data.
    pub fn another(&self, held: &BTreeMap<String, String>) -> Option<Unready> {
        let of =
            |data: &BTreeMap<String, String>| data.get("ceph.conf").and_then(|text| fsid_of(text)).map(str::to_owned);
        let (found, held) = (of(&self.data)?, of(held)?);
        let map = format!("{}/{}", self.namespace, self.name);
        (found != held).then_some(Unready::Another { found, held, map })
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}/{}", self.kind.name(), self.namespace, self.name)
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
    let mut objects = Objects::new();
    for (consumer, user) in &ceph.users {
        let outside = matches!(consumer, Consumer::Manila | Consumer::Gnocchi).then_some(namespace);
        let mounting = mounted_by(*consumer, ceph).iter().filter_map(|release| releases.get(release).copied());
        let namespaces: BTreeSet<&str> = mounting.chain(outside).collect();
        for namespace in namespaces {
            add(&mut objects, ceph, namespace, (consumer.keyring(), keyring(user)));
        }
    }
    if let Some(admin) = &ceph.admin {
        let key = [("key".to_owned(), admin.key.reveal().to_owned())];
        for namespace in ALL.iter().filter_map(|release| releases.get(release)) {
            add(&mut objects, ceph, namespace, (ADMIN_SECRET, key.clone().into()));
        }
    }
    objects.into_values().collect()
}

/// The Secrets that the charts' own Jobs write, by the names of ours, in place of which they may be: nothing may take them back.
pub fn taken_over(ceph: &Ceph, releases: &BTreeMap<&str, &str>) -> Vec<Object> {
    let names = ceph.admin.iter().flat_map(|_| Consumer::ALL).map(Consumer::keyring);
    let place = |name: &'static str| {
        ALL.iter().filter_map(|release| releases.get(release)).map(move |namespace| Object {
            kind: Kind::Secret,
            namespace: (*namespace).to_owned(),
            name: name.to_owned(),
            data: BTreeMap::new(),
        })
    };
    names.flat_map(place).collect()
}

/// The releases that may mount anything of Ceph's.
const ALL: [&str; 4] = ["glance", "cinder", "nova", "libvirt"];

type Objects = BTreeMap<(Kind, String, &'static str), Object>;

/// `ceph.conf` and a Secret, in one namespace.
fn add(objects: &mut Objects, ceph: &Ceph, namespace: &str, secret: (&'static str, BTreeMap<String, String>)) {
    let conf = BTreeMap::from([("ceph.conf".to_owned(), ceph.configuration())]);
    for (kind, (name, data)) in [(Kind::ConfigMap, (CONFIG_MAP, conf)), (Kind::Secret, secret)] {
        let object = Object { kind, namespace: namespace.to_owned(), name: name.to_owned(), data };
        objects.insert((kind, namespace.to_owned(), name), object);
    }
}

/// `key`, which the charts' scripts read, and a file for who mounts it as it is.
fn keyring(user: &User) -> BTreeMap<String, String> {
    let key = user.key.reveal();
    let file = format!("[client.{}]\n    key = {key}\n", user.name);
    [("key".to_owned(), key.to_owned()), ("keyring".to_owned(), file)].into()
}
