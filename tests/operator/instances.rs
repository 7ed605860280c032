//! A cloud with instances is not deleted: the webhook refuses the request, and the operator uninstalls nothing.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::DeleteParams;
use osdpl_core::api::{DELETE_WITH_INSTANCES, OpenStackDeployment};
use serde_json::{Value, json};

use crate::cloud::{BACKENDS, NAME, StatusAccess};
use crate::fake_apis::{Behaviour, FakeApis};
use crate::hosts::{nova, without_node_dependencies};
use crate::webhook::{HOOK, Webhook};
use crate::world::{World, run_test, with_timeout};

/// Waits until the API server refuses the deletion of the test's `OpenStackDeployment`, and returns the error message.
///
/// Requests the deletion repeatedly, because the API server applies a changed webhook configuration after a delay and
/// does not report the end of the delay.
async fn until_refused(world: &World) -> String {
    let refused = async {
        loop {
            let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
            if let Err(error) = world.deployments().delete(NAME, &params).await {
                world.record_response("the deletion of the cloud", format!("{error:?}").as_bytes());
                return error.to_string();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    with_timeout("the webhook refuses the deletion", refused).await
}

/// Waits until the Ready condition says that the deletion of the cloud waits for the reason `why`. Checks that the
/// operator has uninstalled nothing.
async fn until_waiting(world: &World, why: &str) {
    let waits = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready")?.message;
        (cloud.reason() == "Deleting" && message.contains(why)).then_some(message)
    };
    let message = world.until(&format!("the deletion waits: {why}"), waits).await;
    assert!(message.contains(&format!("osdpl.dev/delete-with-instances={NAME}")), "{message}");
    assert!(world.helm_runs().iter().all(|run| run.verb() == "upgrade"), "{:?}", world.helm_runs());
}

#[test]
fn a_standby_queries_nova() {
    run_test("instances-standby", async |world| {
        let server = FakeApis::start(&["identity", "compute"]).await;
        server.nova.add_server("node-1", "web", "ACTIVE");
        let catalogue = without_node_dependencies(world);
        let setup = || world.setup_with_fake_apis(&server).catalog(&catalogue);
        let _active = setup().pod("active").start().await;
        let spec = world.with_external(nova(), &BACKENDS).await;
        world.apply(&spec).await;
        world.until_ready().await;

        let webhook = Webhook::new(world);
        let authority = webhook.write_certificate();
        let standby = setup().pod("standby").arguments(&webhook.arguments()).start().await;
        assert!(standby.readiness().starts_with("ok: standby"), "{}", standby.readiness());
        webhook.register(world, &authority).await;
        let refused = until_refused(world).await;
        assert!(refused.contains("Nova has instances, such as web-name, so nothing is uninstalled"), "{refused}");

        let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
        let delete = async || world.deployments().delete(NAME, &params).await.map(drop);
        let mut detached = spec.clone();
        detached["deletionPolicy"] = json!("Detach");
        world.apply(&detached).await;
        delete().await.expect("the standby must admit the deletion of a cloud that keeps running");
        world.apply(&spec).await;
        world.annotate(DELETE_WITH_INSTANCES, json!("another")).await;
        until_refused(world).await;
        world.annotate(DELETE_WITH_INSTANCES, json!(NAME)).await;
        delete().await.expect("the standby must admit a deletion that a person has allowed");
        world.annotate(DELETE_WITH_INSTANCES, Value::Null).await;

        server.set_behaviour("nova-api", Behaviour::Unavailable);
        let refused = until_refused(world).await;
        assert!(refused.contains("osdpl can't query Nova for instances"), "{refused}");
        server.set_behaviour("nova-api", Behaviour::Normal);
        server.nova.remove_server("web");
        delete().await.expect("the standby must admit the deletion of an empty cloud");
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        webhooks.delete(HOOK, &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn deletion_waits_until_nova_has_no_instances() {
    run_test("instances", async |world| {
        let server = FakeApis::start(&["identity", "compute"]).await;
        server.nova.add_server("node-1", "web", "ACTIVE");
        let catalogue = without_node_dependencies(world);
        let webhook = Webhook::new(world);
        let authority = webhook.write_certificate();
        let setup = world.setup_with_fake_apis(&server).catalog(&catalogue);
        let operator = setup.arguments(&webhook.arguments()).start().await;
        world.apply(&world.with_external(nova(), &BACKENDS).await).await;
        world.until_ready().await;

        webhook.register(world, &authority).await;
        let refused = until_refused(world).await;
        assert!(refused.contains("Nova has instances, such as web-name, so nothing is uninstalled"), "{refused}");
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        webhooks.delete(HOOK, &DeleteParams::default()).await.unwrap();

        world.delete_named(NAME).await;
        until_waiting(world, "Nova has instances, such as web-name").await;
        operator.kill();
        server.set_behaviour("nova-api", Behaviour::Unavailable);
        // The operator must ask Nova for instances even if the user disables the operator's probes of service APIs.
        let without_probes = world.setup_with_fake_apis(&server).catalog(&catalogue).arguments(&["--probes", "false"]);
        let _operator = without_probes.start().await;
        until_waiting(world, "osdpl can't query Nova for instances").await;
        server.set_behaviour("nova-api", Behaviour::Normal);
        until_waiting(world, "Nova has instances, such as web-name").await;
        server.nova.remove_server("web");
        world.until_gone().await;
    });
}
