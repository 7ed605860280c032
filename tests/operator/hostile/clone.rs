//! A backup tool clones the namespace of a cloud: the OpenStackDeployment with its finalizer, the Secrets, the release
//! records and other objects. Neither the clone nor the deletion of the clone may change the original cloud.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, reason};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{World, run_test, with_timeout};

const SMALL: [&str; 3] = ["mariadb", "memcached", "rabbitmq"];

/// Copies all objects of the kind `K` from the cloud's namespace to the namespace `to`, except for objects whose names
/// already exist there. Returns the number of copies.
async fn copy<K>(world: &World, to: &str) -> usize
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize
        + 'static,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), to);
    let mut copies = 0;
    for object in world.api::<K>().list(&ListParams::default()).await.unwrap() {
        let mut copy = serde_json::to_value(&object).unwrap();
        let metadata = copy["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| ["name", "labels", "annotations", "finalizers"].contains(&key.as_str()));
        copy.as_object_mut().unwrap().remove("status");
        if let Some(spec) = copy.get_mut("spec").and_then(Value::as_object_mut)
            && spec.get("clusterIP").is_none_or(|address| address != "None")
        {
            spec.retain(|key, _| !key.starts_with("clusterIP"));
        }
        match api.create(&PostParams::default(), &serde_json::from_value(copy).unwrap()).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => {
                created.unwrap();
                copies += 1;
            }
        }
    }
    copies
}

/// Returns the uid of the ClusterRole that the values of memcached add to its release. The cloned release record lists
/// this ClusterRole, too. So if the operator uninstalled the cloned release, helm would delete the ClusterRole.
async fn cluster_role(world: &World) -> Option<String> {
    Api::<ClusterRole>::all(world.client.clone()).get(&world.namespace).await.unwrap().uid()
}

#[test]
fn cloned_namespace_and_its_deletion_change_nothing() {
    run_test("cloned", async |world| {
        let second = format!("{}-copy", world.namespace);
        world.permit(&second).await;
        let _operator = world.operator().start().await;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": world.namespace}, "rules": [],
        });
        let objects = json!({"extraObjects": {"role": role}});
        let mut spec = with_values(services(&SMALL), "memcached", objects.clone());
        spec["approval"] = json!("Automatic");
        world.apply(&spec).await;
        world.until_ready().await;
        let (credentials, role) = (world.all_credentials().await, cluster_role(world).await);

        let secrets = copy::<Secret>(world, &second).await;
        assert!(secrets > SMALL.len(), "the test must clone release records and credentials");
        copy::<ConfigMap>(world, &second).await;
        copy::<Service>(world, &second).await;
        copy::<Role>(world, &second).await;
        let sets = copy::<StatefulSet>(world, &second).await;
        assert_eq!(copy::<OpenStackDeployment>(world, &second).await, 1);
        let clones: Api<OpenStackDeployment> = Api::namespaced(world.client.clone(), &second);
        let is_ignored =
            |clone: Option<&OpenStackDeployment>| clone.is_some_and(|clone| clone.reason() == reason::OLDER_RESOURCE);
        let ignored = await_condition(clones.clone(), NAME, is_ignored);
        drop(with_timeout("the operator ignores the clone", ignored).await.unwrap());
        let mut changed = objects;
        changed["conf"] = json!({"memcached": {"memory": 300}});
        world.apply(&with_values(spec.clone(), "memcached", changed)).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then(|| cloud.status())
        };
        let status = world.until("memcached is upgraded", is_upgraded).await;
        assert_eq!(status.children.keys().collect::<Vec<_>>(), SMALL, "the status must list no cloned release");

        clones.delete(NAME, &DeleteParams::default()).await.unwrap();
        let gone = await_condition(clones, NAME, |clone: Option<&OpenStackDeployment>| clone.is_none());
        drop(with_timeout("the clone is deleted", gone).await.unwrap());
        spec["approval"] = json!("Manual");
        world.apply(&spec).await;
        world.until_ready().await;
        assert!(world.helm_runs().iter().all(|run| run.verb() == "upgrade"), "{:?}", world.helm_runs());
        assert_eq!((world.all_credentials().await, cluster_role(world).await), (credentials, role));

        // The cloned OpenStackDeployment is deleted, but the other cloned objects still exist. When the original cloud
        // is deleted, the operator must not delete them.
        spec["deletionPolicy"] = json!("Purge");
        world.apply(&spec).await;
        world.until_ready().await;
        world.delete().await;
        world.until_gone().await;
        let left: Api<Secret> = Api::namespaced(world.client.clone(), &second);
        assert!(left.list(&ListParams::default()).await.unwrap().items.len() >= secrets);
        let left: Api<StatefulSet> = Api::namespaced(world.client.clone(), &second);
        assert_eq!(left.list(&ListParams::default()).await.unwrap().items.len(), sets);
    });
}
