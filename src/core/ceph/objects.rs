//! Builds the `ConfigMap`s and Secrets from which the charts' pods mount Ceph's settings and keys.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use super::{ADMIN_SECRET, CONFIG_MAP, Ceph, Consumer, Monitors, NotReady, User, fsid_of, setting};

/// The kind of an object from which pods of the charts mount Ceph's settings or a cephx key. For a Secret, the variant
/// also gives the type of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A `ConfigMap` with `ceph.conf`.
    ConfigMap,
    /// A Secret of type `kubernetes.io/rbd` with the cephx key of a Ceph user. The charts' Jobs write Secrets of this
    /// type, too.
    Secret,
    /// A Secret of type `Opaque`, the type for arbitrary data.
    Opaque,
}

impl Kind {
    /// Returns the kind as in the object's manifest: `ConfigMap` or `Secret`.
    pub fn name(self) -> &'static str {
        if self == Self::ConfigMap { "ConfigMap" } else { "Secret" }
    }
}

/// A `ConfigMap` or Secret from which pods of the charts mount Ceph's settings or a cephx key.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Whether the object is a `ConfigMap` or a Secret, and the type of the Secret.
    pub kind: Kind,
    /// The namespace of the object and of the pods that mount it.
    pub namespace: String,
    /// The name of the object, by which pods mount it.
    pub name: String,
    /// The data of the object as plain text, not as base64; empty if the caller needs only the object's kind and name.
    pub data: BTreeMap<String, String>,
}

impl Object {
    /// Returns an error if `self`, the desired object, contains another fsid than `existing`; else `None`. `existing`
    /// is the data of the object in the Kubernetes cluster.
    ///
    /// If osdpl replaced the fsid, the cloud would lose access to its data in the Ceph cluster with the existing fsid.
    pub fn other_ceph_error(&self, existing: &BTreeMap<String, String>) -> Option<NotReady> {
        let fsid =
            |data: &BTreeMap<String, String>| data.get("ceph.conf").and_then(|text| fsid_of(text)).map(str::to_owned);
        let (found, in_use) = (fsid(&self.data)?, fsid(existing)?);
        let map = format!("{}/{}", self.namespace, self.name);
        (found != in_use).then_some(NotReady::OtherCeph { found, in_use, map })
    }

    /// Whether pods can use `existing` instead of the data of `self`. `existing` is the data of an object with the same
    /// name that someone else created.
    ///
    /// In an adopted cloud, such an object can exist already. If pods can use it, the operator does not replace it.
    ///
    /// An existing Secret usually comes from a Job of upstream's charts. The method compares only its entry `key`,
    /// because the charts read no other entry. It always rejects an existing Secret for Nova: Nova's pods also need the
    /// entry `keyring`, a keyring file, which upstream's Jobs do not write.
    pub fn is_equivalent_to(&self, existing: &BTreeMap<String, String>) -> bool {
        let conf = |data: &BTreeMap<String, String>| {
            let text = data.get("ceph.conf")?;
            Some((Monitors::parse(setting(text, "mon_host")?).ok()?, fsid_of(text).map(str::to_ascii_lowercase)))
        };
        match self.kind {
            Kind::ConfigMap => conf(&self.data).zip(conf(existing)).is_some_and(
                |((monitors, fsid), (existing_monitors, existing_fsid))| {
                    monitors == existing_monitors && (existing_fsid.is_none() || existing_fsid == fsid)
                },
            ),
            Kind::Secret if self.name != Consumer::Nova.keyring() => {
                let key = |data: &BTreeMap<String, String>| data.get("key").map(|key| key.trim().to_owned());
                key(existing).is_some() && key(existing) == key(&self.data)
            }
            Kind::Secret | Kind::Opaque => false,
        }
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}/{}", self.kind.name(), self.namespace, self.name)
    }
}

/// Prints the keys of the data without the values, because logs must not contain secrets.
impl std::fmt::Debug for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self} with {:?}", self.data.keys().collect::<Vec<_>>())
    }
}

