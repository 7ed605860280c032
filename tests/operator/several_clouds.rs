//! Tests two OpenStackDeployments in one cluster. As long as the older one exists, the operator manages only the older
//! one, and the status of the younger one names the older one. Also tests an OpenStackDeployment that takes the place
//! of a deleted one of the same name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, PersistentVolumeClaim, Secret, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use osdpl_core::api::{APPROVE, OpenStackDeployment, reason};
use serde_json::{Value, json};

use crate::cloud::{BACKENDS, NAME, StatusAccess, services};
use crate::nodes::{COMPUTE, GATEWAY, Nodes, SWITCH};
use crate::world::{World, run_test, with_timeout};

#[test]
fn older_cloud_takes_precedence_until_deleted() {
    run_test("several-clouds", async |world| {
        // Sort the clouds by age as the operator does. If both clouds were created in the same second, the operator
        // regards the cloud with the smaller uid as the older one.
        let creation = |cloud: &OpenStackDeployment| (cloud.creation_timestamp(), cloud.uid());
        let mut clouds = [
            (world.apply_as(NAME, &services(&["memcached"])).await, "memcached"),
            (world.apply_as("cumulus", &services(&["mariadb"])).await, "mariadb"),
        ];
        clouds.sort_by_key(|(cloud, _)| creation(cloud));
        let [(older, first), (younger, second)] = clouds.map(|(cloud, release)| (cloud.name_any(), release));
        let _operator = world.operator().start().await;
        world.until_of(&older, "the older cloud is Ready", |cloud| cloud.is_ready().then_some(())).await;
        let message = world
            .until_of(&younger, "the younger cloud's status names the older cloud", |cloud| {
                (cloud.reason() == reason::OLDER_RESOURCE).then(|| cloud.status().message)
            })
            .await;
        assert!(message.starts_with(&format!("{}/{older} is older", world.namespace)), "{message}");
        assert_eq!(world.helm_runs().len(), 1);

        world.delete_named(&older).await;
        world.until_of(&younger, "the younger cloud is Ready", |cloud| cloud.is_ready().then_some(())).await;
        let runs: Vec<_> = world.helm_runs().iter().map(|run| format!("{} {}", run.verb(), run.release())).collect();
        assert_eq!(runs, [format!("upgrade {first}"), format!("uninstall {first}"), format!("upgrade {second}")]);
    });
}

#[test]
fn promotes_the_next_cloud_after_a_deletion_without_helm_runs() {
    run_test("several-promoted", async |world| {
        let mut spec = services(&["memcached"]);
        spec["paused"] = json!(true);
        let mut clouds = [world.apply_as(NAME, &spec).await, world.apply_as("cumulus", &spec).await];
        clouds.sort_by_key(|cloud| (cloud.creation_timestamp(), cloud.uid()));
        let [older, younger] = clouds.map(|cloud| cloud.name_any());
        let _operator = world.operator().start().await;
        let is = |wanted| move |cloud: &OpenStackDeployment| (cloud.reason() == wanted).then_some(());
        world.until_of(&older, "the older cloud's status has the reason Paused", is(reason::PAUSED)).await;
        world.until_of(&younger, "the younger cloud's status names the older cloud", is(reason::OLDER_RESOURCE)).await;
        world.delete_named(&older).await;
        world.until_of(&younger, "the younger cloud's status has the reason Paused", is(reason::PAUSED)).await;
        assert!(world.helm_runs().is_empty());
    });
}

/// Waits until the OpenStackDeployment in this namespace satisfies the predicate, and returns it.
async fn until(
    client: &Client,
    namespace: &str,
    what: &str,
    is: impl Fn(&OpenStackDeployment) -> bool,
) -> OpenStackDeployment {
    let api: Api<OpenStackDeployment> = Api::namespaced(client.clone(), namespace);
    let found = await_condition(api, NAME, |cloud: Option<&OpenStackDeployment>| cloud.is_some_and(&is));
    with_timeout(what, found).await.unwrap().unwrap()
}

