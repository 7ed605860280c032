//! Faults, from the fault to the line that a person reads and back.

use cluster::Rule;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};

use crate::cloud::{Told, services};
use crate::world::story;

#[test]
fn who_waits_for_a_database_without_an_image_is_told_with_the_image() {
    story("cause", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&["keystone", "mariadb", "memcached", "rabbitmq"])).await;
        world.until_ready().await;
        let fault = Rule::new(&world.namespace, "mariadb-server", "image-pull-error");
        world.cluster().behaviour("no-image", &fault).await.unwrap();
        let pods = world.api::<Pod>();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let name = pod.name_any();
            if name.starts_with("mariadb-server") || name.starts_with("keystone-api") {
                pods.delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
        let told = world
            .until("keystone is told with what it waits for", |cloud| {
                let health = cloud.status().health;
                let reason = health.get("keystone")?.get("api")?.reason.clone();
                (reason.starts_with("waits for mariadb/server: ")).then(|| (reason, cloud.clone()))
            })
            .await;
        let (reason, cloud) = told;
        let root = cloud.status().health["mariadb"]["server"].reason.clone();
        assert!(root.starts_with("mariadb-server-0: ImagePullBackOff "), "{root}");
        assert_eq!(reason, format!("waits for mariadb/server: {root}"));
        let degraded = cloud.condition("Degraded").unwrap();
        assert!(degraded.status == "True" && degraded.message.contains(&root), "{degraded:?}");

        world.cluster().mend("no-image").await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 4);
    });
}
