//! Charts, nodes or credentials are missing, or a component fails. The operator reports the problem, and continues with
//! all other releases.

use std::path::Path;

use cluster::{Node, Rule};
use k8s_openapi::api::core::v1::{Node as KubeNode, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
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
        let message = |release: &str| cloud.child(release).message;
        assert!(message("mariadb").contains(&digest), "{}", message("mariadb"));
        assert!(
            message("rabbitmq").contains("rabbitmq") && message("rabbitmq").contains("charts"),
            "{}",
            message("rabbitmq")
        );
        assert_eq!(world.helm_runs().len(), 1);
    });
}

#[test]
fn an_endless_template_blocks_only_its_release() {
    run_test("endless", async |world| {
        // The operator waits at most for a third of this time until helm has rendered a chart.
        let _operator = world.operator().arguments(&["--pass-timeout", "30"]).start().await;
        world.apply(&services(&["memcached", "rabbitmq"])).await;
        world.until_ready().await;
        // The operator renders the chart of a release if the values mention a CRD.
        world.make_templates_endless();
        let template = "{{ range until 100000 }}{{ end }}# CustomResourceDefinition";
        let changed = with_values(
            services(&["memcached", "rabbitmq"]),
            "memcached",
            json!({"conf": {"memcached": {"memory": 300}}}),
        );
        world.apply(&with_values(changed.clone(), "rabbitmq", json!({"extraObjects": {"any": template}}))).await;
        let what = "memcached is upgraded, and the status says that helm did not render rabbitmq";
        let message = world
            .until(what, |cloud| {
                let message = cloud.child("rabbitmq").message;
                let is_done = cloud.child("memcached").revision == Some(2) && message.contains("did not render");
                is_done.then_some(message)
            })
            .await;
        assert!(message.contains("/rabbitmq within 10 s, so osdpl stopped it; simplify the templates"), "{message}");

        world.apply(&changed).await;
        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("memcached").revision, cloud.child("rabbitmq").revision), (Some(2), Some(1)));
        assert_eq!(world.helm_runs().len(), 3);
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
        // Kubernetes' timestamps have whole seconds. So the operator can notice that a pod became unready only if the
        // pod started in an earlier second. Delay mariadb's pod: then the cloud becomes Ready at least one second after
        // the start of memcached's pod. After that, the test makes memcached's pod unready.
        let slow =
            Rule { behaviour: None, delay: Some("2s".into()), ..Rule::new(&world.namespace, "mariadb-server", "") };
        world.cluster().behaviour("slow", &slow).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        world.until_ready().await;
        let unready = Rule { behaviour: None, ready: Some(false), ..Rule::new(&world.namespace, "memcached-", "") };
        world.cluster().behaviour("unready", &unready).await.unwrap();
        let cloud = world.until_reason(reason::UNHEALTHY).await;
        let health = &cloud.status().health["memcached"]["server"];
        assert_eq!((health.status, health.ready.as_str()), (ComponentHealth::Unhealthy, "0/1"));
        assert_eq!(cloud.condition("Degraded").unwrap().status, "True");
        assert_eq!((cloud.status().components.as_str(), cloud.child("memcached").ready), ("2/3", false));
        world.cluster().remove_rule("unready").await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 2);
    });
}

#[test]
fn restores_a_lost_credential() {
    run_test("lost-credential", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        world.until_ready().await;
        let (name, before) = (format!("{NAME}-credentials-mariadb"), world.credentials("mariadb").await);
        let secrets: Api<Secret> = world.api();
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
        world.until_object::<Secret>("the Secret is restored", &name, |found| found.is_some()).await;
        assert_eq!(world.credentials("mariadb").await, before);

        operator.kill();
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
        let began = now();
        let _operator = world.operator().start().await;
        world.until_object::<Secret>("the Secret is restored", &name, |found| found.is_some()).await;
        assert_eq!(world.credentials("mariadb").await, before);
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 2);
        assert!(world.writes_since(began).iter().all(|write| write.resource != "openstackdeployments"));
    });
}

#[test]
fn finds_a_release_with_another_name_and_namespace() {
    run_test("other-name", async |world| {
        let elsewhere = format!("{}-cache", world.namespace);
        world.permit(&elsewhere).await;
        let spec = services(&["keystone", "memcached"]);
        let mut spec = world.with_external(spec, &["mariadb", "rabbitmq"]).await;
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"namespace": elsewhere, "name": "tokens"});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let values = world.helm_values("keystone");
        assert_eq!(values.pointer("/endpoints/oslo_cache/namespace"), Some(&json!(elsewhere)));
        assert!(world.helm_prints(&["list", "--all-namespaces", "--short"]).contains("tokens"));
        world.delete().await;
        world.until_gone().await;
    });
}
