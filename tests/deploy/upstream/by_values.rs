//! Renders upstream's charts with two features that the charts do not offer: certificates that the user provides, and
//! a Glance that stores some images on a PVC and others in Cinder. For these features, the catalogue's values add
//! volumes and objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::ceph::mounts;
use crate::clouds::{base_spec, refusals, resolved};
use crate::{render, shipped};

/// Returns the rendered objects of each release of a cloud whose spec has these changes.
fn rendered(change: &Value) -> BTreeMap<String, Vec<Value>> {
    let desired = resolved(&shipped(), &base_spec(change));
    assert_eq!(refusals(&desired), Vec::<String>::new(), "{change}");
    let releases = desired.releases.into_iter();
    releases.map(|(name, release)| (name.clone(), render::by(&name, &release.chart, &release.values))).collect()
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test deploy upstream -- --include-ignored"]
fn provided_certificates_are_mounted_not_issued() {
    let on = json!({"enabled": true});
    for (database, messaging, more) in [(true, true, "manila"), (false, true, "blazar")] {
        let tls = json!({"given": true, "database": database, "messaging": messaging});
        let features = json!({"tls": tls, "messaging": {"dedicated": ["nova"]}});
        let services = json!({"barbican": on, "octavia": on, "designate": on, "mariadb_backup": on,
            "prometheus_mysql_exporter": on, more: on});
        let documents = rendered(&json!({"features": features, "services": services}));
        let certificates: Vec<_> =
            documents.values().flatten().filter(|document| document["kind"] == "Certificate").collect();
        assert!(
            certificates.iter().all(|object| object["spec"]["issuerRef"]["group"] == "given.osdpl.dev"),
            "{certificates:#?}"
        );

        let mut mounted = BTreeMap::new();
        documents.values().flatten().for_each(|document| mounts(document, &mut mounted));
        let is_certificate = |name: &str| name.ends_with("-client") || name.ends_with("-tls-direct");
        let mounted: BTreeSet<_> =
            mounted.into_keys().map(|(_, name)| name).filter(|name| is_certificate(name)).collect();
        let clients =
            ["barbican", "cinder", "designate", "glance", "heat", "keystone", "neutron", "nova", "octavia", more];
        let of_database = ["horizon-client", "mariadb-tls-direct", "placement-client", "powerdns-client"];
        let of_database = of_database.map(str::to_owned).into_iter().filter(|_| database);
        let brokers = ["rabbitmq-tls-direct", "rabbitmq-nova-tls-direct"].map(str::to_owned);
        let expected = clients.map(|name| format!("{name}-client")).into_iter().chain(of_database).chain(brokers);
        assert_eq!(mounted, expected.collect(), "database: {database}");
    }
}

/// Glance stores images on a PVC. If Cinder is a second backend, Glance's chart does not render this PVC, so the
/// catalogue adds the PVC to the values. The PVC must not change when the user adds Cinder, because it contains images.
#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test deploy upstream -- --include-ignored"]
fn image_claim_is_unchanged_when_cinder_is_added() {
    let glance = |backends: Value| {
        let images = json!({"backends": backends, "claimSize": "7Gi"});
        rendered(&json!({"features": {"images": images}})).remove("glance").unwrap()
    };
    let pvc = json!({"type": "pvc", "default": true});
    let (alone, with_cinder) = (glance(json!([pvc])), glance(json!([pvc, {"type": "cinder"}])));
    let claim = |documents: &[Value]| {
        let is_claim = |document: &&Value| {
            document["kind"] == "PersistentVolumeClaim" && document["metadata"]["name"] == "glance-images"
        };
        documents.iter().filter(is_claim).cloned().collect::<Vec<_>>()
    };
    assert_eq!(claim(&alone).len(), 1, "the chart must create one claim for images");
    assert_eq!(claim(&with_cinder), claim(&alone));

    let pod = |documents: &[Value]| {
        let deployment = documents.iter().find(|document| document["kind"] == "Deployment").unwrap();
        deployment["spec"]["template"]["spec"].clone()
    };
    let at = |pod: &Value| {
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap().clone();
        let paths: BTreeSet<_> = mounts.iter().map(|mount| mount["mountPath"].to_string()).collect();
        assert_eq!(
            paths.len(),
            mounts.len(),
            "Kubernetes refuses a container with two mounts at the same path: {mounts:#?}"
        );
        let mount = mounts.into_iter().find(|mount| mount["mountPath"] == "/var/lib/glance/images").unwrap();
        let volumes = pod["volumes"].as_array().unwrap();
        volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap()["persistentVolumeClaim"].clone()
    };
    let (alone, with_cinder) = (pod(&alone), pod(&with_cinder));
    assert_eq!(at(&alone), json!({"claimName": "glance-images"}));
    assert_eq!(at(&with_cinder), at(&alone), "with Cinder, glance must mount the claim at the same path as before");
    assert_eq!((&alone["hostIPC"], &with_cinder["hostIPC"]), (&Value::Null, &json!(true)));
}
