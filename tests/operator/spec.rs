//! Tests how fields of the spec, such as `unset`, `valuesFrom` and `paused`, affect helm's values and the helm runs.

use std::process::Command;

use cluster::output_with_input;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use osdpl_core::api::{OpenStackDeployment, reason};
use osdpl_core::release::BASELINE_LABEL;
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{World, run_test};

/// Runs the real `kubectl apply` with these arguments, and with an OpenStackDeployment with this spec on standard
/// input.
fn kubectl_apply(world: &World, arguments: &[&str], spec: &Value) {
    let object = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
        "metadata": {"name": NAME, "namespace": world.namespace}, "spec": spec,
    });
    let mut command = Command::new(world.cluster().kubectl().unwrap());
    command.arg("--kubeconfig").arg(world.cluster().kubeconfig()).arg("apply").args(arguments).args(["-f", "-"]);
    let output = output_with_input(&mut command, &object.to_string()).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nulls_and_unset_reach_helm() {
    run_test("nulls", async |world| {
        let _operator = world.operator().start().await;
        let null = json!({"conf": {"memcached": {"stats_cachedump": null}}});
        let mut spec = with_values(services(&["memcached"]), "memcached", null);
        kubectl_apply(world, &[], &spec);
        let cloud = world.until_ready().await;
        let message = cloud.condition("Ready").unwrap().message;
        assert!(message.contains("stats_cachedump") && message.contains("--server-side"), "{message}");
        assert_eq!(world.helm_values("memcached").pointer("/conf/memcached/stats_cachedump"), None);

        spec["services"]["memcached"]["releases"]["memcached"]["unset"] = json!(["conf.memcached.memory"]);
        kubectl_apply(world, &["--server-side", "--force-conflicts"], &spec);
        world
            .until("the operator has deployed the values with nulls", |cloud| {
                (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
            })
            .await;
        let values = world.helm_values("memcached");
        assert_eq!(values.pointer("/conf/memcached/stats_cachedump"), Some(&Value::Null));
        assert_eq!(values.pointer("/conf/memcached/memory"), Some(&Value::Null));
        let all = world.helm_prints(&["get", "values", "memcached", "--all", "--output", "json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        assert_eq!(
            all["conf"]["memcached"],
            json!({"max_connections": 8192}),
            "null and `unset` must remove the chart's defaults for stats_cachedump and memory"
        );
    });
}

#[test]
fn missing_values_source_blocks_only_its_release() {
    run_test("values-from", async |world| {
        let mut spec = services(&["mariadb", "memcached"]);
        spec["services"]["memcached"]["releases"]["memcached"] = json!({
            "valuesFrom": [{"kind": "ConfigMap", "name": "sizes"}, {"kind": "Secret", "name": "private", "key": "more.yaml"}],
            "values": {"conf": {"memcached": {"max_connections": 100}}},
        });
        let sizes: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "sizes"}, "data": {"values.yaml": "conf: {memcached: {memory: 300, max_connections: 1}}"},
        }))
        .unwrap();
        world.api().create(&PostParams::default(), &sizes).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let cloud = world
            .until("mariadb is ready", |cloud| {
                (cloud.child("mariadb").ready && cloud.reason() == reason::INPUTS).then(|| cloud.clone())
            })
            .await;
        let message = cloud.child("memcached").message;
        assert!(message.contains(&format!("Secret {}/private does not exist", world.namespace)), "{message}");

        let private: Secret = serde_json::from_value(json!({
            "metadata": {"name": "private"}, "stringData": {"more.yaml": "conf: {memcached: {memory: 400, secret: secret-text}}"},
        }))
        .unwrap();
        world.api().create(&PostParams::default(), &private).await.unwrap();
        world.until_ready().await;
        let values = world.helm_values("memcached")["conf"]["memcached"].clone();
        assert_eq!(values, json!({"memory": 400, "secret": "secret-text", "max_connections": 100}));

        let patch = Patch::Merge(json!({"data": {"values.yaml": "conf: {memcached: {verbose: true}}"}}));
        world.api::<ConfigMap>().patch("sizes", &PatchParams::default(), &patch).await.unwrap();
        world
            .until("memcached is upgraded", |cloud| (cloud.child("memcached").revision == Some(2)).then_some(()))
            .await;
        world.until_ready().await;
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["verbose"], true);

        world.api::<Secret>().delete("private", &DeleteParams::default()).await.unwrap();
        let cloud = world.until_reason(reason::INPUTS).await;
        assert_eq!(
            cloud.child("memcached").status,
            "deployed",
            "the release must stay installed when an object in its `valuesFrom` is deleted"
        );
        assert_eq!(world.helm_runs().len(), 3);
    });
}

#[test]
fn refuses_another_openstack_release() {
    run_test("release", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = services(&["memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        spec["openstackRelease"] = json!("2025.2");
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::INVALID).await;
        assert!(cloud.status().message.contains("set openstackRelease back to 2026.1"), "{}", cloud.status().message);
        let release = cloud.status().openstack_release;
        assert_eq!((release.deployed.as_deref(), release.target.as_deref()), (Some("2026.1"), Some("2025.2")));
        spec["openstackRelease"] = json!("2026.1");
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 1);
    });
}

#[test]
fn storage_class_applies_to_new_claims_only() {
    run_test("classes", async |world| {
        let mut spec = services(&["mariadb"]);
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        spec["storageClass"] = json!("faster");
        let generation = world.apply(&spec).await.metadata.generation;
        let current_message = |cloud: &OpenStackDeployment| {
            let current = cloud.status().observed_generation == generation;
            (current && cloud.is_ready()).then(|| cloud.condition("Ready").unwrap().message)
        };
        let message =
            world.until("the operator has observed the new spec and the cloud is Ready", current_message).await;
        let expected = "spec.storageClass: the claims of mariadb keep class general";
        assert!(message.contains(expected), "{message}");
        assert_eq!(world.helm_runs().len(), 1);
    });
}

#[test]
fn new_defaults_apply_to_new_releases_only() {
    run_test("defaults", async |world| {
        let mut spec = services(&["mariadb", "memcached"]);
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let requests = || world.helm_values("memcached").pointer("/pod/resources/enabled").cloned();
        assert_eq!(requests(), Some(json!(true)));

        // Without the label, the release looks as if an older osdpl had installed it.
        let records = world.api::<Secret>();
        let unlabelled = Patch::Merge(json!({"metadata": {"labels": {BASELINE_LABEL: null}}}));
        records.patch("sh.helm.release.v1.memcached.v1", &PatchParams::default(), &unlabelled).await.unwrap();
        world
            .until("memcached has the defaults of older releases", |cloud| {
                (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
            })
            .await;
        assert_eq!(requests(), None);
        let record = records.get("sh.helm.release.v1.memcached.v2").await.unwrap();
        assert_eq!(record.labels().get(BASELINE_LABEL), None);

        let installed_size = world.helm_values("mariadb")["volume"]["size"].clone();
        spec["presets"] = json!(["large"]);
        let generation = world.apply(&spec).await.metadata.generation;
        let message = world
            .until("the cloud is ready with the preset", |cloud| {
                let current = cloud.status().observed_generation == generation;
                (current && cloud.is_ready()).then(|| cloud.condition("Ready").unwrap().message)
            })
            .await;
        let expected = "each volume of mariadb/server has 20Gi, but a new cloud gets 100Gi";
        assert!(message.contains(expected), "{message}");
        assert_eq!(
            (world.helm_values("mariadb")["volume"]["size"].clone(), installed_size),
            (json!("20Gi"), json!("20Gi"))
        );
    });
}
