//! Checks that charts mount exactly the Ceph files that osdpl writes, and that the keys of Ceph users are in Secrets
//! only. If the environment variable `CHARTS` names a folder, the tests use its charts instead of the charts in
//! `tests/charts`.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_core::ceph::{
    Ceph, Cluster, DeclaredCeph, Gateway, Object, RookSettings, chart_owned_secrets, consumers, desired_objects,
    read_declared_ceph,
};
use serde_json::{Value, json};

use crate::{clouds, render, shipped};

const KEYS: [&str; 4] = [
    "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==",
    "AQABAgMEBQYHCBAApqampqampqampqampqamgg==",
    "AQABAgMEBQYHCBAApqampqampqampqampqamgw==",
    "AQABAgMEBQYHCBAApqampqampqampqampqamhA==",
];
const FSID: &str = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";
/// The releases that use Ceph.
const RELEASES: [&str; 5] = ["glance", "cinder", "nova", "libvirt", "ceph-rgw"];

type Data = BTreeMap<String, Vec<u8>>;

fn data(pairs: &[(&str, &str)]) -> Data {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

/// Returns an external Ceph, which a Secret describes. If `own` is true, Nova has a Ceph user of its own; otherwise it
/// uses Cinder's.
fn external(own: bool) -> DeclaredCeph {
    let [glance, cinder, backup, nova] = KEYS;
    let mut secret = data(&[
        ("mon_host", "10.0.0.1"),
        ("fsid", FSID),
        ("glance.key", glance),
        ("glance.pool", "images"),
        ("cinder.key", cinder),
        ("cinder.pool", "volumes"),
        ("cinder-backup.key", backup),
        ("cinder-backup.pool", "backups"),
        ("nova.pool", "vms"),
        ("bootstrap-rgw.key", nova),
    ]);
    if own {
        secret.extend(data(&[("nova.key", nova)]));
    }
    let gateway = Gateway::external("openstack/ceph", &secret).unwrap();
    read_declared_ceph("openstack/ceph", Ok(secret), RELEASES.into_iter(), None).with_gateway(Some(Ok(gateway)))
}

/// Returns a Ceph that Rook runs; `access` is the value of `ceph.rook.access` in the feature `storage`.
fn rook(access: &str) -> DeclaredCeph {
    let rook = RookSettings::from_feature(&json!({"mode": "rook", "rook": {"access": access}})).unwrap();
    let status = json!({"status": {"phase": "Ready", "ceph": {"health": "HEALTH_OK", "fsid": FSID}}});
    let cluster = Cluster::from_object("rook-ceph", "main", &status);
    let (settings, cluster) = rook.read(&consumers(RELEASES.into_iter()), Ok(vec![cluster]), |name| {
        Ok(Some(match name {
            "rook-ceph-mon-endpoints" => data(&[("data", "a=10.0.0.1:6789")]),
            "rook-ceph-mon" => data(&[("ceph-username", "client.admin"), ("ceph-secret", KEYS[0])]),
            _ => data(&[("userKey", KEYS[1])]),
        }))
    });
    let store = json!({"endpoints": {"insecure": ["http://rgw.rook-ceph.svc:80"]}});
    DeclaredCeph::from_rook(settings, cluster).with_gateway(Some(Gateway::rook("rook-ceph/objects", &store)))
}

/// Renders the releases in [`RELEASES`] for a cloud with this Ceph. Returns the objects of each release.
fn rendered(ceph: &DeclaredCeph) -> BTreeMap<&'static str, Vec<Value>> {
    let features = json!({"storage": {"ceph": {"mode": "external", "secret": {"name": "ceph"}, "objectStore": {}}}});
    let spec = json!({"openstackRelease": "2026.1", "presets": ["compute", "storage"], "features": features});
    let desired = clouds::resolved_with(&shipped(), &spec, ceph.clone());
    assert_eq!(clouds::refusals(&desired), Vec::<String>::new());
    let render = |name: &'static str| {
        let values = &desired.releases[name].values;
        let text = serde_json::to_string(values).unwrap();
        assert!(
            KEYS.iter().all(|key| !text.contains(key)),
            "the values of {name} must not contain the keys of Ceph users"
        );
        (name, render::release(name, values))
    };
    RELEASES.map(render).into()
}

/// Returns all objects of the releases that use Ceph, in a cloud in which the charts create gateways, pools and users.
pub fn all_objects() -> Vec<Value> {
    let gateway = external(true).gateway;
    rendered(&rook("admin").with_gateway(gateway)).into_values().flatten().collect()
}

