//! Tests an OpenStackDeployment that the operator can't read, because its values are nested too deeply. Such an
//! OpenStackDeployment must not affect other OpenStackDeployments.

use axum::http::Request;
use kube::Api;
use kube::api::{Patch, PatchParams};
use osdpl_client::Stored;
use osdpl_core::api::{OpenStackDeployment, condition, reason};
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services};
use crate::world::{World, run_test};

/// The number of nested lists in the resource. The API server accepts any depth, but osdpl reads at most 100 levels.
const DEPTH: usize = 5000;

const DEEP: &str = "zenith";

/// Creates a resource whose values are nested too deeply.
async fn create_deep_resource(world: &World) {
    let nested = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let metadata = json!({"name": DEEP, "namespace": world.namespace});
    let spec = r#""openstackRelease": "2026.1", "presets": ["small"]"#;
    let body = format!(
        r#"{{"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {metadata},
            "spec": {{{spec}, "common": {{"values": {{"deep": {nested}}}}}}}}}"#
    );
    let path = format!("/apis/osdpl.dev/v1alpha1/namespaces/{}/openstackdeployments", world.namespace);
    let request = Request::post(path).header("Content-Type", "application/json").body(body.into_bytes()).unwrap();
    world.client.request_text(request).await.unwrap();
}

/// Makes the values of the resource flat, so that the operator can read the resource.
async fn correct_resource(world: &World) {
    let flat = json!({"spec": {"common": {"values": {"deep": null}}}});
    let deployments: Api<Stored<OpenStackDeployment>> = Api::namespaced(world.client.clone(), &world.namespace);
    deployments.patch(DEEP, &PatchParams::default(), &Patch::Merge(flat)).await.unwrap();
}

/// The reason why osdpl can't read the resource.
const WHY: &str = "spec.common.values.deep is nested more than 100 levels deep";

#[test]
fn deeply_nested_resource_affects_only_itself() {
    run_test("unreadable-deep", async |world| {
        world.apply(&services(&["memcached"])).await;
        // Wait, so that the second resource is younger. The creation times of objects have whole seconds. With equal
        // times, either resource could take precedence.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        create_deep_resource(world).await;
        let _operator = world.operator().start().await;
        world.until_ready().await;
        let log = world.operator_log();
        assert!(log.contains(WHY), "{log}");
        for command in ["status", "plan", "wait"] {
            world.osdpl(&[command, NAME]);
            let error = world.osdpl_fails(&[command, DEEP]);
            assert!(
                error.contains(&format!("can't read OpenStackDeployment {}/{DEEP}: {WHY}", world.namespace)),
                "{error}"
            );
        }

        correct_resource(world).await;
        let is_older = |cloud: &OpenStackDeployment| (cloud.reason() == reason::OLDER_RESOURCE).then_some(());
        world.until_of(DEEP, "the operator reads the corrected resource", is_older).await;
        world.delete_named(DEEP).await;
    });
}

#[test]
fn older_deeply_nested_resource_is_named_in_the_status() {
    run_test("unreadable-older", async |world| {
        create_deep_resource(world).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        world.apply(&services(&["memcached"])).await;
        let _operator = world.operator().start().await;
        let message = world
            .until("the status names the older resource", |cloud| {
                let condition = cloud.condition(condition::READY)?;
                (condition.reason == reason::OLDER_RESOURCE).then_some(condition.message)
            })
            .await;
        let deep = format!("{}/{DEEP}", world.namespace);
        let command = format!("osdpl status {DEEP} -n {}", world.namespace);
        assert!(message.starts_with(&format!("{deep} is older")), "{message}");
        assert!(
            message
                .contains(&format!("osdpl can't run {deep} either, because its content is invalid (see `{command}`)")),
            "{message}"
        );
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        let error = world.osdpl_fails(&arguments);
        assert!(error.contains(WHY), "{error}");
        let plan = world.osdpl(&["plan", NAME]);
        assert!(plan.contains(&format!("can't read {deep} either: {WHY}")), "{plan}");
        assert!(world.helm_runs().is_empty());

        correct_resource(world).await;
        world.delete_named(DEEP).await;
        world.until_ready().await;
    });
}
