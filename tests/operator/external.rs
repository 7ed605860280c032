//! Tests external services, which run outside of the cluster. For each external service, osdpl creates a Service
//! through which pods reach it.

use k8s_openapi::api::core::v1::{Endpoints, Secret, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use osdpl_core::api::reason;
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services};
use crate::world::run_test;

#[test]
fn pods_use_external_backends_through_services() {
    run_test("external", async |world| {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "external"}, "stringData": {"database": "external-database", "broker": "external-broker"},
        }))
        .unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        let mut spec = services(&["keystone", "mariadb", "memcached", "rabbitmq"]);
        let external = |host: &str, credential: &str, key: &str| json!({"enabled": true, "external": {"host": host}, "credentials": {credential: {"name": "external", "key": key}}});
        spec["services"]["mariadb"] = external("192.0.2.7", "root", "database");
        spec["services"]["rabbitmq"] = external("192.0.2.8", "admin", "broker");
        let foreign = json!({"metadata": {"name": "mariadb"}, "spec": {"ports": [{"name": "mysql", "port": 3306}]}});
        let foreign: Service = serde_json::from_value(foreign).unwrap();
        let foreign = world.api::<Service>().create(&PostParams::default(), &foreign).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let waiting = world.until_reason(reason::INPUTS).await;
        let message = waiting.condition("Ready").unwrap().message;
        assert!(
            message.starts_with(&format!(
                "spec.services.mariadb.external: Service {}/mariadb does not belong to this cloud",
                world.namespace
            )),
            "{message}"
        );
        let service = world.api::<Service>().get("mariadb").await.unwrap();
        assert_eq!(
            (service.spec, service.metadata.uid),
            (foreign.spec, foreign.metadata.uid),
            "the operator must not change a Service that it did not create"
        );
        world.api::<Service>().delete("mariadb", &DeleteParams::default()).await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().releases, "2/2");
        let endpoints = world.api::<Endpoints>().get("mariadb").await.unwrap();
        assert_eq!(endpoints.annotations()["osdpl.dev/host"], "192.0.2.7");
        assert_eq!(endpoints.subsets.unwrap()[0].addresses.as_ref().unwrap()[0].ip, "192.0.2.7");
        let values = world.helm_values("keystone");
        assert_eq!(values.pointer("/endpoints/oslo_db/auth/admin/password"), Some(&json!("external-database")));
        assert_eq!(values.pointer("/endpoints/oslo_messaging/auth/admin/password"), Some(&json!("external-broker")));

        world.delete().await;
        world.until_gone().await;
        world.until_object::<Service>("the Service is deleted", "mariadb", |found| found.is_none()).await;
    });
}

#[test]
fn unresolvable_external_host_keeps_existing_endpoints() {
    run_test("external-host", async |world| {
        let metadata = json!({"name": "memcached", "labels": {"osdpl.dev/deployment": format!("{}.{NAME}", world.namespace)}, "annotations": {"osdpl.dev/host": "cache.invalid"}});
        let ports = json!([{"name": "memcache", "port": 11211}]);
        let service = json!({"metadata": metadata, "spec": {"clusterIP": "None", "ports": ports}});
        let service: Service = serde_json::from_value(service).unwrap();
        world.api().create(&PostParams::default(), &service).await.unwrap();
        let subsets = json!([{"addresses": [{"ip": "192.0.2.9"}], "ports": ports}]);
        let existing: Endpoints = serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap();
        let existing = world.api().create(&PostParams::default(), &existing).await.unwrap();
        let mut spec = services(&["mariadb", "memcached"]);
        spec["services"]["memcached"]["external"] = json!({"host": "cache.invalid"});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let message = world.until_ready().await.condition("Ready").unwrap().message;
        let warning = "warning: spec.services.memcached.external.host: cache.invalid ";
        assert!(message.contains(warning) && message.contains("pods use 192.0.2.9"), "{message}");
        let endpoints = world.api::<Endpoints>().get("memcached").await.unwrap();
        assert_eq!(endpoints.subsets, existing.subsets);

        spec["services"]["memcached"]["external"] = json!({"host": "other.invalid"});
        world.apply(&spec).await;
        let message = world.until_reason(reason::INPUTS).await.condition("Ready").unwrap().message;
        assert!(message.starts_with("spec.services.memcached.external.host: other.invalid "), "{message}");
    });
}

#[test]
fn switching_to_an_external_backend_needs_approval() {
    run_test("external-switch", async |world| {
        let internal = world.with_external(services(&["keystone", "memcached"]), &["mariadb", "rabbitmq"]).await;
        let _operator = world.operator().start().await;
        world.apply(&internal).await;
        world.until_ready().await;
        let addresses = async || {
            let endpoints = world.api::<Endpoints>().get("memcached").await.unwrap();
            let subsets = endpoints.subsets.unwrap_or_default();
            let all = subsets.into_iter().flat_map(|subset| subset.addresses.unwrap_or_default());
            all.map(|address| address.ip).collect::<Vec<_>>()
        };
        let own = addresses().await;

        let mut external = internal.clone();
        external["services"]["memcached"] = json!({"enabled": true, "external": {"host": "192.0.2.9"}});
        world.apply(&external).await;
        let waiting = world.until_reason(reason::APPROVAL).await;
        assert_eq!(waiting.child("keystone").revision, Some(1), "{:?}", waiting.child("keystone"));
        assert_eq!(addresses().await, own, "the operator must not change the addresses before the approval");
        world.osdpl(&["approve"]);
        assert_eq!(world.until_ready().await.status().releases, "1/1");
        assert_eq!(addresses().await, ["192.0.2.9"]);

        world.apply(&internal).await;
        assert_eq!(world.until_ready().await.status().releases, "2/2");
        assert!(!addresses().await.contains(&"192.0.2.9".to_owned()));
    });
}