/// Adds to `found` the Secrets and `ConfigMap`s that pods mount. For each, adds the data keys that the pods mount as
/// single files. `value` may be any part of a manifest.
pub fn mounts(value: &Value, found: &mut BTreeMap<(String, String), BTreeSet<String>>) {
    if let Some(volumes) = value["volumes"].as_array() {
        for volume in volumes {
            let sources = volume["projected"]["sources"].as_array().cloned().unwrap_or_else(|| vec![volume.clone()]);
            for source in &sources {
                let secret = source["secret"]["secretName"].as_str().or(source["secret"]["name"].as_str());
                let secret_source = secret.map(|name| ("Secret", name));
                let Some((kind, name)) =
                    secret_source.or(source["configMap"]["name"].as_str().map(|name| ("ConfigMap", name)))
                else {
                    continue;
                };
                let below = if kind == "Secret" { &source["secret"] } else { &source["configMap"] };
                let items = below["items"].as_array().into_iter().flatten().filter_map(|item| item["key"].as_str());
                let all = ["containers", "initContainers"]
                    .into_iter()
                    .flat_map(|list| value[list].as_array().into_iter().flatten());
                let of_volume = all.flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten());
                let of_volume = of_volume.filter(|mount| mount["name"] == volume["name"] && below["items"].is_null());
                let paths = of_volume.filter_map(|mount| mount["subPath"].as_str());
                let keys = items.chain(paths).map(str::to_owned);
                found.entry((kind.to_owned(), name.to_owned())).or_default().extend(keys);
            }
        }
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|field| mounts(field, found)),
        Value::Array(entries) => entries.iter().for_each(|entry| mounts(entry, found)),
        _ => {}
    }
}

/// Whether a Secret or `ConfigMap` with this name contains settings or keys of Ceph.
fn belongs_to_ceph(name: &str) -> bool {
    name == "ceph-etc" || name.ends_with("-keyring") || name == "pvc-ceph-client-key"
}

/// Returns, by kind and name, the objects that osdpl writes so that the releases in [`RELEASES`] can use Ceph.
fn written(ceph: &Ceph, declared: &DeclaredCeph) -> BTreeMap<(String, String), Object> {
    let releases: BTreeMap<&str, &str> = RELEASES.into_iter().map(|release| (release, "openstack")).collect();
    let gateway = declared.gateway.iter().flatten().flat_map(|gateway| gateway.objects("openstack"));
    let all = desired_objects(ceph, "openstack", &releases, false).into_iter().chain(gateway);
    all.map(|object| ((object.kind.name().to_owned(), object.name.clone()), object)).collect()
}

#[test]
fn every_mounted_ceph_object_is_written_and_used() {
    for (case, declared) in [
        ("own user", external(true)),
        ("shared user", external(false)),
        ("rook", rook("leastPrivilege")),
        ("admin", rook("admin")),
    ] {
        let ceph = declared.settings.clone().unwrap();
        let written = written(&ceph, &declared);
        let releases = RELEASES.into_iter().map(|release| (release, "openstack")).collect();
        let by_jobs: BTreeSet<String> =
            chart_owned_secrets(&ceph, &releases).into_iter().map(|object| object.name).collect();
        let mut mounted = BTreeMap::new();
        for (release, documents) in rendered(&declared) {
            let mut found = BTreeMap::new();
            for document in &documents {
                mounts(document, &mut found);
            }
            found.retain(|(_, name), _| belongs_to_ceph(name));
            for ((kind, name), keys) in &found {
                let object = written.get(&(kind.clone(), name.clone()));
                let Some(object) = object else {
                    assert!(
                        by_jobs.contains(name),
                        "{case}: {release} mounts {kind} {name}, which neither osdpl nor a Job writes"
                    );
                    continue;
                };
                let missing: Vec<_> = keys.iter().filter(|key| !object.data.contains_key(*key)).collect();
                assert!(missing.is_empty(), "{case}: {object} lacks {missing:?}, which {release} mounts");
            }
            assert!(
                release == "ceph-rgw" || !found.is_empty(),
                "{case}: {release} must mount settings or keys of Ceph"
            );
            mounted.extend(found);
        }
        let unread: Vec<_> = written.keys().filter(|key| !mounted.contains_key(*key)).collect();
        assert!(unread.is_empty(), "{case}: osdpl writes {unread:?}, which no pod mounts");
    }
}

#[test]
fn no_ceph_key_outside_of_secrets() {
    for declared in [external(true), external(false), rook("leastPrivilege"), rook("admin")] {
        for (release, documents) in rendered(&declared) {
            for document in documents.iter().filter(|document| document["kind"] != "Secret") {
                let text = document.to_string();
                let shows = KEYS.iter().any(|key| text.contains(key));
                assert!(!shows, "{release}: a key in {} {}", document["kind"], document["metadata"]["name"]);
            }
        }
    }
}
