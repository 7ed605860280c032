//! The status and `osdpl why` name the root cause of a fault. The cloud recovers when the fault is removed.

use std::process::Command;

use cluster::Rule;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

/// Deletes the pods whose names have this prefix.
async fn delete_pods(world: &World, prefix: &str) {
    let pods = world.api::<Pod>();
    let all = pods.list(&ListParams::default()).await.unwrap().items.into_iter().map(|pod| pod.name_any());
    for name in all.filter(|name| name.starts_with(prefix)) {
        pods.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

/// Checks that `osdpl status` and `osdpl why` print the root cause `root`, the component keystone/api that it affects,
/// and the objects or commands with which a person can inspect the cause.
fn check_commands(world: &World, root: &str, objects: &[String]) {
    let namespace = &world.namespace;
    let status = String::from_utf8(world.run(&["status"]).stdout).unwrap();
    let section =
        format!("  mariadb/server: {root}\n      see {}\n      waiting for it: keystone/api\n", objects.join(", "));
    assert!(status.contains(&section), "{status}");
    let chain = format!("keystone/api waits for\n  ← mariadb/server: {root}\n");
    let objects_to_inspect = format!(
        "\nInspect:\n  kubectl -n {namespace} describe pod mariadb-server-0\n  kubectl -n {namespace} describe statefulset \
         mariadb-server\n  kubectl -n {namespace} describe deployment keystone-api\n"
    );
    assert_eq!(world.why("keystone/api"), (2, format!("{chain}{objects_to_inspect}")));
    let json = world.run(&["why", "keystone/api", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (json["ready"].clone(), json["chains"][0]["root"].clone()),
        (json!(false), json!(format!("mariadb/server: {root}")))
    );
    assert_eq!(json["inspect"][0]["command"], json!(format!("kubectl -n {namespace} describe pod mariadb-server-0")));
    let json: serde_json::Value = serde_json::from_slice(&world.run(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!((&json["ready"], &json["status"]["causes"][0]["affected"]), (&json!(false), &json!(["keystone/api"])));
    let (code, output) = world.why("keystone");
    let release = "release keystone is not ready: keystone/api 0/1: waits for mariadb/server: ";
    assert!(code == 2 && output.starts_with(release) && output.contains(&chain), "{output}");
    let all = format!(
        "mariadb/server: {root}\n  keystone/api waits for mariadb/server\n\nInspect:\n  kubectl -n {namespace} "
    );
    assert!(world.why("").1.starts_with(&all), "{}", world.why("").1);
    assert_eq!(world.why("memcached/server"), (0, "memcached/server is ready (1/1)\n".into()));
    let unknown = world.osdpl_fails(&["why", "keystne"]);
    assert!(unknown.contains("named \"keystne\"") && unknown.contains("did you mean \"keystone\"?"), "{unknown}");
}

#[test]
fn names_the_missing_image_of_a_database() {
    run_test("cause", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["keystone", "mariadb", "memcached"]);
        world.apply(&world.with_external(spec, &["rabbitmq"]).await).await;
        world.until_ready().await;
        let fault = Rule::new(&world.namespace, "mariadb-server", "image-pull-error");
        world.cluster().behaviour("no-image", &fault).await.unwrap();
        delete_pods(world, "mariadb-server").await;
        // Recreate Keystone's pods only after the status reports the failed database. A pod that starts before the
        // database fails would find the database available, and would not wait.
        world
            .until("the status reports that mariadb-server can't pull its image", |cloud| {
                let health = cloud.status().health;
                health.get("mariadb")?.get("server")?.reason.contains(": ImagePullBackOff ").then_some(())
            })
            .await;
        delete_pods(world, "keystone-api").await;
        let (reason, cloud) = world
            .until("the status reports that keystone/api waits for mariadb/server", |cloud| {
                let health = cloud.status().health;
                let reason = health.get("keystone")?.get("api")?.reason.clone();
                // At first, the status may still name the deleted pod as the root cause. So wait until the status names
                // the image.
                reason.contains(": ImagePullBackOff ").then(|| (reason, cloud.clone()))
            })
            .await;
        let root = cloud.status().health["mariadb"]["server"].reason.clone();
        assert!(root.starts_with("mariadb-server-0: ImagePullBackOff "), "{root}");
        assert_eq!(reason, format!("waits for mariadb/server: {root}"));
        let causes = cloud.status().causes;
        assert_eq!(causes.len(), 1, "the status must report the root cause only once: {causes:?}");
        assert_eq!(causes[0].message, format!("mariadb/server: {root}"));
        assert_eq!(causes[0].affected, ["keystone/api"]);
        let namespace = &world.namespace;
        let objects: Vec<_> = causes[0].objects.iter().map(ToString::to_string).collect();
        assert_eq!(
            objects,
            [format!("StatefulSet {namespace}/mariadb-server"), format!("Pod {namespace}/mariadb-server-0")]
        );
        let degraded = cloud.condition("Degraded").unwrap();
        let line = format!("mariadb/server: {root} (keystone/api waiting)");
        assert_eq!((degraded.status.as_str(), degraded.message.as_str()), ("True", line.as_str()));

        check_commands(world, &root, &objects);

        world.cluster().remove_rule("no-image").await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 3);
    });
}

impl World {
    /// Runs `osdpl why` with the argument `what`, or without an argument if `what` is empty. Returns the exit code and
    /// the standard output.
    fn why(&self, what: &str) -> (i32, String) {
        let arguments = if what.is_empty() { vec!["why"] } else { vec!["why", what] };
        let output = self.run(&arguments);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    /// Runs each kubectl command that a message of the operator contains, and returns the number of commands.
    fn run_suggested_commands(&self, message: &str) -> usize {
        let commands = message.split("kubectl ").skip(1);
        let commands = commands.map(|text| text.split([';', '(', ')', ',']).next().unwrap().trim());
        let run = |command: &str| {
            let mut kubectl = Command::new(self.cluster().kubectl().unwrap());
            kubectl.arg("--kubeconfig").arg(self.cluster().kubeconfig()).args(command.split(' '));
            let output = kubectl.output().unwrap();
            assert!(output.status.success(), "kubectl {command}: {}", String::from_utf8_lossy(&output.stderr));
        };
        commands.map(run).count()
    }
}

#[test]
fn names_the_claim_of_an_unknown_storage_class() {
    run_test("unbound", async |world| {
        let mut spec = services(&["mariadb", "rabbitmq"]);
        spec["storageClass"] = json!("nope");
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        // The status may report a pending claim before the operator has listed the StorageClasses. So wait until the
        // reason names the missing StorageClass.
        let reason_of = async |application: &str| {
            let what = format!("the status reports the missing StorageClass of {application}");
            let reason = |cloud: &OpenStackDeployment| {
                let reason = cloud.status().health.get(application)?.get("server")?.reason.clone();
                reason.contains("StorageClass \"nope\" does not exist").then_some(reason)
            };
            world.until(&what, reason).await
        };
        let reason = reason_of("mariadb").await;
        let namespace = &world.namespace;
        let delete = format!("kubectl -n {namespace} delete");
        let expected = format!(
            "mariadb-server-0: claim mysql-data-mariadb-server-0 (20Gi) is not bound: StorageClass \"nope\" does not exist; create \
             the StorageClass, or delete the objects that request the volume ({delete} statefulset mariadb-server; {delete} pvc mysql-data-mariadb-server-0) and then set spec.storageClass to an existing StorageClass"
        );
        assert_eq!(reason, expected);
        // The condition names one of the two releases; which one depends on the progress of helm.
        world
            .until("the Ready condition names a claim of the missing StorageClass", |cloud| {
                let message = cloud.condition("Ready")?.message;
                message.contains(" is not bound: StorageClass \"nope\" does not exist").then_some(())
            })
            .await;
        let rabbit = reason_of("rabbitmq").await;
        assert_eq!((world.run_suggested_commands(&reason), world.run_suggested_commands(&rabbit)), (2, 2));
        spec["storageClass"] = json!("general");
        world.apply(&spec).await;
        world.until_ready().await;
    });
}

#[test]
fn lists_leftovers_after_the_class_was_corrected() {
    run_test("unbound-later", async |world| {
        let mut spec = services(&["mariadb"]);
        spec["storageClass"] = json!("nope");
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let unbound = |cloud: &OpenStackDeployment| {
            let reason = cloud.status().health.get("mariadb")?.get("server")?.reason.clone();
            reason.contains("claim mysql-data-mariadb-server-0 ").then_some(())
        };
        world.until("the status reports the pending claim of mariadb", unbound).await;
        spec["storageClass"] = json!("general");
        world.apply(&spec).await;
        let message = world
            .until("the operator reports that helm can't change the claims", |cloud| {
                let message = cloud.child("mariadb").message;
                message.contains("delete the immutable objects: ").then_some(message)
            })
            .await;
        assert_eq!(world.run_suggested_commands(&message), 2, "{message}");
        assert!(message.contains("osdpl.dev/repair=<release>"), "{message}");
        world.annotate("osdpl.dev/repair", json!("mariadb")).await;
        world.until_ready().await;
    });
}
