//! If a quota refuses pods or a provisioner creates no volume, the status names the reason.

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, ResourceQuota};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use osdpl_core::api::ComponentHealth;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl World {
    /// Creates a `ResourceQuota` that allows `pods` pods in the test's namespace, and waits until the quota is in
    /// effect.
    async fn allow_pods(&self, pods: u32) {
        let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": pods.to_string()}}});
        self.api::<ResourceQuota>().create(&PostParams::default(), &from_json(quota)).await.unwrap();
        let counted = |quota: Option<&ResourceQuota>| {
            quota.is_some_and(|quota| quota.status.as_ref().is_some_and(|status| status.used.is_some()))
        };
        self.until_object::<ResourceQuota>("the quota is in effect", "few", counted).await;
    }
}

#[test]
fn reports_pods_refused_by_a_quota() {
    run_test("quota", async |world| {
        let _operator = world.operator().start().await;
        // RabbitMQ's pod uses up the quota while the pods of memcached and Keystone are deleted.
        let spec = services(&["keystone", "memcached", "rabbitmq"]);
        world.apply(&world.with_external(spec, &["mariadb"]).await).await;
        world.until_ready().await;
        world.allow_pods(1).await;
        // If the quota refuses a pod of a Deployment, the Deployment has a condition with the reason. For a
        // StatefulSet, the reason is only in events. The operator must find the reason in both cases.
        world.delete_pods("memcached-").await;
        let (health, _) = world.until_reason_contains("memcached", "server", "exceeded quota: few").await;
        assert_eq!(health.status, ComponentHealth::Unhealthy);
        let prefix = "no pod can be created: forbidden: exceeded quota: few, requested: pods=1, used: pods=";
        assert!(health.reason.starts_with(prefix) && health.reason.ends_with("limited: pods=1"), "{}", health.reason);
        world.delete_pods("keystone-api-").await;
        let (health, cloud) = world.until_reason_contains("keystone", "api", "exceeded quota: few").await;
        assert!(health.reason.starts_with(prefix), "{}", health.reason);
        let causes = cloud.status().causes;
        let is_reported =
            |label: &str| causes.iter().any(|cause| cause.message.starts_with(&format!("{label}: {prefix}")));
        assert!(is_reported("memcached/server") && is_reported("keystone/api"), "{causes:?}");
        let degraded = cloud.condition("Degraded").unwrap();
        assert!(degraded.status == "True" && degraded.message.contains("exceeded quota: few"), "{degraded:?}");

        world.api::<ResourceQuota>().delete("few", &DeleteParams::default()).await.unwrap();
        assert_eq!(world.until_ready().await.status().causes, []);
    });
}

#[test]
fn reports_the_provisioner_error_of_a_volume() {
    run_test("no-capacity", async |world| {
        let class = world.namespace.as_str();
        let classes: Api<StorageClass> = Api::all(world.client.clone());
        let slow = json!({"metadata": {"name": class}, "provisioner": "full.example.com"});
        classes.create(&PostParams::default(), &from_json(slow)).await.unwrap();
        let _operator = world.operator().start().await;
        let mut spec = services(&["mariadb"]);
        spec["storageClass"] = json!(class);
        world.apply(&spec).await;
        let claim = "mysql-data-mariadb-server-0";
        world.until_object::<PersistentVolumeClaim>("the claim exists", claim, |claim| claim.is_some()).await;
        let message = "rpc error: code = ResourceExhausted desc = no capacity on any node";
        let event = json!({
            "metadata": {"generateName": "provisioning-"}, "reason": "ProvisioningFailed", "type": "Warning", "message": message,
            "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": world.namespace, "name": claim},
            "lastTimestamp": crate::world::now().to_string(),
        });
        world.api::<Event>().create(&PostParams::default(), &from_json(event)).await.unwrap();
        let (health, cloud) = world.until_reason_contains("mariadb", "server", "no capacity").await;
        let why = format!("is not bound: StorageClass {class:?} (full.example.com) creates no volume: {message}");
        assert!(health.reason.contains(&why), "{}", health.reason);
        assert!(cloud.status().causes[0].message.ends_with(message), "{:?}", cloud.status().causes);

        let volumes: Api<PersistentVolume> = Api::all(world.client.clone());
        let size = json!({"storage": "100Gi"});
        let volume = json!({"metadata": {"name": class}, "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "hostPath": {"path": "/tmp"}, "persistentVolumeReclaimPolicy": "Retain"}});
        volumes.create(&PostParams::default(), &from_json(volume)).await.unwrap();
        assert_eq!(world.until_ready().await.status().causes, []);
        volumes.delete(class, &DeleteParams::default()).await.unwrap();
        classes.delete(class, &DeleteParams::default()).await.unwrap();
    });
}
