//! Checks how osdpl judges the keys in users' values, which come from a spec or a preset: it accepts keys that charts
//! read, and reports typos.

use std::collections::BTreeSet;

use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Addition, Catalog, extend_catalog};
use osdpl_core::desired::{KeyState, classify_key};
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::validate::{ReviewInput, Schemas};
use osdpl_values::Path;
use serde_json::{Value, json};

use crate::clouds::{at, catalogue, clouds, files, resolved};

/// Returns whether and how a chart uses a path of its values, according to the chart's key tree in the catalogue.
fn lookup(catalog: &Catalog, chart: &str, path: &str) -> KeyState {
    classify_key(catalog, chart, &Path::parse(path).unwrap())
        .unwrap_or_else(|| panic!("the keys of {chart} are not known"))
}

#[test]
fn keys_in_templates_are_known_without_defaults() {
    let catalog = catalogue();
    for (chart, path) in [
        ("keystone", "annotations.pod.keystone_api.\"a.b/c\""),
        ("keystone", "annotations.secret.identity.a"),
        ("keystone", "annotations.job.keystone_bootstrap.a"),
        ("keystone", "conf.ks_domains.corp.identity.driver"),
        ("keystone", "release_uuid"),
        ("keystone", "pod.priorityClassName.keystone_api"),
        ("keystone", "pod.runtimeClassName.keystone_api"),
        ("keystone", "pod.mandatory_access_control.type"),
        ("keystone", "pod.mandatory_access_control.keystone-api.keystone-api"),
        ("keystone", "pod.labels.api.team"),
        ("keystone", "pod.security_context.keystone.pod.fsGroup"),
        ("keystone", "pod.resources.api.limits.ephemeral-storage"),
        ("neutron", "network.interface.sriov"),
        ("nova", "pod.mounts.nova_compute.nova_compute.volumes"),
        ("cinder", "pod.resources.backup.limits.memory"),
        ("cinder", "bootstrap.volume_qos.fast.consumer"),
        ("designate", "pod.resources.central.limits.memory"),
        ("memcached", "pod.resources.server.limits.memory"),
        ("zaqar", "tls.oslo_messaging"),
        ("octavia", "conf.rally_tests"),
    ] {
        let state = lookup(catalog, chart, path);
        assert!(!matches!(state, KeyState::No(_)), "{chart} {path}: {state:?}");
    }
}

#[test]
fn reports_typos_below_user_maps() {
    let catalog = catalogue();
    for (chart, path, meant) in [
        ("keystone", "conf.keystone.DEFALT.debug", "DEFAULT"),
        ("keystone", "conf.keystone.databse.max_pool_size", "database"),
        ("keystone", "conf.keystone.tokn.expiration", "token"),
        ("keystone", "endpoints.identity.prot.api", "port"),
        ("keystone", "endpoints.identity.hosts.defualt", "default"),
        ("keystone", "endpoints.identity.auth.admin.pasword", "password"),
        ("keystone", "dependencies.static.apii.jobs", "api"),
        ("keystone", "images.tags.keystone_apii", "keystone_api"),
        ("nova", "conf.ceph.enabeld", "enabled"),
        ("neutron", "conf.plugins.ml2_cnf.ml2", "ml2_conf"),
        ("libvirt", "conf.libvirt.listen_tpc", "listen_tcp"),
        ("horizon", "conf.horizon.local_settings.confg", "config"),
    ] {
        let expected = KeyState::No(format!(" (did you mean {meant:?}?)"));
        assert_eq!(lookup(catalog, chart, path), expected, "{chart} {path}");
    }
}

/// OpenStack has more options than the charts list. osdpl does not report an option that a chart does not list, even if
/// the option is similar to a listed one.
#[test]
fn unlisted_options_are_not_typos() {
    let catalog = catalogue();
    for (chart, path) in [
        ("nova", "conf.nova.oslo_messaging_rabbit.rabbit_quorum_queue"),
        ("nova", "conf.nova.libvirt.cpu_models"),
        ("neutron", "conf.neutron.DEFAULT.rpc_workers"),
        ("neutron", "conf.plugins.ml2_conf.ml2_type_vlan.network_vlan_ranges"),
        ("cinder", "conf.backends.rbd2.volume_driver"),
        ("keystone", "conf.policy.\"identity:get_users\""),
        ("keystone", "endpoints.identity.auth.test2.password"),
    ] {
        let state = lookup(catalog, chart, path);
        assert!(!matches!(state, KeyState::No(_)), "{chart} {path}: {state:?}");
    }
}

