//! Tests faults in a healthy cloud, such as a lost node. The status reports each fault with its cause, and the cloud
//! recovers when the fault is over.

use cluster::Rule;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{ComponentHealth, ComponentStatus, OpenStackDeployment, reason};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, run_test};

impl World {
    /// Deletes the pods whose names begin with `prefix`, so that their controllers recreate them.
    pub async fn delete_pods(&self, prefix: &str) {
        let pods = self.api::<Pod>();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            if pod.name_any().starts_with(prefix) {
                pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
            }
        }
    }

    /// Sets a label of a node, or removes it if `value` is null.
    pub async fn label_node(&self, name: &str, key: &str, value: Value) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the `reason` in a component's status contains this text. Returns the component's status and the
    /// `OpenStackDeployment`.
    pub async fn until_reason_contains(
        &self,
        application: &str,
        component: &str,
        text: &str,
    ) -> (ComponentStatus, OpenStackDeployment) {
        self.until(&format!("the status reports {application}/{component} with {text:?}"), |cloud| {
            let health = cloud.status().health.get(application)?.get(component)?.clone();
            health.reason.contains(text).then(|| (health, cloud.clone()))
        })
        .await
    }
}

#[test]
fn lost_node_degrades_only_its_pods() {
    run_test("node-lost", async |world| {
        // The operator reports an unready node only after a grace period, which is two seconds here. No watch event
        // marks the end of the period, so the operator must start a pass by itself.
        let _operator = world.operator().arguments(&["--node-grace", "2"]).start().await;
        world.apply(&services(&["memcached", "openvswitch"])).await;
        world.until_ready().await;
        let cache = world.api::<Pod>().get("memcached-memcached-0").await.unwrap();
        let used = cache.spec.unwrap().node_name.unwrap();
        let nodes: Api<Node> = Api::all(world.client.clone());
        let all = nodes.list(&ListParams::default()).await.unwrap();
        let node = all.iter().map(ResourceExt::name_any).find(|name| *name != used).unwrap();
        world.label_node(&node, "kwok.osdpl.dev/ready", json!("false")).await;
        let not_ready = format!("node {node} is NotReady");
        let (health, _) = world.until_reason_contains("openvswitch", "server", &not_ready).await;
        let fields = |health: &ComponentStatus| (health.status, health.ready.clone(), health.reason.clone());
        assert_eq!(fields(&health), (ComponentHealth::Degraded, "2/3".into(), not_ready.clone()));
        let cloud = world
            .until("the Degraded condition reports the lost node", |cloud| {
                (cloud.condition("Degraded")?.reason == reason::NODES).then(|| cloud.clone())
            })
            .await;
        assert_eq!(cloud.condition("Degraded").unwrap().message, format!("{not_ready}: openvswitch/server 2/3"));
        assert!(cloud.is_ready(), "the cloud must stay Ready, because the pods on other nodes are healthy");
        assert_eq!(cloud.status().health["memcached"]["server"].status, ComponentHealth::Ready);
        let causes = cloud.status().causes;
        assert_eq!((causes.len(), causes[0].message.clone()), (1, format!("node {node}: NotReady")));
        assert_eq!(causes[0].affected, ["openvswitch/server"]);

        world.label_node(&node, "kwok.osdpl.dev/ready", json!(null)).await;
        let is_healthy = |cloud: &OpenStackDeployment| {
            let has_all_pods = cloud.status().health["openvswitch"]["server"].ready == "3/3";
            (has_all_pods && cloud.condition("Degraded")?.status == "False").then(|| cloud.status().causes)
        };
        assert_eq!(world.until("all nodes are back", is_healthy).await, []);
        assert_eq!(world.helm_runs().len(), 2);
    });
}

#[test]
fn reports_crash_loop_with_exit_code_and_scrubbed_log() {
    run_test("crash-loop", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        world.until_ready().await;
        let password = world.credentials("mariadb").await["root"].clone();
        let log = format!("could not use {password}\nno memory to slice");
        let fault =
            Rule { exit_code: Some(71), log: Some(log), ..Rule::new(&world.namespace, "memcached-", "crash-loop") };
        world.cluster().behaviour("crash", &fault).await.unwrap();
        world.delete_pods("memcached-").await;
        let (health, cloud) = world.until_reason_contains("memcached", "server", "its log ends: could not use").await;
        let why = "memcached-memcached-0: container memcached fails: exit code 71; its log ends: could not use [redacted] | no memory to slice";
        assert_eq!((health.status, health.reason.as_str()), (ComponentHealth::Unhealthy, why));
        assert_eq!(cloud.status().causes[0].message, format!("memcached/server: {why}"));
        let degraded = cloud.condition("Degraded").unwrap();
        assert_eq!((degraded.status.as_str(), degraded.message), ("True", format!("memcached/server: {why}")));

        assert!(operator.stop().await.success());
        let _operator = world.operator().start().await;
        let mut paused = services(&["mariadb", "memcached"]);
        paused["paused"] = json!(true);
        world.apply(&paused).await;
        let status = world.until_reason(reason::PAUSED).await.status();
        assert_eq!(
            status.health["memcached"]["server"].reason, why,
            "the new operator must redact passwords even in logs that it reads before its first pass"
        );
        assert_eq!(status.causes[0].message, format!("memcached/server: {why}"));

        world.apply(&services(&["mariadb", "memcached"])).await;
        world.cluster().remove_rule("crash").await.unwrap();
        assert_eq!(world.until_ready().await.status().causes, []);
    });
}

