//! Tests additions to the catalogue, which are `ConfigMap`s. The operator reads only the `ConfigMap`s that
//! `spec.catalog` names. If the content of such a `ConfigMap` changes, the operator uses the new content only after
//! approval.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use osdpl_core::api::{OpenStackDeployment, reason};
use osdpl_core::catalog::Addition;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

/// Returns the data of an addition: the service `lantern`, which uses the chart memcached, and the preset `bright`. The
/// preset enables `lantern` and the services in `more`, and sets lantern's value `conf.memcached.memory` to `size`.
fn lantern(size: &str, more: &str) -> Value {
    json!({
        "services.lantern.yaml": "service: lantern\ndescription: A test addition.\ngroup: infra\nreleases:\n  lantern: {chart: memcached}\n",
        "presets.bright.yaml": format!(
            "preset: bright\ndescription: A test addition.\nservices: [lantern{more}]\nfragments:\n- releases: {{lantern: {{values: {{conf: {{memcached: {{memory: {size}}}}}}}}}}}\n"
        ),
    })
}

/// Writes the `ConfigMap` `lantern` with the label `osdpl.dev/catalog`. The operator must ignore this label.
async fn write(world: &World, data: &Value) {
    let metadata = json!({"name": "lantern", "labels": {"osdpl.dev/catalog": "true"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let params = PatchParams::apply("test").force();
    world.api::<ConfigMap>().patch("lantern", &params, &Patch::Apply(map)).await.unwrap();
}

/// Waits until the Ready condition has this reason and a message with this text, and returns the message.
async fn until_message(world: &World, reason: &str, text: &str) -> String {
    let has_text = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready")?.message;
        (cloud.reason() == reason && message.contains(text)).then_some(message)
    };
    world.until(&format!("the cloud reports {text:?}"), has_text).await
}

fn digest(world: &World, data: &Value) -> String {
    Addition::new(&world.namespace, "lantern", serde_json::from_value(data.clone()).unwrap()).digest()
}

/// Returns the value `conf.memcached.memory` of the release `lantern`, and the number of helm runs.
fn state(world: &World) -> (Option<Value>, usize) {
    (world.helm_values("lantern").pointer("/conf/memcached/memory").cloned(), world.helm_runs().len())
}

#[test]
fn config_maps_that_the_resource_does_not_name_have_no_effect() {
    run_test("unnamed-addition", async |world| {
        let other = format!("{}-other", world.namespace);
        world.permit(&other).await;
        let fragment = json!({"releases": {"memcached": {"values": {"extraObjects": {"intruder": {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "intruder", "namespace": other},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "make", "image": "example.org/make:1"}],
            }}},
        }}}}}});
        let shared = json!({"shared": "intruder", "description": "Not named.", "fragments": [fragment]}).to_string();
        write(world, &json!({"shared.intruder.yaml": shared})).await;
        let _operator = world.operator().start().await;
        let mut spec = services(&["memcached"]);
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert_eq!(world.helm_values("memcached").pointer("/extraObjects/intruder"), None);
        let jobs: Api<Job> = Api::namespaced(world.client.clone(), &other);
        let has_job = async || jobs.get_opt("intruder").await.unwrap().is_some();
        assert!(!has_job().await, "a ConfigMap that the spec does not name must add no Job");
        assert!(cloud.status().catalog.is_empty());

        // The same ConfigMap adds the Job if the spec names it. So the addition is valid, and the operator may create
        // the Job.
        (spec["approval"], spec["catalog"]) = (json!("Automatic"), json!([{"name": "lantern"}]));
        world.apply(&spec).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            let child = cloud.child("memcached");
            (child.revision == Some(2) && child.status == "deployed").then_some(())
        };
        world.until("memcached is upgraded", is_upgraded).await;
        assert!(has_job().await, "a ConfigMap that the spec names must add its Job");
    });
}

