//! Tests threats to credentials: someone deletes or edits the Secrets that contain them, or the API server is down. The
//! operator must keep the passwords and the values of releases.

use std::time::Duration;

use cluster::Component;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services};
use crate::world::{World, run_test, with_timeout};

const MARIADB: &str = "mariadb";

fn secret() -> String {
    format!("{NAME}-credentials-{MARIADB}")
}

#[test]
fn restores_an_edited_secret_without_upgrades() {
    run_test("credentials-edited", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&[MARIADB])).await;
        world.until_ready().await;
        world.allow_errors();
        let before = world.credentials(MARIADB).await;
        let edited = Patch::Merge(json!({"stringData": {"root": "edited-by-hand"}}));
        let kubectl = PatchParams { field_manager: Some("kubectl-patch".into()), ..PatchParams::default() };
        let edited_secret = world.api::<Secret>().patch(&secret(), &kubectl, &edited).await.unwrap();
        let is_changed_back = |found: Option<&Secret>| {
            found.is_some_and(|found| found.metadata.resource_version != edited_secret.metadata.resource_version)
        };
        world.until_object::<Secret>("the Secret is restored", &secret(), is_changed_back).await;
        assert_eq!(world.credentials(MARIADB).await, before);
        let unlabelled = Patch::Merge(json!({"metadata": {"labels": {osdpl_core::api::DEPLOYMENT_LABEL: null}}}));
        world.api::<Secret>().patch(&secret(), &kubectl, &unlabelled).await.unwrap();
        let has_label = |found: Option<&Secret>| {
            found.is_some_and(|found| found.labels().contains_key(osdpl_core::api::DEPLOYMENT_LABEL))
        };
        world.until_object::<Secret>("the Secret has the operator's label again", &secret(), has_label).await;
        assert_eq!(world.credentials(MARIADB).await, before);
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 1);
        let restored = async {
            loop {
                let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
                match events.into_iter().find(|event| event.reason.as_deref() == Some("CredentialRestored")) {
                    Some(event) => return event,
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let event = with_timeout("an event reports the restored credential", restored).await;
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.related.and_then(|secret| secret.name), Some(secret()));
        let note = event.message.unwrap();
        assert!(note.contains("restored root") && note.contains("spec.services.mariadb.credentials"), "{note}");
    });
}

#[test]
fn restores_credentials_deleted_during_an_install() {
    run_test("credentials-deleted", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&[MARIADB])).await;
        world.until("helm starts for mariadb", |cloud| (cloud.child(MARIADB).status == "starting").then_some(())).await;
        let labelled = ListParams::default().labels(osdpl_core::api::DEPLOYMENT_LABEL);
        let secrets: Api<Secret> = world.api();
        secrets.delete_collection(&DeleteParams::default(), &labelled).await.unwrap();
        world.until_object::<Secret>("the Secret is restored", &secret(), |found| found.is_some()).await;
        world.until_ready().await;
        let root = world.credentials(MARIADB).await["root"].clone();
        assert_eq!(world.helm_values(MARIADB).pointer("/endpoints/oslo_db/auth/admin/password"), Some(&json!(root)));
        assert_eq!(world.helm_runs().len(), 1, "helm must run only once, because no password has changed");
    });
}

#[test]
fn keeps_the_value_of_an_unreferenced_secret() {
    run_test("credentials-unreferenced", async |world| {
        let mut spec = services(&[MARIADB]);
        let mut operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let own: Secret =
            serde_json::from_value(json!({"metadata": {"name": "own"}, "stringData": {"root": "0wn-password"}}))
                .unwrap();
        world.api().create(&PostParams::default(), &own).await.unwrap();
        let unreferenced = spec.clone();
        spec["services"][MARIADB]["credentials"] = json!({"root": {"name": "own", "key": "root"}});
        for spec in [spec, unreferenced] {
            // Restart the operator at each change of the spec, so that the operator has no previous password in memory.
            operator.kill();
            let generation = world.apply(&spec).await.metadata.generation;
            operator = world.operator().start().await;
            let current = |cloud: &OpenStackDeployment| {
                (cloud.status().observed_generation == generation && cloud.is_ready()).then_some(())
            };
            world.until("the new operator has observed the spec and the cloud is Ready", current).await;
            let root = world.helm_values(MARIADB).pointer("/endpoints/oslo_db/auth/admin/password").cloned();
            assert_eq!(root, Some(json!("0wn-password")));
            assert_eq!(world.helm_runs().len(), 2);
        }
        let is_current = |ours: Option<&Secret>| {
            let data = ours.and_then(|ours| ours.data.as_ref()).unwrap();
            data["root"].0 == b"0wn-password"
        };
        world
            .until_object::<Secret>("osdpl's Secret for credentials has mariadb's password", &secret(), is_current)
            .await;
        assert_eq!(world.helm_runs().len(), 2);
    });
}

/// Creates a `ConfigMap` with values of memcached, and returns a spec in which memcached's `valuesFrom` names the
/// `ConfigMap` as optional.
async fn spec_with_values_from(world: &World) -> serde_json::Value {
    let values: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "given"}, "data": {"values.yaml": "conf: {memcached: {memory: 333}}"},
    }))
    .unwrap();
    world.api().create(&PostParams::default(), &values).await.unwrap();
    let mut spec = services(&["memcached"]);
    let source = json!([{"kind": "ConfigMap", "name": "given", "optional": true}]);
    spec["services"]["memcached"]["releases"]["memcached"]["valuesFrom"] = source;
    spec
}

#[test]
fn unreadable_values_are_not_treated_as_missing() {
    run_test("values-unreadable", async |world| {
        let spec = spec_with_values_from(world).await;
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 333);
        world.allow_errors();
        world.cluster().kill(Component::Apiserver).await.unwrap();
        world.cluster().restart(Component::Apiserver).await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 1);
    });
}