/// Returns the data of a cloud in a namespace: the uid of each PersistentVolumeClaim, and the content of each Secret of
/// osdpl. The keys of the returned map are the names of these objects.
async fn data(client: &Client, namespace: &str) -> BTreeMap<String, Value> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claims = claims.list(&ListParams::default()).await.unwrap().items.into_iter();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(osdpl_core::api::DEPLOYMENT_LABEL);
    let secrets = secrets.list(&ours).await.unwrap().items.into_iter();
    let claims = claims.map(|claim| (claim.name_any(), json!(claim.uid())));
    claims.chain(secrets.map(|secret| (secret.name_any(), json!(secret.data)))).collect()
}

/// Applies an OpenStackDeployment in a namespace. Its name is [`NAME`] in each namespace.
async fn apply_in(client: &Client, namespace: &str, spec: &Value) -> Api<OpenStackDeployment> {
    let object = json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
        "metadata": {"name": NAME, "namespace": namespace}, "spec": spec,
    });
    let clouds: Api<OpenStackDeployment> = Api::namespaced(client.clone(), namespace);
    clouds.patch(NAME, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    clouds
}

/// Deletes the OpenStackDeployment in the second namespace.
async fn delete_in_second(clouds: Api<OpenStackDeployment>) {
    clouds.delete(NAME, &DeleteParams::default()).await.unwrap();
    let gone = await_condition(clouds, NAME, |cloud: Option<&OpenStackDeployment>| cloud.is_none());
    drop(with_timeout("the cloud in the second namespace is deleted", gone).await.unwrap());
}

#[test]
fn cloud_keeps_the_objects_of_a_detached_cloud_with_its_name() {
    run_test("several-detached", async |world| {
        let second = format!("{}-second", world.namespace);
        world.permit(&second).await;
        let mut nodes = Nodes::of(world);
        let node = nodes.add("shared", json!({})).await;
        let _operator = world.operator().start().await;
        world.describe_ceph(json!({})).await;
        let mut spec = cloud_with_objects(world, &node).await;
        spec["deletionPolicy"] = json!("Detach");
        world.apply(&spec).await;
        world.until_ready().await;
        world.delete().await;
        world.until_gone().await;

        let kept = kept_objects(world).await;
        let first_labels = nodes.until_labels(&node, &[COMPUTE, SWITCH]).await;
        let mut other = services(&["memcached", "rabbitmq"]);
        // The first cloud's memcached has another host.
        other["services"]["memcached"]["external"] = json!({"host": "192.0.2.8"});
        // The first cloud has already set one of the labels that the second cloud sets on this node. With
        // `approval: Automatic`, the operator may later remove the second cloud's labels without waiting for a person.
        let gateway = json!({"names": [node.clone()]});
        let rollout = json!({"approval": "Automatic", "batchSize": "100%", "pauseSeconds": 0});
        other["nodes"] = json!({"roles": {"gateway": gateway}, "rollout": rollout});
        let clouds = apply_in(&world.client, &second, &other).await;
        until(&world.client, &second, "the second cloud is Ready", StatusAccess::is_ready).await;
        assert_eq!(kept_objects(world).await, kept);
        let both = nodes.until_labels(&node, &[COMPUTE, SWITCH, GATEWAY]).await;
        assert!(both.contains(&first_labels), "{both}");
        assert!(both.contains(&format!("{second}.{NAME},l3-agent=enabled,openvswitch=enabled")), "{both}");
        delete_in_second(clouds).await;
        assert_eq!(kept_objects(world).await, kept);
        assert_eq!(nodes.until_labels(&node, &[COMPUTE, SWITCH]).await, first_labels);
        nodes.remove_all().await;
    });
}

/// Returns a spec for which osdpl writes objects outside of releases: labels of a node, objects of Ceph, and the
/// Services of external backends.
async fn cloud_with_objects(world: &World, node: &str) -> Value {
    let mut spec = world.with_external(services(&["keystone", "glance"]), &BACKENDS).await;
    spec["nodes"] = json!({"roles": {"compute": {"names": [node]}}});
    spec["features"] = crate::ceph::spec()["features"].clone();
    spec
}

