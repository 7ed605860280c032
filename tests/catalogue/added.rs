//! Services that someone adds to the catalogue, and what the operator rolls of those that are there.

use std::collections::BTreeSet;

use osdpl::{ceph, values};
use serde_json::{Value, json};

use crate::clouds::{at, catalogue, refusals, resolved};

#[test]
fn manila_and_gnocchi_are_served_by_rook() {
    let spec = json!({
        "openstackRelease": "2026.1", "presets": ["storage"], "services": {"manila": {"enabled": true}, "gnocchi": {"enabled": true}},
        "features": {"storage": {"backend": "ceph", "ceph": {"mode": "rook"}}},
    });
    let desired = resolved(&catalogue(), &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let values = |release: &str, path: &str| at(&desired.releases[release].values, path).cloned();
    assert_eq!(values("manila", "conf.manila.cephfs.cephfs_auth_id"), Some(json!("manila")));
    assert_eq!(values("gnocchi", "conf.gnocchi.storage.ceph_pool"), Some(json!("gnocchi.metrics")));
    let rook = ceph::Rook::of(&json!({"mode": "rook"})).unwrap();
    let consumers = ceph::consumers(["manila", "gnocchi"].into_iter());
    let asked: Vec<(&str, String, Value)> =
        rook.manifests(&consumers).into_iter().map(|asked| (asked.kind, asked.name, asked.spec)).collect();
    let kinds: Vec<String> = asked.iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(kinds, ["CephFilesystem shares", "CephBlockPool metrics", "CephClient gnocchi", "CephClient manila"]);
    assert_eq!(asked[0].2["dataPools"][0]["replicated"]["size"], 3);
    assert_eq!(asked[3].2["caps"], json!({"mon": "allow r", "mgr": "allow rw"}));
    let releases = [("manila", "openstack"), ("gnocchi", "openstack")].into();
    let written = ceph::objects(&ceph::example(), "openstack", &releases);
    let names: Vec<&str> = written.iter().map(|object| object.name.as_str()).collect();
    assert!(["ceph-etc", "manila-keyring", "gnocchi-rbd-keyring"].iter().all(|name| names.contains(name)), "{names:?}");
}

/// helm-toolkit has one strategy for all `DaemonSets` of a release: whoever is not on the list would leave old pods alone for ever.
#[test]
fn what_the_operator_rolls_leaves_its_old_pods_alone_and_nothing_else_does() {
    let (catalogue, key) =
        (catalogue(), values::Path::parse("pod.lifecycle.upgrades.daemonsets.pod_replacement_strategy"));
    let key = key.unwrap();
    let releases = catalogue.services.values().flat_map(|service| &service.releases);
    let left = releases.filter(|(name, _)| {
        catalogue.bodies(name).any(|body| values::get(&body.values(), &key).is_some_and(|found| found == "OnDelete"))
    });
    let left: BTreeSet<&String> = left.map(|(name, _)| name).collect();
    assert_eq!(left, catalogue.rollout.iter().collect());
    assert_eq!(catalogue.rollout, ["openvswitch", "ovn", "libvirt", "nova"], "the switch first, nova last");
}