#[test]
fn names_a_missing_mounted_secret() {
    run_test("no-secret", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&world.keystone().await).await;
        world.until_ready().await;
        world.api::<Secret>().delete("keystone-etc", &DeleteParams::default()).await.unwrap();
        world.delete_pods("keystone-api-").await;
        let (health, cloud) = world
            .until_reason_contains("keystone", "api", "it mounts objects that do not exist: Secret keystone-etc")
            .await;
        assert_eq!(health.status, ComponentHealth::Unhealthy);
        let cause = &cloud.status().causes[0];
        let objects: Vec<_> = cause.objects.iter().map(ToString::to_string).collect();
        assert_eq!(objects[2], format!("Secret {}/keystone-etc", world.namespace), "{objects:?}");
        assert!(cloud.condition("Degraded").unwrap().message.starts_with(&cause.message), "{cause:?}");

        world.annotate("osdpl.dev/repair", json!("keystone")).await;
        world
            .until("keystone is ready again", |cloud| {
                (cloud.is_ready() && cloud.child("keystone").revision == Some(2)).then_some(())
            })
            .await;
    });
}

#[test]
fn failing_hook_is_the_only_root_cause() {
    run_test("hook-cause", async |world| {
        let fault = Rule {
            log: Some("ERROR 1045: access denied".into()),
            ..Rule::new(&world.namespace, "keystone-db-init", "fail")
        };
        world.cluster().behaviour("hook", &fault).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&world.keystone().await).await;
        let cloud = world
            .until("the status reports the hook's log", |cloud| {
                let has_log =
                    cloud.status().causes.first()?.message.contains("its log ends: ERROR 1045: access denied");
                let affects_keystone = cloud.status().causes[0].affected.contains(&"keystone/api".to_owned());
                (has_log && affects_keystone && cloud.reason() == reason::FAILED).then(|| cloud.clone())
            })
            .await;
        let cause = &cloud.status().causes[0];
        assert!(cause.message.starts_with("Job keystone-db-init: keystone-db-init-"), "{cause:?}");
        assert_eq!(cause.objects[0].to_string(), format!("Job {}/keystone-db-init", world.namespace));
        let reason = cloud.status().health["keystone"]["api"].reason.clone();
        assert!(reason.starts_with("waits for ") && reason.ends_with("ERROR 1045: access denied"), "{reason}");
        assert!(cloud.condition("Degraded").unwrap().message.starts_with(&cause.message));

        world.cluster().remove_rule("hook").await.unwrap();
        assert_eq!(world.until_ready().await.status().causes, []);
    });
}

#[test]
fn names_a_missing_node_label_from_the_scheduler() {
    run_test("no-label", async |world| {
        let _operator = world.operator().start().await;
        let healthy = services(&["memcached"]);
        world.apply(&healthy).await;
        world.until_ready().await;
        let nowhere = json!({"labels": {"server": {"node_selector_key": "nowhere"}}});
        world.apply(&with_values(healthy.clone(), "memcached", nowhere)).await;
        let (health, cloud) = world.until_reason_contains("memcached", "server", "it cannot be scheduled").await;
        let why = "memcached-memcached-0: it cannot be scheduled (it requires nowhere=enabled): 0/3 nodes are available: 3 node(s) didn't match Pod's \
                   node affinity/selector.";
        assert!(health.reason.starts_with(why), "{}", health.reason);
        assert_eq!(cloud.status().causes[0].message, format!("memcached/server: {}", health.reason));

        world.label_node("node-2", "nowhere", json!("enabled")).await;
        assert_eq!(world.until_ready().await.status().causes, []);
        world.label_node("node-2", "nowhere", json!(null)).await;
    });
}

#[test]
fn database_outage_is_one_cause_for_all_affected() {
    run_test("database-down", async |world| {
        let _operator = world.operator().start().await;
        // Disable Heat's CronJob that runs every five minutes. Otherwise the status could also name a Job that this
        // CronJob starts during the outage.
        let no_cleaner = json!({"manifests": {"cron_job_engine_cleaner": false}});
        let spec = services(&["glance", "keystone", "mariadb", "heat"]);
        let spec = world.with_external(spec, &["memcached", "rabbitmq"]).await;
        world.apply(&with_values(spec, "heat", no_cleaner)).await;
        world.until_ready().await;
        let down = Rule { behaviour: None, ready: Some(false), ..Rule::new(&world.namespace, "mariadb-server", "") };
        world.cluster().behaviour("down", &down).await.unwrap();
        world.until_reason_contains("mariadb", "server", "is no longer").await;
        world.delete_pods("keystone-api-").await;
        world.until_reason_contains("keystone", "api", "waits for mariadb/server").await;
        world.delete_pods("glance-api-").await;
        world.delete_pods("heat-engine-").await;
        let cloud = world
            .until("the cause names all three affected components", |cloud| {
                (cloud.status().causes.first()?.affected.len() == 3).then(|| cloud.clone())
            })
            .await;
        let why = "mariadb/server: mariadb-server-0: it is no longer ready";
        let causes = cloud.status().causes;
        assert_eq!(causes.iter().map(|cause| cause.message.as_str()).collect::<Vec<_>>(), [why]);
        assert_eq!(causes[0].affected, ["glance/api", "heat/engine", "keystone/api"]);
        let degraded = cloud.condition("Degraded").unwrap().message;
        assert!(degraded.starts_with(&format!("{why} (glance/api, heat/engine, keystone/api waiting)")), "{degraded}");

        world.cluster().remove_rule("down").await.unwrap();
        assert_eq!(world.until_ready().await.status().causes, []);
    });
}
