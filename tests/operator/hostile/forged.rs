//! A tenant forges a release record whose manifest contains a pre-delete hook and a ClusterRole. If the operator
//! uninstalled this release, the hook would run with the operator's rights, and helm would delete the ClusterRole.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{APPROVE, OpenStackDeployment, reason};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::pool::TEST_LABEL;
use crate::world::{World, now, run_test};

const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// The name of the forged release record. The forged release has the same name as the release horizon in osdpl's
/// catalogue, so osdpl could take the record for its own.
const RECORD: &str = "sh.helm.release.v1.horizon.v1";

/// The name of the Job that the pre-delete hook would create.
const INTRUDER: &str = "intruder";

/// The tenant's chart, with the pre-delete hook and the ClusterRole.
struct Chart<'a> {
    world: &'a World,
    folder: PathBuf,
    since: Timestamp,
}

impl<'a> Chart<'a> {
    fn of(world: &'a World) -> Self {
        let folder = world.folder.path().join("horizon");
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: horizon\nversion: 0.1.0\n").unwrap();
        let hook = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": INTRUDER, "annotations": {"helm.sh/hook": "pre-delete"}},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "take", "image": "example.org/take:1"}],
            }}},
        });
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("{}-{{{{ .Release.Namespace }}}}", world.namespace)}, "rules": [],
        });
        std::fs::write(folder.join("templates/hook.yaml"), hook.to_string()).unwrap();
        std::fs::write(folder.join("templates/role.yaml"), role.to_string()).unwrap();
        Self { world, folder, since: now() }
    }

    fn role(&self, namespace: &str) -> String {
        format!("{}-{namespace}", self.world.namespace)
    }

    /// Installs the chart with plain helm, and copies osdpl's labels from a genuine release record to the record of
    /// this install. Returns a client for the Secrets of the namespace.
    async fn forge(&self, namespace: &str) -> Api<Secret> {
        let output = self.world.run_helm_in(namespace, &["install", "horizon", self.folder.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let genuine = self.world.api::<Secret>().get("sh.helm.release.v1.memcached.v1").await.unwrap();
        let ours = genuine.labels().iter().filter(|(key, _)| key.starts_with("osdpl.dev/"));
        let mut labels: serde_json::Map<_, _> = ours.map(|(key, value)| (key.clone(), json!(value))).collect();
        labels.insert("osdpl.dev/release".into(), json!("horizon"));
        let secrets: Api<Secret> = Api::namespaced(self.world.client.clone(), namespace);
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        secrets.patch(RECORD, &PatchParams::default(), &patch).await.unwrap();
        secrets
    }

    /// Checks that the hook has never run, and that the ClusterRoles of the forged releases in `namespaces` still
    /// exist.
    async fn check(&self, namespaces: &[&str]) {
        let created = self.world.cluster().audit(self.since).unwrap();
        let created = created.iter().filter(|entry| entry.resource == "jobs" && entry.name == INTRUDER);
        assert_eq!(created.count(), 0, "the hook of the tenant must not run");
        let roles: Api<ClusterRole> = Api::all(self.world.client.clone());
        for namespace in namespaces {
            roles.get(&self.role(namespace)).await.unwrap();
        }
    }
}

/// Changes memcached's memory in the spec, and waits until the operator has upgraded memcached to `revision`.
async fn until_upgraded(world: &World, spec: &Value, revision: i64) {
    let memory = json!({"conf": {"memcached": {"memory": 300 + revision}}});
    world.apply(&with_values(spec.clone(), "memcached", memory)).await;
    let is_upgraded = |cloud: &OpenStackDeployment| (cloud.child("memcached").revision == Some(revision)).then_some(());
    world.until("memcached is upgraded", is_upgraded).await;
}

#[test]
fn hook_of_a_forged_record_never_runs() {
    run_test("hook-forged", async |world| {
        // Grant the operator rights in all namespaces, so that it can read the forged record in the tenant's namespace.
        world.permit_all();
        let tenant = format!("{}-tenant", world.namespace);
        let object = json!({"metadata": {"name": tenant, "labels": {TEST_LABEL: "true"}}});
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let chart = Chart::of(world);
        let _operator = world.operator().start().await;
        let mut spec = services(&SMALL);
        spec["approval"] = json!("Automatic");
        world.apply(&spec).await;
        world.until_ready().await;

        // A forged record in the tenant's own namespace must have no effect.
        let theirs = chart.forge(&tenant).await;
        until_upgraded(world, &spec, 2).await;
        assert_eq!(world.until_ready().await.status().children.keys().collect::<Vec<_>>(), SMALL);
        chart.check(&[&tenant]).await;

        // When the forged record is in the cloud's namespace, the operator must wait for approval before it uninstalls
        // horizon, although the spec has `approval: Automatic`.
        let forged = chart.forge(&world.namespace).await;
        let waiting = world.until_reason(reason::APPROVAL).await;
        assert!(waiting.status().message.starts_with("horizon would be uninstalled"), "{:?}", waiting.status());
        until_upgraded(world, &spec, 3).await;
        world.until_reason(reason::APPROVAL).await;
        chart.check(&[&tenant, &world.namespace]).await;

        // A person reads a plan that uninstalls only mariadb. Then the forged record appears, and then the person
        // approves the plan. This approval must not cover the uninstall of horizon.
        let record = forged.get(RECORD).await.unwrap();
        forged.delete(RECORD, &DeleteParams::default()).await.unwrap();
        spec["approval"] = json!("Manual");
        spec["services"]["mariadb"]["enabled"] = json!(false);
        until_upgraded(world, &spec, 4).await;
        let is_pending = |cloud: &OpenStackDeployment| {
            let message = cloud.condition("Ready")?.message;
            let names_mariadb = message.contains("mariadb would be uninstalled") && !message.contains("horizon");
            cloud.status().approval.filter(|_| names_mariadb)
        };
        let seen = world.until("the uninstall of mariadb waits", is_pending).await;
        let copy = Secret { metadata: bare(&record), ..record };
        forged.create(&PostParams::default(), &copy).await.unwrap();
        let is_new =
            |cloud: &OpenStackDeployment| cloud.status().approval.is_some_and(|hash| hash != seen).then_some(());
        world.until("the target has another hash", is_new).await;
        world.annotate(APPROVE, json!(seen)).await;
        until_upgraded(world, &spec, 5).await;
        assert!(world.helm_runs().iter().all(|run| run.verb() == "upgrade"), "{:?}", world.helm_runs());
        chart.check(&[&tenant, &world.namespace]).await;

        // When the cloud is deleted, the operator must uninstall all genuine releases. Before it uninstalls the forged
        // one, it must wait for approval.
        world.delete().await;
        let waits = |cloud: &OpenStackDeployment| {
            let status = cloud.status();
            let is_last = status.children.keys().eq(["horizon"]);
            (is_last && cloud.child("horizon").message.contains("waits for approval")).then_some(())
        };
        world.until("only the forged release is left", waits).await;
        forged.delete(RECORD, &DeleteParams::default()).await.unwrap();
        world.until_gone().await;
        chart.check(&[&tenant, &world.namespace]).await;
        theirs.get(RECORD).await.unwrap();
    });
}

/// Returns the metadata for a copy of a Secret: only the Secret's name and labels.
fn bare(secret: &Secret) -> kube::core::ObjectMeta {
    let (name, labels) = (secret.metadata.name.clone(), secret.metadata.labels.clone());
    kube::core::ObjectMeta { name, labels, ..kube::core::ObjectMeta::default() }
}
