use serde_json::json;

use super::*;
use osdpl_core::adopt::{CephUse, SecretContent};
use osdpl_core::ceph::{Consumer, DeclaredCeph, example};

fn uses() -> CephUses {
    let ceph_use = |user: &str, keyring: Option<&str>| CephUse {
        user: user.into(),
        pool: "a-pool".into(),
        keyring: keyring.map(|name| ("openstack".to_owned(), name.to_owned())),
    };
    let consumers = [
        (Consumer::Cinder, ceph_use("cinder", Some("cinder-volume-rbd-keyring"))),
        (Consumer::Nova, ceph_use("cinder", None)),
    ];
    CephUses { consumers: consumers.into(), configuration: ("openstack".into(), "ceph-etc".into()) }
}

#[test]
fn describes_the_declared_ceph() {
    let secret =
        ("cloud-adopted-ceph".to_owned(), BTreeMap::from([("fsid".to_owned(), SecretContent::Open("f".into()))]));
    let declared_ceph = DeclaredCeph::of(Ok(example()));
    let mut storage = CephDeclaration { feature: json!({}), secret, declared: declared_ceph, guessed: None };
    let mut state = CephState::default();
    let note = declared_note(&uses(), &state, &storage);
    assert_eq!(
        note,
        "note: this cloud uses Ceph (cinder, nova): Secret cloud-adopted-ceph of the file describes the Ceph cluster, from ConfigMap openstack/ceph-etc and the \
         keys in use, and features.storage.ceph references the Secret. Existing pools, users and objects stay as they are."
    );
    storage.guessed = Some("rook-ceph/main".into());
    state.clusters.insert("rook-ceph/main".into(), None);
    let note = declared_note(&uses(), &state, &storage);
    assert!(
        note.contains("took the fsid of Rook's CephCluster rook-ceph/main: compare it with `ceph fsid`. The spec uses mode external"),
        "{note}"
    );
}

#[test]
fn describes_what_is_missing() {
    let missing = ["no object contains its fsid".to_owned(), "Secret openstack/a has no key".to_owned()];
    let note = undeclared_note(&uses(), "openstack", &missing);
    for part in [
        "the file does not declare the Ceph cluster: no object contains its fsid; Secret openstack/a has no key. The file keeps",
        "a Secret in namespace openstack with mon_host, fsid, cinder.key, cinder.pool, cinder.user, nova.pool, declare",
        "{backend: ceph, ceph: {mode: external, secret: {name: THAT-SECRET}}}",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
}