const EDGE: &str = "preset: edge\ndescription: One small site.\nfragments:\n- why: Its logs.\n  releases: {keystone: {values: {pod: {replicass: {api: 3}}, conf: {keystne: {DEFAULT: {debug: true}}}}}}\n";

#[test]
fn checks_presets_in_config_maps_like_specs() {
    let data = [("presets.edge.yaml".to_owned(), EDGE.to_owned())].into();
    let addition = Addition::new("openstack", "edge", data);
    let catalog = extend_catalog(&files(), &[addition]).unwrap_or_else(|errors| panic!("{errors}")).catalog;
    let schemas = Schemas::new(&catalog).unwrap();
    let input = ReviewInput {
        catalog: &catalog,
        schemas: &schemas,
        manifests: &[],
        cluster_info: &ClusterInfo::default(),
        now: None,
    };
    let resource: Value = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud", "namespace": "openstack"},
        "spec": {"openstackRelease": "2026.1", "presets": ["core", "edge"]},
    });
    let deployment: OpenStackDeployment = serde_json::from_value(resource).unwrap();
    let findings =
        input.evaluate(&deployment, None).desired.findings.into_iter().filter(|finding| finding.rule == "unknown-key");
    let mut findings: Vec<String> =
        findings.map(|finding| format!("{}: {}", finding.location.field, finding.text())).collect();
    findings.sort();
    let location = "spec.presets: ConfigMap openstack/edge, key presets.edge.yaml (fragments[0]): the values of chart keystone have no ";
    assert_eq!(findings.len(), 2, "{findings:#?}");
    for (finding, expected) in
        findings.iter().zip(["conf.keystne (did you mean \"keystone\"?)", "pod.replicass (did you mean \"replicas\"?)"])
    {
        assert!(finding.starts_with(&format!("{location}{expected}: ")), "{finding}");
    }
}

/// Image tags that the test must ignore, because the catalogue need not set them for each OpenStack release. Most of
/// the images do not belong to OpenStack. The images for SR-IOV belong to OpenStack, but only a feature uses them.
const OTHERS: [&str; 19] = [
    "apparmor_loader",
    "ceph_config_helper",
    "cinder_backup_storage_init",
    "cinder_storage_init",
    "db_sync",
    "dep_check",
    "glance_storage_init",
    "image_repo_sync",
    "kubectl",
    "netoffload",
    "neutron_sriov_agent",
    "neutron_sriov_agent_init",
    "nova_service_cleaner",
    "nova_storage_init",
    "nova_wait_for_computes_init",
    "openvswitch_vswitchd",
    "powerdns",
    "rabbit_init",
    "test",
];

#[test]
fn reports_images_without_a_source() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let catalog = catalogue();
    let mut unused = BTreeSet::new();
    for (_, spec) in clouds() {
        for (name, release) in resolved(catalog, &spec).releases {
            let Some(tags_set) = at(&release.values, "images.tags").and_then(Value::as_object) else { continue };
            let text = std::fs::read_to_string(root.join(format!("values/keys/{}.json", release.chart))).unwrap();
            let tree: Value = serde_json::from_str(&text).unwrap();
            let tags = tree["images"]["tags"].as_object().unwrap().keys().filter(|tag| *tag != "*");
            let follows = |tag: &&String| !tags_set.contains_key(*tag) && !OTHERS.contains(&tag.as_str());
            unused.extend(tags.filter(follows).map(|tag| format!("{name}: {tag}")));
        }
    }
    assert!(unused.is_empty(), "values/services must set the tag of each OpenStack image; missing tags: {unused:#?}");
}

#[test]
fn floating_images_are_images_of_their_charts() {
    let catalog = catalogue();
    let mut count = 0;
    for (name, release) in catalog.services.values().flat_map(|service| &service.releases) {
        for image in &release.floating_images {
            let state = lookup(catalog, &release.chart, &format!("images.tags.{image}"));
            assert!(matches!(state, KeyState::Has(_)), "floatingImages of {name}: {image}: {state:?}");
            count += 1;
        }
    }
    assert!(count > 0, "no release has floatingImages");
}
