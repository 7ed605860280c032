//! Checks how many replicas the preset `ha` sets, which services it leaves at one replica, and how rollouts replace the
//! only pod of a service.

use serde_json::{Value, json};

use crate::clouds::{at, base_spec, catalogue, refusals, resolved};

fn ha(change: &Value) -> osdpl_core::desired::Desired {
    let mut spec = json!({"presets": ["core", "ha"]});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    resolved(catalogue(), &base_spec(&spec))
}

/// Designate's producer and Masakari's engine elect no leader. Several replicas would announce each zone, or recover
/// the same instance, several times. So the preset leaves the producer and the engine at one replica.
#[test]
fn services_without_election_keep_one_replica() {
    let desired = ha(&json!({"services": {"designate": {"enabled": true}, "masakari": {"enabled": true}}}));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    for (release, alone, three, budgets) in [
        ("designate", "producer", "worker", &["api", "central", "mdns", "worker"][..]),
        ("masakari", "masakari_engine", "masakari_api", &["api"]),
    ] {
        let values = &desired.releases[release].values;
        assert_eq!(at(values, &format!("pod.replicas.{alone}")), None, "the preset must not set these replicas");
        assert_eq!(at(values, &format!("pod.replicas.{three}")), Some(&json!(3)));
        let objects = at(values, "extraObjects").unwrap().as_object().unwrap();
        let found: Vec<_> = objects.keys().filter_map(|name| name.strip_prefix("disruption_budget_")).collect();
        assert_eq!(found, budgets, "{release}");
    }
}

#[test]
fn glance_has_three_replicas_without_a_claim() {
    let ring = json!({"values": {"ring": {"devices": [{"name": "sdb1", "weight": 100}]}}});
    let swift = json!({"enabled": true, "releases": {"swift": ring}});
    let backends = |kinds: &[&str]| {
        let kinds: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| json!({"type": kind, "default": at == 0})).collect();
        json!({"images": {"backends": kinds}})
    };
    for (features, pods) in [
        (json!({}), None),
        (backends(&["pvc"]), None),
        (backends(&["swift", "pvc"]), None),
        (backends(&["swift"]), Some(3)),
        (json!({"storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}}}}), Some(3)),
    ] {
        let desired = ha(&json!({"services": {"swift": swift}, "features": features}));
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{features}");
        let replicas = at(&desired.releases["glance"].values, "pod.replicas.api");
        assert_eq!(replicas, pods.map(|pods| json!(pods)).as_ref(), "{features}");
        let is_reported = desired.findings.iter().any(|finding| finding.message.starts_with("glance keeps one pod"));
        assert_eq!(is_reported, pods.is_none(), "{features}: {:#?}", desired.findings);
    }
}

/// Nova's chart deploys only the proxy of the selected console, so the preset must scale this proxy.
#[test]
fn selected_console_has_three_replicas_and_a_budget() {
    for console in ["novnc", "spice", "serial"] {
        let desired = ha(&json!({"features": {"compute": {"console": console}}}));
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{console}");
        let values = &desired.releases["nova"].values;
        assert_eq!(at(values, &format!("pod.replicas.{console}proxy")), Some(&json!(3)));
        let budget = at(values, "extraObjects.disruption_budget_novncproxy").unwrap();
        assert_eq!(budget["metadata"]["name"], format!("nova-{console}proxy"));
        assert_eq!(budget["spec"]["selector"]["matchLabels"]["component"], format!("{console}-proxy"));
    }
}

/// Without the preset `ha`, an API has one pod. A rollout must start the new pod before it ends the old one, if both fit
/// on one node.
#[test]
fn rollouts_keep_the_only_pod_until_the_new_one_is_ready() {
    let path = "pod.lifecycle.upgrades.deployments.rolling_update.max_unavailable";
    let images = |backend: &str| json!({"images": {"backends": [{"type": backend}]}});
    for (change, release, waits) in [
        (json!({}), "nova", true),
        (json!({"features": {"compute": {"console": "serial"}}}), "nova", true),
        (json!({"features": {"compute": {"console": "spice"}}}), "nova", false),
        (json!({"features": {"compute": {"console": "spice"}}}), "keystone", true),
        (json!({"presets": ["core", "ha"]}), "keystone", false),
        (json!({}), "cinder", true),
        (json!({}), "glance", false),
        (json!({"presets": ["core", "single"]}), "glance", true),
        (json!({"features": {"storage": {"backend": "local"}}}), "glance", true),
        (json!({"presets": ["core", "single"], "features": images("cinder")}), "glance", false),
        (json!({"presets": ["core", "single"], "features": images("pvc")}), "glance", true),
        (json!({"features": images("pvc")}), "glance", false),
    ] {
        let desired = resolved(catalogue(), &base_spec(&change));
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{change}");
        let found = at(&desired.releases[release].values, path);
        assert_eq!(found, waits.then(|| json!(0)).as_ref(), "{change}: {release}");
    }
}