#[test]
fn changed_content_waits_for_approval() {
    run_test("changed-addition", async |world| {
        let (first, second) = (lantern("300", ""), lantern("400", ", rabbitmq"));
        let _operator = world.operator().start().await;
        let mut spec = services(&["mariadb"]);
        (spec["presets"], spec["catalog"]) = (json!(["bright"]), json!([{"name": "lantern"}]));
        world.apply(&spec).await;
        let missing = format!("spec.catalog[0].name: ConfigMap {}/lantern does not exist; create it", world.namespace);
        until_message(world, reason::INVALID, &missing).await;
        write(world, &first).await;
        let cloud = world.until_ready().await;
        assert_eq!(state(world), (Some(json!(300)), 2));
        assert_eq!(cloud.status().catalog["lantern"], digest(world, &first));

        write(world, &second).await;
        let changed = "the content of ConfigMaps in spec.catalog changed: lantern";
        until_message(world, reason::APPROVAL, changed).await;
        let cloud = world.deployments().get(crate::cloud::NAME).await.unwrap();
        assert_eq!(cloud.child("lantern").changes, ["conf.memcached.memory"]);
        assert!(cloud.child("rabbitmq").message.contains(changed), "new releases must wait, too: {cloud:?}");
        assert_eq!(state(world), (Some(json!(300)), 2));
        assert_eq!(cloud.status().catalog["lantern"], digest(world, &first));
        let hash = cloud.status().approval.unwrap();
        let plan = world.osdpl(&["plan"]);
        assert!(plan.contains("changes conf.memcached.memory") && plan.contains(&hash), "{plan}");

        // A change of another field of the spec must not approve the changed content of the ConfigMap.
        spec["region"] = json!("Elsewhere");
        world.apply(&spec).await;
        until_message(world, reason::APPROVAL, changed).await;
        assert_eq!(state(world), (Some(json!(300)), 2));
        world.osdpl(&["approve"]);
        let cloud = world.until_ready().await;
        assert_eq!(state(world).0, Some(json!(400)));
        assert_eq!(cloud.child("rabbitmq").revision, Some(1));
        assert_eq!(cloud.status().catalog["lantern"], digest(world, &second));
    });
}

#[test]
fn unusable_additions_change_nothing() {
    run_test("unusable-addition", async |world| {
        let (first, second) = (lantern("300", ""), lantern("400", ""));
        write(world, &first).await;
        let _operator = world.operator().start().await;
        let mut spec = services(&[]);
        (spec["presets"], spec["catalog"]) = (json!(["bright"]), json!([{"name": "lantern"}]));
        world.apply(&spec).await;
        world.until_ready().await;
        let installed = (Some(json!(300)), 1);

        write(world, &lantern("300}", "")).await;
        let invalid = format!("spec.catalog[0]: ConfigMap {}/lantern: key \"presets.bright.yaml\"", world.namespace);
        until_message(world, reason::INVALID, &invalid).await;
        assert_eq!(state(world), installed);
        let output = world.run(&["plan"]);
        let plan = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && plan.contains(&invalid), "{plan}");

        write(world, &first).await;
        world.until_ready().await;
        spec["catalog"][0]["digest"] = json!(digest(world, &second));
        world.apply(&spec).await;
        let other = format!("spec.catalog[0].digest: ConfigMap {}/lantern has the digest ", world.namespace);
        let message = until_message(world, reason::INVALID, &other).await;
        assert!(message.contains(&digest(world, &first)), "{message}");
        assert_eq!(state(world), installed);
        write(world, &second).await;
        world.until_ready().await;
        let upgraded = (Some(json!(400)), 2);
        assert_eq!(state(world), upgraded, "content whose digest is in the spec must need no approval");

        world.api::<ConfigMap>().delete("lantern", &DeleteParams::default()).await.unwrap();
        until_message(world, reason::INVALID, "lantern does not exist; create it").await;
        assert_eq!(state(world), upgraded);
        world.delete().await;
        world.until_gone().await;
    });
}
