//! Checks the values for Octavia's amphorae. Amphorae need OpenStack resources. The spec names existing resources, or a
//! Job creates the resources and stores their names as facts, which osdpl reads.

use osdpl_core::desired::Desired;
use serde_json::{Value, json};

use super::reports;
use crate::clouds::{at, catalogue, refusals, resolved_knowing};

const MADE: [(&str, &str); 6] = [
    ("certificates", "octavia-amphora-certs"),
    ("controllers", "172.31.0.11:5555,172.31.0.12:5555"),
    ("flavor", "f-1"),
    ("imageOwner", "p-1"),
    ("networks", "n-1"),
    ("securityGroups", "s-1"),
];

/// Returns a cloud with Octavia's amphorae. `amphora` contains their settings in the spec, and `written` the facts that
/// a Job has written.
fn cloud(amphora: &Value, written: &[(&str, &str)]) -> Desired {
    let spec = json!({"openstackRelease": "2026.1", "presets": ["compute"], "services": {"octavia": {"enabled": true}},
                      "features": {"loadBalancer": {"providers": ["amphora"], "amphora": amphora}}});
    let desired = resolved_knowing(catalogue(), &spec, "octavia", written);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    desired
}

fn fetched() -> Value {
    json!({"image": {"url": "https://example.org/amphora.qcow2", "checksum": format!("sha256:{}", "0".repeat(64))}})
}

const ID: &str = "11111111-2222-3333-4444-555555555555";

fn value<'a>(desired: &'a Desired, path: &str) -> Option<&'a Value> {
    at(&desired.releases["octavia"].values, path)
}

#[test]
fn amphorae_wait_for_the_facts_of_a_job() {
    let before = cloud(&fetched(), &[]);
    let switches = |desired: &Desired| {
        ["manifests.daemonset_worker", "manifests.daemonset_health_manager"].map(|path| value(desired, path).cloned())
    };
    assert_eq!(switches(&before), [Some(json!(false)), Some(json!(false))]);
    assert_eq!(value(&before, "conf.octavia.controller_worker.amp_flavor_id"), None);
    assert_eq!(
        value(&before, "pod.mounts.octavia_worker.octavia_worker.volumes"),
        None,
        "pods must mount no certificates before the Job has created them"
    );
    let job = |desired: &Desired| value(desired, "extraObjects.prerequisites_job").cloned().unwrap_or_default();
    assert_eq!(job(&before)["metadata"]["name"], "octavia-prerequisites");
    assert_eq!(before.releases["octavia"].plain_jobs, ["octavia-prerequisites"]);

    let after = cloud(&fetched(), &MADE);
    assert_eq!(switches(&after), [Some(json!(true)), Some(json!(true))]);
    for (path, expected) in [
        ("conf.octavia.controller_worker.amp_flavor_id", "f-1"),
        ("conf.octavia.controller_worker.amp_boot_network_list", "n-1"),
        ("conf.octavia.controller_worker.amp_secgroup_list", "s-1"),
        ("conf.octavia.controller_worker.amp_image_owner_id", "p-1"),
        ("conf.octavia.health_manager.controller_ip_port_list", "172.31.0.11:5555,172.31.0.12:5555"),
    ] {
        assert_eq!(value(&after, path), Some(&json!(expected)), "{path}");
    }
    let volumes = value(&after, "pod.mounts.octavia_worker.octavia_worker.volumes").unwrap();
    assert_eq!(volumes[0]["secret"]["secretName"], "octavia-amphora-certs");
    assert_eq!(job(&after), job(&before), "the Job must not depend on the facts that it writes");
    let changed = |name: &&String| before.releases[*name].inputs != after.releases[*name].inputs;
    assert_eq!(after.releases.keys().filter(changed).collect::<Vec<_>>(), ["octavia"]);
    assert_eq!(before.releases["octavia"].catalog, after.releases["octavia"].catalog);
}

#[test]
fn uses_the_resources_in_the_spec() {
    let mut amphora = fetched();
    amphora["flavor"] = "custom".into();
    amphora["certificates"] = "my-certs".into();
    let desired = cloud(&amphora, &MADE);
    assert_eq!(value(&desired, "conf.octavia.controller_worker.amp_flavor_id"), Some(&json!("custom")));
    let volumes = value(&desired, "pod.mounts.octavia_api.octavia_api.volumes").unwrap();
    assert_eq!(volumes[0]["secret"]["secretName"], "my-certs");
    assert_eq!(value(&desired, "extraObjects.prerequisites_certificates"), None);
    let containers = "extraObjects.prerequisites_job.spec.template.spec.containers";
    let variables = value(&desired, containers).unwrap()[0]["env"].clone();
    let variable =
        |name: &str| variables.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["value"].clone();
    assert_eq!(["FLAVOR", "CERTIFICATES", "NETWORKS"].map(variable), [json!("custom"), json!("my-certs"), json!("")]);

    let all = json!({"imageOwner": ID, "flavor": "custom", "networks": [ID], "securityGroups": [ID],
                     "controllers": ["172.31.0.11:5555"], "certificates": "my-certs"});
    let desired = cloud(&all, &[]);
    assert_eq!(value(&desired, "extraObjects"), None, "if the spec names every resource, there must be no Job");
    assert_eq!(value(&desired, "manifests.daemonset_worker"), Some(&json!(true)));
}

#[test]
fn reports_contradicting_amphora_settings() {
    let spec = |more: Value| {
        let mut amphora = json!({"imageOwner": ID});
        amphora.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"services": {"octavia": {"enabled": true}}, "features": {"loadBalancer": {"providers": ["amphora"], "amphora": amphora}}})
    };
    let size = json!({"flavor": "custom", "size": {"vcpus": 1, "ramMiB": 1024, "diskGiB": 3}});
    reports(&[
        (spec(fetched()), "spec.features.loadBalancer.amphora.image", &["names another project", "remove one"]),
        (spec(size), "spec.features.loadBalancer.amphora.size", &["flavor names an existing flavor", "remove one"]),
        (
            spec(json!({"networks": [ID], "subnet": "10.0.0.0/8"})),
            "spec.features.loadBalancer.amphora.subnet",
            &["networks names", "remove one"],
        ),
    ]);
}
