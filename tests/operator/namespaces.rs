//! Tests an operator that has rights only in some namespaces. In other namespaces, it must ignore OpenStackDeployments,
//! and must neither install nor uninstall releases.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use osdpl_core::api::{FINALIZER, OpenStackDeployment, reason};
use serde_json::json;

use k8s_openapi::api::core::v1::{Namespace, Secret};

use crate::cloud::{NAME, StatusAccess, services};
use crate::helm::Run;
use crate::pool::TEST_LABEL;
use crate::world::{World, run_test, with_timeout};

/// Creates an OpenStackDeployment in a new namespace in which the operator has no rights. Returns the namespace's name
/// and the API of its OpenStackDeployments.
async fn create_elsewhere(world: &World, finalizers: &[&str]) -> (String, Api<OpenStackDeployment>) {
    let namespace = format!("{}-tenant", world.namespace);
    let object =
        serde_json::from_value(json!({"metadata": {"name": namespace, "labels": {TEST_LABEL: "true"}}})).unwrap();
    Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &object).await.unwrap();
    let clouds: Api<OpenStackDeployment> = Api::namespaced(world.client.clone(), &namespace);
    let object = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
        "metadata": {"name": NAME, "finalizers": finalizers}, "spec": services(&["memcached"]),
    });
    let object = serde_json::from_value(object).unwrap();
    clouds.create(&PostParams::default(), &object).await.unwrap();
    (namespace, clouds)
}

/// Waits until the Ready condition of the OpenStackDeployment in the other namespace says why the operator ignores it,
/// in a message that contains `part`. Returns the message.
async fn until_ignored(clouds: &Api<OpenStackDeployment>, part: &str) -> String {
    let is_ignored = |cloud: Option<&OpenStackDeployment>| {
        cloud.is_some_and(|cloud| cloud.reason() == reason::OUTSIDE && ready_message(cloud).contains(part))
    };
    let found = await_condition(clouds.clone(), NAME, is_ignored);
    let cloud = with_timeout("the status says why the operator ignores the resource", found).await.unwrap().unwrap();
    ready_message(&cloud)
}

/// Returns the message of the Ready condition. Tests use this message, because `status.message` may be shortened.
fn ready_message(cloud: &OpenStackDeployment) -> String {
    cloud.condition("Ready").map(|ready| ready.message).unwrap_or_default()
}

#[test]
fn ignores_a_resource_in_another_namespace() {
    run_test("outside", async |world| {
        // Create an older OpenStackDeployment in a namespace in which the operator has no rights. Normally, the
        // operator manages the oldest OpenStackDeployment. Here, it must manage the test's OpenStackDeployment instead.
        let (tenant, clouds) = create_elsewhere(world, &[]).await;
        let _operator = world.operator().start().await;
        let message = until_ignored(&clouds, "").await;
        assert!(message.starts_with("metadata.namespace: "), "{message}");
        assert!(message.contains(&format!("only in the namespaces {};", world.namespace)), "{message}");
        assert!(message.contains(&format!("add {tenant} to `namespaces`")), "{message}");
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 1);
        assert!(clouds.get(NAME).await.unwrap().finalizers().is_empty());
        clouds.delete(NAME, &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn keeps_the_finalizer_of_a_resource_in_another_namespace() {
    run_test("outside-deleted", async |world| {
        let (_, clouds) = create_elsewhere(world, &[FINALIZER]).await;
        clouds.delete(NAME, &DeleteParams::default()).await.unwrap();
        let _operator = world.operator().start().await;
        let message = until_ignored(&clouds, "finalizer").await;
        assert!(message.contains("the cloud may still run"), "{message}");
        assert_eq!(clouds.get(NAME).await.unwrap().finalizers(), [FINALIZER]);
        let loose = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        clouds.patch(NAME, &PatchParams::default(), &loose).await.unwrap();
    });
}

#[test]
fn refuses_only_the_release_in_another_namespace() {
    run_test("placed", async |world| {
        let elsewhere = format!("{}-cache", world.namespace);
        let mut spec = services(&["mariadb", "memcached"]);
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"namespace": elsewhere});
        let operator = world.operator().start().await;
        world.apply(&spec).await;
        let message = world
            .until("the status names the namespace of memcached", |cloud| {
                let message = ready_message(cloud);
                let is_installed = cloud.child("mariadb").status == "deployed";
                (is_installed && message.contains(&elsewhere)).then_some(message)
            })
            .await;
        assert!(message.contains("spec.services.memcached.releases.memcached.namespace: "), "{message}");
        assert!(message.contains(&format!("add {elsewhere} to `namespaces`")), "{message}");
        assert_eq!(world.helm_runs().len(), 1, "helm must run only for mariadb");
        assert!(operator.stop().await.success());

        // Grant the operator rights in memcached's namespace. The cloud must then become Ready.
        world.permit(&elsewhere).await;
        let operator = world.operator().start().await;
        world.until_ready().await;
        assert!(operator.stop().await.success());

        // Take the rights away again. Without them, the operator can't uninstall memcached. So it must not install
        // memcached in another namespace, and the deletion of the cloud must wait.
        world.forbid(&elsewhere).await;
        let _operator = world.operator().start().await;
        spec["services"]["memcached"] = json!({"enabled": true});
        world.apply(&spec).await;
        world
            .until("memcached is not installed a second time", |cloud| {
                ready_message(cloud).contains(&format!("can't manage helm release {elsewhere}/memcached")).then_some(())
            })
            .await;
        world.delete().await;
        world
            .until("the deletion waits for memcached", |cloud| {
                ready_message(cloud).contains(&format!("helm release {elsewhere}/memcached")).then_some(())
            })
            .await;
        let records: Api<Secret> = Api::namespaced(world.client.clone(), &elsewhere);
        assert!(records.get_opt("sh.helm.release.v1.memcached.v1").await.unwrap().is_some());
        world.apply(&json!({"openstackRelease": "2026.1", "deletionPolicy": "Detach"})).await;
        world.until_gone().await;
    });
}

#[test]
fn deleted_namespace_does_not_block_the_deletion() {
    run_test("vanished", async |world| {
        let elsewhere = format!("{}-cache", world.namespace);
        world.permit(&elsewhere).await;
        let mut spec = services(&["mariadb", "memcached"]);
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"namespace": elsewhere});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;

        // Delete the namespace. With it, Kubernetes deletes the RoleBinding that grants the operator rights in it.
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        drop(namespaces.delete(&elsewhere, &DeleteParams::default()).await.unwrap());
        let gone = await_condition(namespaces, &elsewhere, |found: Option<&Namespace>| found.is_none());
        drop(with_timeout("the namespace is deleted", gone).await.unwrap());
        world.allow_errors();
        world.delete().await;
        world.until_gone().await;
        let runs = world.helm_runs();
        let uninstalled: Vec<_> = runs.iter().filter(|run| run.verb() == "uninstall").map(Run::release).collect();
        assert_eq!(uninstalled, ["mariadb"]);
    });
}
