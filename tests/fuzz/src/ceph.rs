//! Fuzz target for Secrets that describe a Ceph cluster, in all layouts that osdpl reads. Each part of the input is an
//! entry of the Secret's data.

use std::collections::BTreeMap;

use osdpl_core::ceph::{
    Ceph, Cluster, DeclaredCeph, ObjectStore, RookSettings, chart_owned_secrets, consumers, desired_objects,
    read_declared_ceph,
};
use serde_json::json;

use crate::sections;

/// The releases that use Ceph.
const RELEASES: [&str; 6] = ["glance", "cinder", "nova", "libvirt", "manila", "gnocchi"];

const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";

type Data = BTreeMap<String, Vec<u8>>;

pub fn run(input: &[u8]) {
    let parts = sections::parse(input).into_iter();
    let data: Data =
        parts.map(|(name, content)| (String::from_utf8_lossy(name).into_owned(), content.to_vec())).collect();
    let store = ObjectStore::from_feature(&json!({"objectStore": {"name": "store"}}));
    use_settings(&read_declared_ceph("openstack/ceph", Ok(data.clone()), RELEASES.into_iter(), store.as_ref()));
    for access in ["admin", "leastPrivilege"] {
        let rook = RookSettings::from_feature(&json!({"mode": "rook", "rook": {"access": access}}));
        let Some(rook) = rook else { continue };
        let status = json!({"status": {"phase": "Ready", "ceph": {"fsid": "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b"}}});
        let cluster = Cluster::from_object(&rook.namespace, "main", &status);
        let consumers = consumers(RELEASES.into_iter());
        let (settings, cluster) = rook.read(&consumers, Ok(vec![cluster]), |_| Ok(Some(data.clone())));
        use_settings(&DeclaredCeph::from_rook(settings, cluster));
    }
}

/// Uses the Ceph settings as the operator does in a pass.
fn use_settings(declared: &DeclaredCeph) {
    let _ = (declared.variables(), declared.not_ready_reason().map(|reason| reason.to_string()));
    let releases = RELEASES.map(|release| (release, "openstack")).into();
    let objects = |ceph: &Ceph| {
        let _ = (
            ceph.configuration(),
            desired_objects(ceph, "openstack", &releases, true),
            chart_owned_secrets(ceph, &releases),
        );
    };
    declared.settings.iter().for_each(objects);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let fsid = ("fsid", "6D2A1B7E-0c8f-4a53-9d61-1f6f0f1d2c3b");
    let documented = [
        ("mon_host", "[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0], 10.0.0.1:6789\n[fd00::1]:3300\n"),
        fsid,
        ("glance.key", KEY),
        ("glance.pool", "glance.images"),
        ("cinder.key", KEY),
        ("cinder.pool", "volumes\n"),
        ("cinder.user", "client.volumes"),
        ("nova.pool", "vms"),
        ("rgw_internal", "http://[fd00::2]:8080/"),
        ("rgw_external", "https://rgw.example.org"),
    ];
    let cinder = format!("client.cinder;{KEY}\n;volumes-hdd:volumes:hdd;backup-hdd:backup:hdd\n");
    let glance = format!("client.glance;{KEY};images-hdd:images:hdd;");
    let mirantis = [
        ("client.admin", "left alone"),
        ("mon_endpoints", "10.0.0.3:6789,10.0.0.1:6789"),
        ("cinder", cinder.as_str()),
        ("glance", glance.as_str()),
        ("bootstrap-rgw.key", KEY),
    ];
    let users = ["glance", "cinder", "cinderbackup", "manila", "gnocchi"].map(|user| (user, KEY));
    let rook = [("data", "a=10.0.0.1:6789,b=10.0.0.2:6789"), ("ceph-username", "client.admin"), ("ceph-secret", KEY)];
    vec![sections::write(documented), sections::write(mirantis), sections::write(rook.into_iter().chain(users))]
}