/// While no operator runs, somebody deletes the resource and creates it again, as a restore from a backup does. The new
/// resource has another uid and no status, but is the same cloud.
#[test]
fn recreated_resource_keeps_the_objects_of_its_cloud() {
    run_test("several-recreated", async |world| {
        let mut nodes = Nodes::of(world);
        let node = nodes.add("restored", json!({})).await;
        let operator = world.operator().start().await;
        world.describe_ceph(json!({})).await;
        let spec = cloud_with_objects(world, &node).await;
        world.apply(&spec).await;
        let uid = world.until_ready().await.uid();
        let kept = kept_objects(world).await;
        let labels = nodes.until_labels(&node, &[COMPUTE, SWITCH]).await;
        let runs = world.helm_runs();

        operator.kill();
        world.delete().await;
        let loose = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        world.deployments().patch(NAME, &PatchParams::default(), &loose).await.unwrap();
        world.until_gone().await;
        world.apply(&spec).await;
        let _operator = world.operator().start().await;
        assert_ne!(world.until_ready().await.uid(), uid);
        assert_eq!(kept_objects(world).await, kept);
        assert_eq!(nodes.until_labels(&node, &[COMPUTE, SWITCH]).await, labels);
        assert_eq!(world.helm_runs(), runs);
        nodes.remove_all().await;
    });
}

/// Returns the uid and the content of each object that osdpl wrote for Ceph (its configuration and Glance's keyring)
/// and for the external memcached.
pub async fn kept_objects(world: &World) -> Vec<(Option<String>, Value)> {
    let map = world.api::<ConfigMap>().get("ceph-etc").await.unwrap();
    let keyring = world.api::<Secret>().get("images-rbd-keyring").await.unwrap();
    let service = world.api::<Service>().get("memcached").await.unwrap();
    let endpoints = world.api::<Endpoints>().get("memcached").await.unwrap();
    vec![
        (map.uid(), json!(map.data)),
        (keyring.uid(), json!(keyring.data)),
        (service.uid(), json!(service.spec)),
        (endpoints.uid(), json!(endpoints.subsets)),
    ]
}

#[test]
fn promoted_cloud_gets_no_data_of_another_namespace() {
    run_test("several-data", async |world| {
        let (client, first, second) = (&world.client, &world.namespace, format!("{}-second", world.namespace));
        world.permit(&second).await;
        let _operator = world.operator().start().await;
        let mut spec = services(&["mariadb"]);
        spec["deletionPolicy"] = json!("Retain");
        world.apply(&spec).await;
        world.until_ready().await;
        let clouds = apply_in(client, &second, &spec).await;
        until(client, &second, "the younger cloud's status names the older cloud", |cloud| {
            cloud.reason() == reason::OLDER_RESOURCE
        })
        .await;
        let first_data = data(client, first).await;
        assert!(first_data.contains_key("mysql-data-mariadb-server-0"), "{:?}", first_data.keys());
        assert_eq!(data(client, &second).await, BTreeMap::new());

        world.delete().await;
        world.until_gone().await;
        // The older cloud's mariadb has left its CRDs behind. The younger cloud needs an approval to take them over.
        let waits = |cloud: &OpenStackDeployment| cloud.reason() == reason::APPROVAL;
        let cloud = until(client, &second, "the younger cloud waits for the approval to take over CRDs", waits).await;
        let approval = json!({"metadata": {"annotations": {APPROVE: cloud.status().approval}}});
        clouds.patch(NAME, &PatchParams::default(), &Patch::Merge(approval)).await.unwrap();
        until(client, &second, "the younger cloud is Ready", StatusAccess::is_ready).await;
        assert_eq!(data(client, first).await, first_data);
        let second_data = data(client, &second).await;
        assert_eq!(second_data.keys().collect::<Vec<_>>(), first_data.keys().collect::<Vec<_>>());
        assert!(
            second_data.iter().all(|(name, value)| first_data[name] != *value),
            "the claims and credentials of the second cloud must differ from those of the first cloud"
        );
        let record =
            secret_value(client, &second, "sh.helm.release.v1.mariadb.v1", osdpl_core::release::SECRET_KEY).await;
        let values = osdpl_core::release::decode_values(&record).unwrap();
        let root = secret_value(client, &second, &format!("{NAME}-credentials-mariadb"), "root").await;
        let root = String::from_utf8(root).unwrap();
        assert_eq!(values["endpoints"]["oslo_db"]["auth"]["admin"]["password"], json!(root));
        delete_in_second(clouds).await;
    });
}

/// Returns the value of a key in a Secret.
async fn secret_value(client: &Client, namespace: &str, secret: &str, key: &str) -> Vec<u8> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.get(secret).await.unwrap().data.unwrap()[key].0.clone()
}
