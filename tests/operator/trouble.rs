//! Missing, failed and external parts of a cloud.

use std::path::Path;

use cluster::{Node, Rule};
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node as KubeNode, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{ComponentHealth, reason};
use serde_json::json;

use crate::approval::copy;
use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{now, run_test};

#[test]
fn missing_or_invalid_chart_blocks_only_its_release() {
    run_test("charts", async |world| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (charts, catalogue) = (world.folder.path().join("charts"), world.folder.path().join("catalogue"));
        for chart in ["mariadb", "memcached", "stand-in"] {
            copy(&root.join("tests/charts").join(chart), &charts.join(chart));
        }
        for part in ["values", "presets"] {
            copy(&root.join(part), &catalogue.join(part));
        }
        let digest = format!("sha256:{}", "0".repeat(64));
        let lock = format!("charts:\n  mariadb:\n    version: 2026.1.0\n    digest: {digest}\n");
        std::fs::write(catalogue.join("values/lock.yaml"), lock).unwrap();
        let _operator = world.operator().charts(&charts).catalog(&catalogue).start().await;
        world.apply(&services(&["mariadb", "memcached", "rabbitmq"])).await;
        let cloud = world
            .until("memcached is ready", |cloud| {
                (cloud.child("memcached").ready && cloud.reason() == reason::CHART).then(|| cloud.clone())
            })
            .await;
        let told = |release: &str| cloud.child(release).message;
        assert!(told("mariadb").contains(&digest), "{}", told("mariadb"));
        assert!(told("rabbitmq").contains("rabbitmq") && told("rabbitmq").contains("charts"), "{}", told("rabbitmq"));
        assert_eq!(world.helm_runs().len(), 1);
    });
}

#[test]
fn reports_daemon_set_without_matching_nodes() {
    run_test("no-nodes", async |world| {
        let nowhere = json!({"labels": {"ovs": {"node_selector_key": "nowhere"}}});
        let _operator = world.operator().start().await;
        world.apply(&with_values(services(&["openvswitch"]), "openvswitch", nowhere)).await;
        let cloud = world.until_reason(reason::NO_NODES).await;
        assert!(cloud.status().message.contains("openvswitch"), "{}", cloud.status().message);
        assert_eq!(cloud.condition("Stalled").unwrap().status, "True");
        let nodes: Api<KubeNode> = Api::all(world.client.clone());
        let name = &Node::all_in_one(1)[0].name;
        let label = |value| Patch::Merge(json!({"metadata": {"labels": {"nowhere": value}}}));
        nodes.patch(name, &PatchParams::default(), &label(json!("enabled"))).await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().health["openvswitch"]["server"].ready, "1/1");
        nodes.patch(name, &PatchParams::default(), &label(json!(null))).await.unwrap();
    });
}

#[test]
fn reports_a_failed_component_without_running_helm() {
    run_test("unhealthy", async |world| {
        // Kubernetes' timestamps have whole seconds: memcached must fail in a later second than it started, and mariadb
        // takes longer.
        let slow =
            Rule { behaviour: None, delay: Some("2s".into()), ..Rule::new(&world.namespace, "mariadb-server", "") };
        world.cluster().behaviour("slow", &slow).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        world.until_ready().await;
        let lost = Rule { behaviour: None, ready: Some(false), ..Rule::new(&world.namespace, "memcached-", "") };
        world.cluster().behaviour("lost", &lost).await.unwrap();
        let cloud = world.until_reason(reason::UNHEALTHY).await;
        let health = &cloud.status().health["memcached"]["server"];
        assert_eq!((health.status, health.ready.as_str()), (ComponentHealth::Unhealthy, "0/1"));
        assert_eq!(cloud.condition("Degraded").unwrap().status, "True");
        assert_eq!((cloud.status().components.as_str(), cloud.child("memcached").ready), ("2/3", false));
        world.cluster().remove_rule("lost").await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 2);
    });
}

#[test]
fn restores_a_lost_credential() {
    run_test("lost", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        world.until_ready().await;
        let (name, before) = (format!("{NAME}-credentials-mariadb"), world.credentials("mariadb").await);
        let secrets: Api<Secret> = world.api();
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
        world.until_object::<Secret>("the Secret is back", &name, |found| found.is_some()).await;
        assert_eq!(world.credentials("mariadb").await, before);

        operator.kill();
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
        let began = now();
        let _operator = world.operator().start().await;
        world.until_object::<Secret>("the Secret is back", &name, |found| found.is_some()).await;
        assert_eq!(world.credentials("mariadb").await, before);
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 2);
        assert!(world.writes_since(began).iter().all(|write| write.resource != "openstackdeployments"));
    });
}

