//! Services that someone adds to the catalogue.

use osdpl::catalog::Catalog;
use osdpl::ceph;
use serde_json::{Value, json};

use crate::clouds::{files, refusals, resolved};

#[test]
fn a_manila_or_gnocchi_that_is_added_to_the_catalogue_is_served_by_rook() {
    let mut files = files();
    for service in ["manila", "gnocchi"] {
        let pool = format!("values: {{pool: \"${{ceph.{service}.pool}}\", user: \"${{ceph.{service}.user}}\"}}");
        let text =
            format!("service: {service}\ndescription: Added.\ngroup: openstack\nreleases:\n  {service}:\n    {pool}\n");
        files.insert(format!("values/services/{service}.yaml"), text);
    }
    let catalog = Catalog::load(&files).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = json!({
        "openstackRelease": "2026.1", "services": {"manila": {"enabled": true}, "gnocchi": {"enabled": true}},
        "features": {"storage": {"backend": "ceph", "ceph": {"mode": "rook"}}},
    });
    let desired = resolved(&catalog, &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    assert_eq!(desired.releases["manila"].values["user"], "manila");
    let rook = ceph::Rook::of(&json!({"mode": "rook"})).unwrap();
    let consumers = ceph::consumers(desired.releases.keys().map(String::as_str));
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
