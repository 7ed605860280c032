//! Tests `osdpl plan` with a cluster. The user of the command may only read objects.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PostParams;
use osdpl_core::api::reason;
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{World, run_test};

impl World {
    /// Writes an `OpenStackDeployment` with this spec into a file, and returns the path of the file.
    pub fn file(&self, spec: &Value) -> PathBuf {
        let file = self.folder.path().join("change.yaml");
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": NAME, "namespace": self.namespace}, "spec": spec,
        });
        std::fs::write(&file, osdpl_values::yaml::write(&object)).unwrap();
        file
    }

    /// Creates a ServiceAccount that may read `OpenStackDeployment`s and `resources` in the test's namespace, and
    /// nothing else. Returns the path of a kubeconfig with these rights.
    pub async fn reader(&self, name: &str, resources: &[&str]) -> PathBuf {
        let create = PostParams::default();
        let metadata = json!({"name": name, "namespace": self.namespace});
        let reads = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["get", "list", "watch"]});
        let account: ServiceAccount = from(json!({"metadata": metadata}));
        self.api().create(&create, &account).await.unwrap();
        let rules = [reads(&["osdpl.dev"], &["openstackdeployments"]), reads(&["", "apps", "batch"], resources)];
        let role: Role = from(json!({"metadata": metadata, "rules": rules}));
        self.api().create(&create, &role).await.unwrap();
        let binding: RoleBinding = from(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
        }));
        self.api().create(&create, &binding).await.unwrap();
        self.cluster().kubeconfig_for(&self.namespace, name).await.unwrap()
    }

    fn plan_as(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let output = self.run_as(kubeconfig, &[&["plan", "-n", &self.namespace], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn from<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// The types of objects that `osdpl plan` reads in the namespace of a cloud, as RBAC rules name them.
pub const ALL: [&str; 8] =
    ["secrets", "deployments", "statefulsets", "daemonsets", "jobs", "pods", "services", "persistentvolumeclaims"];

/// Checks that `osdpl plan` and `osdpl why` work with read access only, and that each command names the data that it
/// could not read.
async fn check_commands_with_read_access(world: &World, reader: &Path) {
    let ready = world.plan_as(reader, &[]);
    assert!(ready.contains("Nothing to do: 3 releases are ready.\n"), "{ready}");
    assert!(ready.contains(&format!("unknown: releases outside of {}: ", world.namespace)), "{ready}");
    assert!(ready.contains("is forbidden: User"), "the plan must list the reads that the API server refused: {ready}");
    assert!(ready.contains("unknown: which StorageClasses exist: "), "{ready}");
    let why = world.run_as(reader, &["why", "-n", &world.namespace, "memcached"]);
    assert_eq!(String::from_utf8(why.stdout).unwrap(), "release memcached is ready\n");
    assert!(String::from_utf8(why.stderr).unwrap().contains("unknown: which nodes exist, and their roles: "));
    let less = world.reader("less", &ALL[..6]).await;
    let ready = world.plan_as(&less, &[]);
    assert!(ready.contains("Nothing to do: 3 releases are ready.\n"), "{ready}");
    assert!(ready.contains("unknown: the pods behind Services that other pods wait for: services is forb"), "{ready}");
}

#[test]
fn plan_checks_a_change_with_read_access_only() {
    run_test("plan", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb", "memcached", "rabbitmq"]);
        let reader = world.reader("reader", &ALL).await;
        let file = world.file(&spec);
        let new = world.plan_as(&reader, &["-f", file.to_str().unwrap()]);
        assert!(new.contains("mariadb        absent           helm upgrade --install: it is not installed"), "{new}");
        assert!(new.contains("add the finalizer: osdpl must clean up before the resource is deleted\n"), "{new}");
        world.apply(&spec).await;
        world.until_ready().await;

        check_commands_with_read_access(world, &reader).await;

        let mut changed = with_values(spec.clone(), "memcached", json!({"conf": {"memcached": {"memory": 300}}}));
        changed["services"]["mariadb"]["releases"]["mariadb"]["values"] =
            json!({"endpoints": {"oslo_db": {"auth": {"admin": {"password": "much-too-simple"}}}}});
        let changed = with_values(changed, "rabbitmq", json!({"conf": {"enabled_plugins": ["rabbitmq_management"]}}));
        let file = world.file(&changed);
        let file = file.to_str().unwrap();
        let plan = world.plan_as(&reader, &["-f", file]);
        let memcached = "memcached      deployed         helm upgrade --install: its inputs changed\n";
        assert!(plan.contains(memcached), "{plan}");
        assert!(
            plan.contains("changes conf.memcached.memory\n"),
            "without --values, the plan must print only the paths of changed values: {plan}"
        );
        let hooks = "rabbitmq       deployed         helm upgrade --install: its inputs changed\n";
        assert!(plan.contains(hooks), "with unchanged images, the plan must delete no Jobs: {plan}");
        let plan = world.plan_as(&reader, &["-f", file, "--values"]);
        assert!(plan.contains("changes conf.memcached.memory: 300 (new)\n"), "{plan}");
        let password = "changes endpoints.oslo_db.auth.admin.password: ";
        assert!(plan.contains(&format!("{password}\"<redacted>\" → \"<redacted>\"\n")), "{plan}");
        let output = world.plan_as(&reader, &["-f", file, "--values", "--credentials", "-o", "json"]);
        let report: Value = serde_json::from_str(&output).unwrap();
        let mariadb = &report["releases"][0];
        assert_eq!((&mariadb["name"], &mariadb["step"]), (&json!("mariadb"), &json!("do")));
        assert_eq!(mariadb["changes"][0]["after"], "much-too-simple");
        assert_eq!(world.helm_runs().len(), 3, "osdpl plan must not run helm");

        let less = services(&["mariadb"]);
        let plan = world.plan_as(&reader, &["-f", world.file(&less).to_str().unwrap()]);
        assert!(plan.contains("memcached      deployed         it is no longer desired: waits for approval"), "{plan}");
        world.apply(&less).await;
        let hash = world.until_reason(reason::APPROVAL).await.status().approval.unwrap();
        let line = format!(
            "Once the file is applied, changes wait for approval: osdpl approve -n {} {NAME} {hash}\n",
            world.namespace
        );
        assert!(plan.ends_with(&line), "osdpl plan must print the target hash of the operator, {hash}: {plan}");
        assert!(world.plan_as(&reader, &[]).ends_with(&line.replace("Once the file is applied, changes", "Changes")));
    });
}

#[test]
fn names_refused_reads_and_a_foreign_catalogue() {
    run_test("plan-refused", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        let limited = world.reader("limited", &["deployments", "statefulsets", "daemonsets", "jobs"]).await;
        let output = world.run_as(&limited, &["plan", "-n", &world.namespace]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        for what in ["secrets", "pods"] {
            let refused = format!("{what} is forbidden: User \"system:serviceaccount:{}:limited\"", world.namespace);
            assert!(text.contains(&refused), "{text}");
        }
        assert!(!text.contains("jobs.batch is forbidden") && text.contains("osdpl status"), "{text}");
        assert!(
            !text.contains("extraRules"),
            "the remedy must not name extraRules, which grants rights only to the operator: {text}"
        );

        let newer = crate::approval::newer_catalogue(world);
        let plan = world.osdpl(&["plan", "--catalog", newer.to_str().unwrap()]);
        assert!(plan.contains("the operator or its catalogue changed: waits for approval"), "{plan}");
        assert!(plan.contains("note: the operator reports that nothing waits for approval"), "{plan}");
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts");
        let cache = world.folder.path().join("own");
        let own = ["plan", "--charts", charts.to_str().unwrap(), "--cache", cache.to_str().unwrap()];
        assert!(world.osdpl(&own).ends_with("Nothing to do: 1 release is ready.\n"));

        let refused = world.file(&json!({"openstackRelease": "2026.1", "presets": ["stroage"]}));
        let output = world.run(&["plan", "-f", refused.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && text.starts_with("error: spec.presets"), "{text}");
    });
}
