//! Checks three parts of the catalogue: services that use Ceph from Rook, definitions that users add, and the list
//! `rollout` of the releases whose pods the operator replaces in batches.

use std::collections::BTreeSet;

use osdpl_core::catalog::{Addition, Catalog, extend_catalog};
use osdpl_core::ceph;
use osdpl_values as values;
use serde_json::{Value, json};

use crate::clouds::{at, catalogue, files, refusals, resolved};

#[test]
fn rook_provides_manila_and_gnocchi() {
    let spec = json!({
        "openstackRelease": "2026.1", "presets": ["storage"], "services": {"gnocchi": {"enabled": true}},
        "features": {"storage": {"backend": "ceph", "ceph": {"mode": "rook"}}},
    });
    let desired = resolved(catalogue(), &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let values = |release: &str, path: &str| at(&desired.releases[release].values, path).cloned();
    assert_eq!(values("manila", "conf.manila.cephfs.cephfs_auth_id"), Some(json!("placeholder.manila")));
    assert_eq!(values("gnocchi", "conf.gnocchi.storage.ceph_pool"), Some(json!("placeholder.gnocchi")));
    let rook = ceph::RookSettings::from_feature(&json!({"mode": "rook"})).unwrap();
    let consumers = ceph::consumers(["manila", "gnocchi"].into_iter());
    let objects: Vec<(&str, String, Value)> = rook
        .manifests(&consumers, &consumers)
        .into_iter()
        .map(|object| (object.kind, object.name, object.spec))
        .collect();
    let kinds: Vec<String> = objects.iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(kinds, ["CephFilesystem shares", "CephBlockPool metrics", "CephClient gnocchi", "CephClient manila"]);
    assert_eq!(objects[0].2["dataPools"][0]["replicated"]["size"], 3);
    assert_eq!(objects[3].2["caps"], json!({"mon": "allow r", "mgr": "allow rw"}));
    let releases = [("manila", "openstack"), ("gnocchi", "openstack")].into();
    let written = ceph::desired_objects(&ceph::example(), "openstack", &releases, false);
    let names: Vec<&str> = written.iter().map(|object| object.name.as_str()).collect();
    assert!(["ceph-etc", "manila-keyring", "gnocchi-rbd-keyring"].iter().all(|name| names.contains(name)), "{names:?}");
}

/// The values of a release may set the update strategy `OnDelete` only if the release is in the catalogue's list
/// `rollout`. With `OnDelete`, a `DaemonSet` keeps its old pods until the operator replaces them in a rollout. One
/// value of a chart sets the strategy of all `DaemonSets` of this chart.
#[test]
fn only_rolled_out_releases_keep_old_pods() {
    let (catalogue, key) =
        (catalogue(), values::Path::parse("pod.lifecycle.upgrades.daemonsets.pod_replacement_strategy"));
    let key = key.unwrap();
    let releases = catalogue.services.values().flat_map(|service| &service.releases);
    let left = releases.filter(|(name, _)| {
        catalogue.bodies(name).any(|body| values::get(&body.values(), &key).is_some_and(|found| found == "OnDelete"))
    });
    let left: BTreeSet<&String> = left.map(|(name, _)| name).collect();
    assert_eq!(left, catalogue.rollout.iter().collect());
    assert_eq!(
        catalogue.rollout,
        ["openvswitch", "ovn", "libvirt", "nova"],
        "the rollout order must begin with the virtual switch and end with nova"
    );
}

/// The catalogue files of a service, a feature, a preset and an OpenStack release that are not in the shipped
/// catalogue.
const ADDED_FILES: [(&str, &str); 4] = [
    (
        "values/services/lighthouse.yaml",
        "service: lighthouse\ndescription: Made up.\ngroup: openstack\ncredentials: {identity: {description: Its Keystone user.}}\nreleases:\n  \
         lighthouse:\n    chart: placement\n    needs: [{component: keystone/api}]\n    components: {lighthouse/api: Deployment}\n    values:\n      \
         conf: {lamp: {colour: white}}\n      endpoints: {identity: {auth: {lighthouse: {password: '${credentials.lighthouse.identity}'}}}}\n",
    ),
    (
        "values/features/lamp.yaml",
        "feature: lamp\ndescription: Made up.\nschema: {type: object, properties: {colour: {type: string, enum: [white, red]}}}\ndefault: {colour: \
         white}\nfragments:\n- when: features.lamp.colour != 'white'\n  releases: {lighthouse: {values: {conf: {lamp: {colour: \
         '${features.lamp.colour}'}}}}}\n",
    ),
    (
        "presets/coast.yaml",
        "preset: coast\ndescription: Made up.\nservices: [lighthouse]\nfeatures: {lamp: {colour: red}}\nfragments:\n- releases: {lighthouse: {values: \
         {pod: {replicas: {api: 2}}}}}\n",
    ),
    (
        "values/openstack/2026.2.yaml",
        "openstackRelease: '2026.2'\ndescription: Made up.\nvariables: {imageTag: 2026.2-ubuntu_noble}\nupgradesFrom: ['2026.1']\n",
    ),
];

/// Checks a cloud that uses the definitions of [`ADDED_FILES`]. `catalog` must contain these definitions.
fn check_added_definitions(catalog: &Catalog) {
    let desired = resolved(catalog, &json!({"openstackRelease": "2026.2", "presets": ["coast"]}));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let names: Vec<&str> = desired.releases.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["keystone", "lighthouse", "mariadb", "memcached"],
        "the cloud must contain the services that lighthouse needs"
    );
    let values = &desired.releases["lighthouse"].values;
    assert_eq!(values["conf"]["lamp"]["colour"], "red");
    assert_eq!(values["pod"]["replicas"]["api"], 2);
    assert_eq!(values["endpoints"]["identity"]["auth"]["lighthouse"]["password"], "the-lighthouse-identity");
    let image = &desired.releases["keystone"].values["images"]["tags"]["keystone_api"];
    assert!(image.as_str().is_some_and(|image| image.ends_with(":2026.2-ubuntu_noble")), "{image}");
    let given = resolved(
        catalog,
        &json!({"openstackRelease": "2026.2", "presets": ["coast"], "features": {"lamp": {"colour": "white"}}}),
    );
    assert_eq!(given.releases["lighthouse"].values["conf"]["lamp"]["colour"], "white");
}

#[test]
fn files_add_service_preset_feature_and_release() {
    let mut files = files();
    for (path, text) in ADDED_FILES {
        files.insert(path.to_owned(), text.to_owned().into());
    }
    check_added_definitions(&Catalog::load(&files).unwrap_or_else(|errors| panic!("{errors}")));
}

#[test]
fn config_maps_add_the_same_definitions() {
    let key = |path: &str| path.trim_start_matches("values/").replace('/', ".");
    let addition = |(index, (path, text)): (usize, &(&str, &str))| {
        Addition::new("openstack", &format!("part-{index}"), [(key(path), (*text).to_owned())].into())
    };
    let additions: Vec<_> = ADDED_FILES.iter().enumerate().map(addition).collect();
    let extended = extend_catalog(&files(), &additions).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(extended.rejected, Vec::new());
    check_added_definitions(&extended.catalog);
    let before = resolved(catalogue(), &json!({"openstackRelease": "2026.1", "presets": ["compute"]}));
    let after = resolved(&extended.catalog, &json!({"openstackRelease": "2026.1", "presets": ["compute"]}));
    for (name, release) in &before.releases {
        let now = &after.releases[name];
        assert_eq!(
            (&release.inputs, &release.catalog),
            (&now.inputs, &now.catalog),
            "the additions must not change the inputs of {name}"
        );
    }
}
