//! Additions to the catalogue take effect at once. After an invalid edit of an addition, the operator keeps using the
//! addition's previous content.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use osdpl_core::api::reason;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services};
use crate::world::run_test;

/// Returns an addition: a `ConfigMap` with the service `lantern`, which uses the chart memcached, and the preset
/// `bright`, which sets the service's memory to `size`.
fn lantern(size: &str) -> Value {
    json!({
        "metadata": {"name": "lantern", "labels": {"osdpl.dev/catalog": "true"}},
        "data": {
            "services.lantern.yaml": "service: lantern\ndescription: A test addition.\ngroup: infra\nreleases:\n  lantern: {chart: memcached}\n",
            "presets.bright.yaml": format!(
                "preset: bright\ndescription: A test addition.\nservices: [lantern]\nfragments:\n- releases: {{lantern: {{values: {{conf: {{memcached: {{memory: {size}}}}}}}}}}}\n"
            ),
        },
    })
}

#[test]
fn installs_added_services_and_survives_an_invalid_edit() {
    run_test("additions", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = services(&[]);
        spec["presets"] = json!(["bright"]);
        world.apply(&spec).await;
        let is_refused =
            |cloud: &osdpl_core::api::OpenStackDeployment| (cloud.reason() == reason::INVALID).then(|| cloud.clone());
        let cloud = world.until("the preset is unknown", is_refused).await;
        let message = cloud.condition("Ready").unwrap().message;
        assert!(message.contains("there is no preset \"bright\""), "{message}");

        let map: ConfigMap = serde_json::from_value(lantern("300")).unwrap();
        world.api().create(&PostParams::default(), &map).await.unwrap();
        world.until_ready().await;
        let memory = || world.helm_values("lantern").pointer("/conf/memcached/memory").cloned();
        assert_eq!(memory(), Some(json!(300)));

        let edit = async |size: &str| {
            let api = world.api::<ConfigMap>();
            api.patch("lantern", &PatchParams::default(), &Patch::Merge(lantern(size))).await.unwrap();
        };
        edit("300}").await;
        let is_reported = |cloud: &osdpl_core::api::OpenStackDeployment| {
            let message = cloud.condition("Ready").map(|condition| condition.message).unwrap_or_default();
            message.contains("ConfigMap").then(|| (cloud.is_ready(), message))
        };
        let (is_ready, message) = world.until("the operator reports the invalid addition", is_reported).await;
        assert!(is_ready && message.contains("key \"presets.bright.yaml\""), "{message}");
        assert!(message.contains("its previous content is used until it is corrected"), "{message}");

        edit("400").await;
        let is_upgraded = |cloud: &osdpl_core::api::OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("lantern").revision == Some(2)).then_some(())
        };
        world.until("the operator has deployed the corrected addition", is_upgraded).await;
        assert_eq!(memory(), Some(json!(400)));
    });
}
