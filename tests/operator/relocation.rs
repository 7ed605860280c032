//! A spec changes the helm name or the namespace of an installed release. The operator refuses this move, and says how
//! to move the release by uninstalling it first.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use osdpl_core::api::reason;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::operator::Operator;
use crate::world::{World, now, run_test};

fn cloud(overrides: &Value) -> Value {
    let mut spec = services(&["mariadb", "memcached"]);
    // Omit the field if `overrides` is empty: if an earlier spec had entries in this field, server-side apply would
    // turn an empty map into null.
    if *overrides != json!({}) {
        spec["services"]["memcached"]["releases"]["memcached"] = overrides.clone();
    }
    // With automatic approval, an operator that wrongly plans an uninstall of memcached would uninstall it at once, and
    // the test would fail.
    spec["approval"] = json!("Automatic");
    spec
}

/// Applies a spec that moves memcached, and waits until the operator refuses the move. Returns the message of memcached
/// in the status.
async fn refusal(world: &World, overrides: &Value) -> String {
    let applied = world.apply(&cloud(overrides)).await;
    let cloud = world
        .until("the operator refuses to move memcached", |cloud| {
            let current = cloud.metadata.generation == applied.metadata.generation;
            (current && cloud.reason() == reason::INVALID && cloud.child("mariadb").ready).then(|| cloud.clone())
        })
        .await;
    assert_eq!(cloud.condition("Stalled").unwrap().status, "True");
    let child = cloud.child("memcached");
    assert_eq!(
        (child.status.as_str(), child.ready),
        ("deployed", false),
        "the status must still show the release at its old location"
    );
    let message = cloud.condition("Ready").unwrap().message;
    assert!(message.contains(&child.message), "{message}");
    child.message
}

fn runs(world: &World) -> Vec<String> {
    world.helm_runs().iter().map(|run| format!("{} {}", run.verb(), run.release())).collect()
}

/// Removes two labels from all of helm's records. The records then look like those of an older version of the operator,
/// which did not write these labels.
async fn remove_labels(world: &World) {
    let secrets = world.api::<Secret>();
    for record in secrets.list_metadata(&ListParams::default().labels("owner=helm")).await.unwrap() {
        let labels = json!({"osdpl.dev/release": null, "osdpl.dev/images": null});
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        secrets.patch(&record.metadata.name.unwrap(), &PatchParams::default(), &patch).await.unwrap();
    }
}

async fn restart_without_labels(world: &World, operator: Operator) -> Operator {
    operator.kill();
    remove_labels(world).await;
    let began = now();
    let operator = world.operator().start().await;
    operator.finds_ready(2).await;
    assert_eq!(world.writes_since(began), [], "missing labels on records must not make the operator write anything");
    operator
}

#[test]
fn refuses_to_move_an_installed_release() {
    run_test("moved", async |world| {
        let operator = world.operator().start().await;
        world.apply(&cloud(&json!({}))).await;
        world.until_ready().await;
        let record = world.api::<Secret>().get("sh.helm.release.v1.memcached.v1").await.unwrap();
        assert_eq!(record.metadata.labels.unwrap()["osdpl.dev/release"], "memcached");

        let message = refusal(world, &json!({"name": "tokens"})).await;
        let (from, to) = (format!("{}/memcached", world.namespace), format!("{}/tokens", world.namespace));
        for part in ["spec.services.memcached.releases.memcached.name: ", &from, &to, "volume claims", "remove name"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        // While the operator refuses to move memcached, it upgrades mariadb as usual.
        let mut spec =
            with_values(cloud(&json!({"name": "tokens"})), "mariadb", json!({"conf": {"database": {"my": "# ours"}}}));
        world.apply(&spec).await;
        world
            .until("mariadb is upgraded", |cloud| {
                let child = cloud.child("mariadb");
                (child.ready && child.revision == Some(2)).then_some(())
            })
            .await;
        spec["services"]["memcached"] = json!({"enabled": true});
        world.apply(&spec).await;
        world.until_ready().await;

        // Without the label `osdpl.dev/release`, the operator must find memcached's release by the name of its chart.
        let _operator = restart_without_labels(world, operator).await;
        let elsewhere = format!("{}-elsewhere", world.namespace);
        let message = refusal(world, &json!({"namespace": elsewhere})).await;
        assert!(message.contains("memcached.namespace: ") && message.contains("remove namespace"), "{message}");
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        assert!(namespaces.get_opt(&elsewhere).await.unwrap().is_none());
        assert!(runs(world).iter().filter(|run| run.ends_with("memcached") || run.ends_with("tokens")).count() == 1);
    });
}

#[test]
fn moves_a_release_by_uninstalling_it() {
    run_test("moving", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&cloud(&json!({"name": "tokens"}))).await;
        world.until_ready().await;
        // memcached is installed with the helm name `tokens`. The first spec omits the name, which means the default
        // name. The second spec sets the name `other`. Each spec would move memcached, so the operator must refuse
        // both.
        assert!(refusal(world, &json!({})).await.contains("set name to tokens"));
        assert!(refusal(world, &json!({"name": "other"})).await.contains("set name to tokens"));
        let mut disabled = cloud(&json!({}));
        disabled["services"]["memcached"]["enabled"] = json!(false);
        world.apply(&disabled).await;
        let is_uninstalled = |cloud: &osdpl_core::api::OpenStackDeployment| {
            (cloud.is_ready() && cloud.status().children.len() == 1).then_some(())
        };
        world.until("tokens is uninstalled", is_uninstalled).await;
        world.apply(&cloud(&json!({}))).await;
        world.until_ready().await;
        let mut all = runs(world);
        all.retain(|run| !run.ends_with("mariadb"));
        assert_eq!(all, ["upgrade tokens", "uninstall tokens", "upgrade memcached"]);
    });
}
