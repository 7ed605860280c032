use serde_json::json;

use super::*;
use osdpl_core::adopt::{Content, Use};
use osdpl_core::ceph::{Consumer, Declared, example};

fn uses() -> Uses {
    let own = |user: &str, keyring: Option<&str>| Use {
        user: user.into(),
        pool: "a-pool".into(),
        keyring: keyring.map(|name| ("openstack".to_owned(), name.to_owned())),
    };
    let consumers =
        [(Consumer::Cinder, own("cinder", Some("cinder-volume-rbd-keyring"))), (Consumer::Nova, own("cinder", None))];
    Uses { consumers: consumers.into(), configuration: ("openstack".into(), "ceph-etc".into()) }
}

#[test]
fn what_declares_it_and_what_to_check_is_said() {
    let secret = ("cloud-adopted-ceph".to_owned(), BTreeMap::from([("fsid".to_owned(), Content::Open("f".into()))]));
    let declared_ceph = Declared::of(Ok(example()));
    let mut storage = Storage { feature: json!({}), secret, declared: declared_ceph, guessed: None };
    let mut answers = Answers::default();
    let said = declared(&uses(), &answers, &storage);
    assert_eq!(
        said,
        "note: this cloud uses a Ceph (cinder, nova): Secret cloud-adopted-ceph of the file describes it, after ConfigMap openstack/ceph-etc and the keys \
         that run, and features.storage.ceph names that. What is there stays as it is, pools, users and objects."
    );
    storage.guessed = Some("rook-ceph/main".into());
    answers.clusters.insert("rook-ceph/main".into(), None);
    let said = declared(&uses(), &answers, &storage);
    assert!(said.contains("check the one of CephCluster rook-ceph/main with `ceph fsid`. Mode rook is for"), "{said}");
}

#[test]
fn what_is_lacking_and_what_to_write_is_said() {
    let lacking = ["nothing here tells its fsid".to_owned(), "Secret openstack/a has no key".to_owned()];
    let said = undeclared(&uses(), "openstack", &lacking);
    for part in [
        "the file does not declare it, for nothing here tells its fsid; Secret openstack/a has no key. What its releases",
        "a Secret in namespace openstack with mon_host, fsid, cinder.key, cinder.pool, cinder.user, nova.pool, declare",
        "{backend: ceph, ceph: {mode: external, secret: {name: THAT-SECRET}}}",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