#[test]
fn pods_use_external_backends_through_services() {
    run_test("external", async |world| {
        let given: Secret = serde_json::from_value(json!({
            "metadata": {"name": "outside"}, "stringData": {"database": "0utside-database", "broker": "0utside-broker"},
        }))
        .unwrap();
        world.api().create(&PostParams::default(), &given).await.unwrap();
        let mut spec = services(&["keystone", "mariadb", "memcached", "rabbitmq"]);
        let outside = |host: &str, credential: &str, key: &str| json!({"enabled": true, "external": {"host": host}, "credentials": {credential: {"name": "outside", "key": key}}});
        spec["services"]["mariadb"] = outside("192.0.2.7", "root", "database");
        spec["services"]["rabbitmq"] = outside("192.0.2.8", "admin", "broker");
        let foreign = json!({"metadata": {"name": "mariadb"}, "spec": {"ports": [{"name": "mysql", "port": 3306}]}});
        let foreign: Service = serde_json::from_value(foreign).unwrap();
        let foreign = world.api::<Service>().create(&PostParams::default(), &foreign).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let waiting = world.until_reason(reason::INPUTS).await;
        let said = waiting.condition("Ready").unwrap().message;
        assert!(
            said.starts_with(&format!(
                "spec.services.mariadb.external: Service {}/mariadb is not ours",
                world.namespace
            )),
            "{said}"
        );
        let kept = world.api::<Service>().get("mariadb").await.unwrap();
        assert_eq!(
            (kept.spec, kept.metadata.uid),
            (foreign.spec, foreign.metadata.uid),
            "foreign objects are not changed"
        );
        world.api::<Service>().delete("mariadb", &DeleteParams::default()).await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().releases, "2/2");
        let endpoints = world.api::<Endpoints>().get("mariadb").await.unwrap();
        assert_eq!(endpoints.annotations()["osdpl.dev/host"], "192.0.2.7");
        assert_eq!(endpoints.subsets.unwrap()[0].addresses.as_ref().unwrap()[0].ip, "192.0.2.7");
        let values = world.helm_values("keystone");
        assert_eq!(values.pointer("/endpoints/oslo_db/auth/admin/password"), Some(&json!("0utside-database")));
        assert_eq!(values.pointer("/endpoints/oslo_messaging/auth/admin/password"), Some(&json!("0utside-broker")));

        world.delete().await;
        world.until_gone().await;
        world.until_object::<Service>("the Service is deleted", "mariadb", |found| found.is_none()).await;
    });
}

#[test]
fn unresolvable_external_host_keeps_existing_endpoints() {
    run_test("renamed", async |world| {
        let metadata = json!({"name": "memcached", "labels": {"osdpl.dev/deployment": NAME}, "annotations": {"osdpl.dev/host": "cache.invalid"}});
        let ports = json!([{"name": "memcache", "port": 11211}]);
        let made = json!({"metadata": metadata, "spec": {"clusterIP": "None", "ports": ports}});
        let made: Service = serde_json::from_value(made).unwrap();
        world.api().create(&PostParams::default(), &made).await.unwrap();
        let subsets = json!([{"addresses": [{"ip": "192.0.2.9"}], "ports": ports}]);
        let made: Endpoints = serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap();
        let made = world.api().create(&PostParams::default(), &made).await.unwrap();
        let mut spec = services(&["mariadb", "memcached"]);
        spec["services"]["memcached"]["external"] = json!({"host": "cache.invalid"});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let said = world.until_ready().await.condition("Ready").unwrap().message;
        let told = "warning: spec.services.memcached.external.host: cache.invalid ";
        assert!(said.contains(told) && said.contains("pods are led to 192.0.2.9 as before"), "{said}");
        let standing = world.api::<Endpoints>().get("memcached").await.unwrap();
        assert_eq!(standing.subsets, made.subsets);

        spec["services"]["memcached"]["external"] = json!({"host": "other.invalid"});
        world.apply(&spec).await;
        let said = world.until_reason(reason::INPUTS).await.condition("Ready").unwrap().message;
        assert!(said.starts_with("spec.services.memcached.external.host: other.invalid "), "{said}");
    });
}

#[test]
fn switching_to_an_external_backend_needs_approval() {
    run_test("moves", async |world| {
        let inside = services(&["keystone", "mariadb", "memcached", "rabbitmq"]);
        let _operator = world.operator().start().await;
        world.apply(&inside).await;
        world.until_ready().await;
        let addresses = async || {
            let endpoints = world.api::<Endpoints>().get("memcached").await.unwrap();
            let subsets = endpoints.subsets.unwrap_or_default();
            let all = subsets.into_iter().flat_map(|subset| subset.addresses.unwrap_or_default());
            all.map(|address| address.ip).collect::<Vec<_>>()
        };
        let own = addresses().await;

        let mut outside = inside.clone();
        outside["services"]["memcached"] = json!({"enabled": true, "external": {"host": "192.0.2.9"}});
        world.apply(&outside).await;
        let waiting = world.until_reason(reason::APPROVAL).await;
        assert_eq!(waiting.child("keystone").revision, Some(1), "{:?}", waiting.child("keystone"));
        assert_eq!(addresses().await, own, "running pods keep their addresses");
        world.osdpl(&["approve"]);
        assert_eq!(world.until_ready().await.status().releases, "3/3");
        assert_eq!(addresses().await, ["192.0.2.9"]);

        world.apply(&inside).await;
        assert_eq!(world.until_ready().await.status().releases, "4/4");
        assert!(!addresses().await.contains(&"192.0.2.9".to_owned()));
    });
}

#[test]
fn finds_a_release_with_another_name_and_namespace() {
    run_test("elsewhere", async |world| {
        let elsewhere = format!("{}-cache", world.namespace);
        let mut spec = services(&["keystone", "mariadb", "memcached", "rabbitmq"]);
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"namespace": elsewhere, "name": "tokens"});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let values = world.helm_values("keystone");
        assert_eq!(values.pointer("/endpoints/oslo_cache/namespace"), Some(&json!(elsewhere)));
        assert!(world.helm_prints(&["list", "--all-namespaces", "--short"]).contains("tokens"));
        world.delete().await;
        world.until_gone().await;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        namespaces.delete(&elsewhere, &DeleteParams::default()).await.unwrap();
    });
}
