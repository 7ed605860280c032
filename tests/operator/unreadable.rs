//! Tests an OpenStackDeployment that the operator can't read, because its values are nested too deeply. Such an
//! OpenStackDeployment must not affect other OpenStackDeployments.

use axum::http::Request;
use kube::api::{Patch, PatchParams};
use osdpl_core::api::{OpenStackDeployment, reason};
use serde_json::json;

use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

/// The number of nested lists in the resource. The API server accepts any depth, but serde refuses more than 127
/// levels.
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
        assert!(log.contains("spec.common.values.deep is nested more than 100 levels deep"), "{log}");

        let flat = json!({"spec": {"common": {"values": {"deep": null}}}});
        world.deployments().patch_metadata(DEEP, &PatchParams::default(), &Patch::Merge(flat)).await.unwrap();
        let is_older = |cloud: &OpenStackDeployment| (cloud.reason() == reason::OLDER_RESOURCE).then_some(());
        world.until_of(DEEP, "the operator reads the corrected resource", is_older).await;
        world.delete_named(DEEP).await;
    });
}