/// Returns the catalogue names of the releases whose pods mount the cephx key of a consumer's Ceph user.
fn mounted_by(consumer: Consumer, ceph: &Ceph, images_in_volumes: bool) -> &'static [&'static str] {
    match consumer {
        Consumer::Glance => &["glance"],
        Consumer::Cinder if images_in_volumes => &["cinder", "glance", "libvirt"],
        Consumer::Cinder => &["cinder", "libvirt"],
        Consumer::CinderBackup => &["cinder"],
        Consumer::Nova if ceph.has_own_nova() || ceph.volume_consumer() == Some(Consumer::Nova) => &["nova", "libvirt"],
        Consumer::Nova => &["nova"],
        Consumer::Manila => &["manila"],
        Consumer::Gnocchi => &["gnocchi"],
    }
}

/// Returns the `ConfigMap`s and Secrets with Ceph's settings and keys that the desired releases mount, in the namespace
/// of each release.
///
/// `releases` maps the catalogue names of the releases to their namespaces. `namespace` is the namespace of the
/// OpenStackDeployment. For this namespace, the result also contains the objects for Manila and Gnocchi, because a
/// person may install the charts of Manila and Gnocchi without osdpl. `images_in_volumes` says whether Glance stores
/// images in Cinder's volumes, and so needs Cinder's cephx key.
pub fn desired_objects(
    ceph: &Ceph,
    namespace: &str,
    releases: &BTreeMap<&str, &str>,
    images_in_volumes: bool,
) -> Vec<Object> {
    let mut objects = Objects::new();
    for (consumer, user) in &ceph.users {
        let own_namespace = matches!(consumer, Consumer::Manila | Consumer::Gnocchi).then_some(namespace);
        let mounting =
            mounted_by(*consumer, ceph, images_in_volumes).iter().filter_map(|release| releases.get(release).copied());
        let namespaces: BTreeSet<&str> = mounting.chain(own_namespace).collect_set();
        for namespace in namespaces {
            add(&mut objects, ceph, namespace, consumer.keyring(), keyring(user));
        }
    }
    if let Some(admin) = &ceph.admin {
        let key = [("key".to_owned(), admin.key.reveal().to_owned())];
        for namespace in ALL.iter().filter_map(|release| releases.get(release)) {
            add(&mut objects, ceph, namespace, ADMIN_SECRET, key.clone().into());
        }
    }
    objects.into_values().collect()
}

/// Returns the Secrets that the charts' Jobs write under the names that osdpl's Secrets for Ceph users normally have.
/// The returned Secrets have no data.
///
/// The Jobs write these Secrets only if osdpl gives the charts the cephx key of `client.admin`; otherwise, the result
/// is empty. If the Jobs write them, osdpl writes no Secrets for Ceph users, and must not change or delete the Jobs'
/// Secrets. `releases` maps the releases' names in the catalogue to their namespaces.
pub fn chart_owned_secrets(ceph: &Ceph, releases: &BTreeMap<&str, &str>) -> Vec<Object> {
    let names = ceph.admin.iter().flat_map(|_| Consumer::ALL).map(Consumer::keyring);
    let in_each_namespace = |name: &'static str| {
        ALL.iter().filter_map(|release| releases.get(release)).map(move |namespace| Object {
            kind: Kind::Secret,
            namespace: (*namespace).to_owned(),
            name: name.to_owned(),
            data: BTreeMap::new(),
        })
    };
    names.flat_map(in_each_namespace).collect()
}

/// Returns every object with Ceph's settings or cephx keys that the pods of `releases` can mount, whatever Ceph cluster
/// the spec declares. osdpl does not know which of these objects the pods mount now, so callers must treat all of them
/// as in use. The returned objects have no data.
///
/// `releases` maps the releases' names in the catalogue to their namespaces.
pub fn mountable_objects(releases: &BTreeMap<&str, &str>) -> Vec<Object> {
    let consumers = Consumer::ALL.into_iter().map(|consumer| {
        let releases: &[&str] = match consumer {
            // Glance mounts Cinder's cephx key if Glance stores images in volumes.
            Consumer::Cinder => &["cinder", "glance", "libvirt"],
            Consumer::Nova => &["libvirt", "nova"],
            Consumer::Glance => &["glance"],
            Consumer::CinderBackup => &["cinder"],
            Consumer::Manila => &["manila"],
            Consumer::Gnocchi => &["gnocchi"],
        };
        (consumer.keyring(), releases)
    });
    let mut objects = Objects::new();
    for (secret, mounting) in consumers.chain([(ADMIN_SECRET, ALL.as_slice())]) {
        for namespace in mounting.iter().filter_map(|release| releases.get(release)) {
            for (kind, name) in [(Kind::ConfigMap, CONFIG_MAP), (Kind::Secret, secret)] {
                let object =
                    Object { kind, namespace: (*namespace).to_owned(), name: name.to_owned(), data: BTreeMap::new() };
                objects.insert((kind, object.namespace.clone(), name), object);
            }
        }
    }
    objects.into_values().collect()
}

