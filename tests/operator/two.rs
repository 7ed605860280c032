//! Two clouds in one cluster: the older rules.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, reason};
use serde_json::{Value, json};

use crate::cloud::{NAME, Told, services};
use crate::world::{patience, story};

#[test]
fn of_two_clouds_the_older_rules_and_the_other_is_promoted_when_it_is_gone() {
    story("two", async |world| {
        // Two of the same second: the one with the smaller uid counts as older.
        let age = |cloud: &OpenStackDeployment| (cloud.creation_timestamp(), cloud.uid());
        let mut clouds = [
            (world.apply_as(NAME, &services(&["memcached"])).await, "memcached"),
            (world.apply_as("cumulus", &services(&["mariadb"])).await, "mariadb"),
        ];
        clouds.sort_by_key(|(cloud, _)| age(cloud));
        let [(older, first), (younger, second)] = clouds.map(|(cloud, release)| (cloud.name_any(), release));
        let _operator = world.operator().start().await;
        world.until_of(&older, "the older rules", |cloud| cloud.is_ready().then_some(())).await;
        let told = world
            .until_of(&younger, "the other is told so", |cloud| {
                (cloud.reason() == reason::OLDER_RESOURCE).then(|| cloud.status().message)
            })
            .await;
        assert!(told.starts_with(&format!("{}/{older} is older", world.namespace)), "{told}");
        assert_eq!(world.helm_runs().len(), 1);

        world.delete_of(&older).await;
        world.until_of(&younger, "it rules", |cloud| cloud.is_ready().then_some(())).await;
        let runs: Vec<_> = world.helm_runs().iter().map(|run| format!("{} {}", run.verb(), run.release())).collect();
        assert_eq!(runs, [format!("upgrade {first}"), format!("uninstall {first}"), format!("upgrade {second}")]);
    });
}

#[test]
fn one_that_waits_is_promoted_though_the_other_leaves_nothing_whose_end_is_told() {
    story("nothing", async |world| {
        let mut spec = services(&["memcached"]);
        spec["paused"] = json!(true);
        let mut clouds = [world.apply_as(NAME, &spec).await, world.apply_as("cumulus", &spec).await];
        clouds.sort_by_key(|cloud| (cloud.creation_timestamp(), cloud.uid()));
        let [older, younger] = clouds.map(|cloud| cloud.name_any());
        let _operator = world.operator().start().await;
        let is = |wanted| move |cloud: &OpenStackDeployment| (cloud.reason() == wanted).then_some(());
        world.until_of(&older, "the older rules", is(reason::PAUSED)).await;
        world.until_of(&younger, "the other is told so", is(reason::OLDER_RESOURCE)).await;
        world.delete_of(&older).await;
        world.until_of(&younger, "it rules", is(reason::PAUSED)).await;
        assert!(world.helm_runs().is_empty());
    });
}

/// Waits until the cloud of a namespace answers like this.
async fn until(client: &Client, namespace: &str, what: &str, is: impl Fn(&OpenStackDeployment) -> bool) {
    let api: Api<OpenStackDeployment> = Api::namespaced(client.clone(), namespace);
    let found = await_condition(api, NAME, |cloud: Option<&OpenStackDeployment>| cloud.is_some_and(&is));
    drop(patience(what, found).await.unwrap());
}

/// What holds data in a namespace: claims by their uid, credentials by their values.
async fn data(client: &Client, namespace: &str) -> BTreeMap<String, Value> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claims = claims.list(&ListParams::default()).await.unwrap().items.into_iter();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(osdpl_core::api::DEPLOYMENT_LABEL);
    let secrets = secrets.list(&ours).await.unwrap().items.into_iter();
    let claims = claims.map(|claim| (claim.name_any(), json!(claim.uid())));
    claims.chain(secrets.map(|secret| (secret.name_any(), json!(secret.data)))).collect()
}

#[test]
fn a_cloud_that_leaves_its_data_in_its_namespace_gives_none_of_it_to_the_one_that_is_promoted_in_another() {
    story("first", async |world| {
        let (client, first, second) = (&world.client, &world.namespace, format!("{}-second", world.namespace));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": second}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let _operator = world.operator().start().await;
        let mut spec = services(&["mariadb"]);
        spec["deletionPolicy"] = json!("Retain");
        world.apply(&spec).await;
        world.until_ready().await;
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": NAME, "namespace": second}, "spec": spec,
        });
        let clouds: Api<OpenStackDeployment> = Api::namespaced(client.clone(), &second);
        clouds.patch(NAME, &PatchParams::apply("story").force(), &Patch::Apply(object)).await.unwrap();
        until(client, &second, "the other is told so", |cloud| cloud.reason() == reason::OLDER_RESOURCE).await;
        let kept = data(client, first).await;
        assert!(kept.contains_key("mysql-data-mariadb-server-0"), "{:?}", kept.keys());
        assert_eq!(data(client, &second).await, BTreeMap::new());

        world.delete().await;
        world.until_gone().await;
        until(client, &second, "it rules", Told::is_ready).await;
        assert_eq!(data(client, first).await, kept);
        let own = data(client, &second).await;
        assert_eq!(own.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
        assert!(own.iter().all(|(name, value)| kept[name] != *value), "nothing is shared but names");
        let given = held(client, &second, "sh.helm.release.v1.mariadb.v1", osdpl_core::release::SECRET_KEY).await;
        let values = osdpl_core::release::decode(&given).unwrap().config;
        let root = held(client, &second, &format!("{NAME}-credentials-mariadb"), "root").await;
        let root = String::from_utf8(root).unwrap();
        assert_eq!(values.pointer("/endpoints/oslo_db/auth/admin/password"), Some(&json!(root)));
        clouds.delete(NAME, &DeleteParams::default()).await.unwrap();
        let gone = await_condition(clouds, NAME, |cloud: Option<&OpenStackDeployment>| cloud.is_none());
        drop(patience("the second is gone", gone).await.unwrap());
        namespaces.delete(&second, &DeleteParams::default()).await.unwrap();
    });
}

/// What a Secret holds under a key.
async fn held(client: &Client, namespace: &str, secret: &str, key: &str) -> Vec<u8> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.get(secret).await.unwrap().data.unwrap()[key].0.clone()
}