/// The catalogue names of the releases that mount the cephx key of `client.admin` if the charts create pools and users
/// themselves.
const ALL: [&str; 4] = ["glance", "cinder", "nova", "libvirt"];

/// Objects by kind, namespace and name. If several releases in one namespace need the same object, the map contains the
/// object only once.
type Objects = BTreeMap<(Kind, String, &'static str), Object>;

/// Adds to `objects` the `ConfigMap` with `ceph.conf`, and the Secret `secret` with `data`, both in `namespace`.
fn add(objects: &mut Objects, ceph: &Ceph, namespace: &str, secret: &'static str, data: BTreeMap<String, String>) {
    let conf = BTreeMap::from([("ceph.conf".to_owned(), ceph.configuration())]);
    for (kind, name, data) in [(Kind::ConfigMap, CONFIG_MAP, conf), (Kind::Secret, secret, data)] {
        let object = Object { kind, namespace: namespace.to_owned(), name: name.to_owned(), data };
        objects.insert((kind, namespace.to_owned(), name), object);
    }
}

/// Returns the data of the Secret for a Ceph user: `key` is the user's cephx key, which the charts' scripts read, and
/// `keyring` is the keyring file that some pods mount.
fn keyring(user: &User) -> BTreeMap<String, String> {
    let key = user.key.reveal();
    let file = format!("[client.{}]\n    key = {key}\n", user.name);
    [("key".to_owned(), key.to_owned()), ("keyring".to_owned(), file)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: Kind, name: &str, key: &str, value: &str) -> Object {
        let data = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Object { kind, namespace: "cloud".into(), name: name.into(), data }
    }

    #[test]
    fn recognizes_equivalent_foreign_objects() {
        let fsid = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";
        let ours = format!("[global]\nfsid = {fsid}\nmon_host = 10.0.0.1:6789,10.0.0.2:6789\n");
        let ours = object(Kind::ConfigMap, CONFIG_MAP, "ceph.conf", &ours);
        let matches = |text: &str| ours.is_equivalent_to(&object(Kind::ConfigMap, CONFIG_MAP, "ceph.conf", text).data);
        assert!(
            matches("[global]\ncephx = true\nmon host = 10.0.0.2:6789, 10.0.0.1:6789\n"),
            "osdpl reads ceph.conf in the format that upstream's Job writes"
        );
        assert!(matches(&format!("[global]\nfsid={}\nmon_host=10.0.0.1:6789,10.0.0.2:6789", fsid.to_uppercase())));
        for other in ["", "[global]\n", "mon_host = 10.0.0.1:6789", "mon_host = mon.example.org"] {
            assert!(!matches(other), "{other}");
        }
        assert!(
            !matches("fsid = 0\nmon_host = 10.0.0.1:6789,10.0.0.2:6789"),
            "a ceph.conf of another Ceph cluster is not equivalent"
        );

        let keyring = Consumer::Glance.keyring();
        let ours = object(Kind::Secret, keyring, "key", "k1");
        assert!(ours.is_equivalent_to(&object(Kind::Secret, keyring, "key", "k1\n").data));
        assert!(!ours.is_equivalent_to(&object(Kind::Secret, keyring, "key", "k2").data));
        assert!(!ours.is_equivalent_to(&object(Kind::Secret, keyring, "other", "k1").data));
        let nova = object(Kind::Secret, Consumer::Nova.keyring(), "key", "k1");
        assert!(
            !nova.is_equivalent_to(&nova.data),
            "nova's Secret is never equivalent, because only the operator writes its keyring file"
        );
    }

    #[test]
    fn lists_mounted_objects_by_namespace() {
        let of = |releases: &[(&'static str, &'static str)]| {
            let objects = mountable_objects(&releases.iter().copied().collect());
            objects.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let nova = ["ConfigMap cloud/ceph-etc", "Secret cloud/nova-rbd-keyring", "Secret cloud/pvc-ceph-client-key"];
        assert_eq!(of(&[("nova", "cloud"), ("keystone", "identity")]), nova);
        assert_eq!(of(&[("keystone", "cloud")]), [""; 0]);
    }
}
