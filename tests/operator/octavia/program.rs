//! Runs the program octavia-prerequisites as a kubelet would: with the script and environment of its Job or CronJob in
//! the release octavia.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use cluster::programs::{print_progress, python};
use cluster::{AuditEntry, output_with_input};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use osdpl_values::yaml;
use serde_json::{Value, json};

use super::openstack::OpenStack;
use crate::world::{World, with_timeout};

/// The name of the program's Job, ConfigMap and ServiceAccount.
pub const NAME: &str = "octavia-prerequisites";
/// The key of the node label that selects nodes for Octavia's pods; its value is the test's namespace.
pub const LABEL: &str = "openstack-load-balancers";

/// The environment of the program: the Kubernetes objects of the release octavia, and fake APIs of OpenStack.
pub struct Fixture<'a> {
    pub world: &'a World,
    pub openstack: OpenStack,
    pub spec: Value,
    python: PathBuf,
    /// Passwords and keys that the output of the program must not contain.
    secrets: Vec<String>,
}

/// The result of a run of the program: whether it succeeded, and its standard output and error.
#[derive(Debug)]
pub struct RunResult {
    pub succeeded: bool,
    pub output: String,
}

impl<'a> Fixture<'a> {
    /// Starts the fake APIs, and creates the Kubernetes objects of the release octavia. `amphora` is a function: it
    /// gets the URL of the amphora image, and returns `spec.features.loadBalancer.amphora`.
    pub async fn new(world: &'a World, amphora: impl FnOnce(&str) -> Value) -> Self {
        let openstack = OpenStack::start("").await;
        let label = json!({"node_selector_key": LABEL, "node_selector_value": world.namespace});
        let values = json!({"labels": {"worker": label, "health_manager": label}});
        let spec = json!({"openstackRelease": "2026.1",
            "features": {"loadBalancer": {"providers": ["amphora"], "amphora": amphora(&format!("{}/amphora.qcow2", openstack.address))}},
            "services": {"octavia": {"enabled": true, "releases": {"octavia": {"values": values}}}}});
        let python = python::ensure(&mut print_progress).unwrap();
        let mut fixture = Self { world, openstack, spec, python, secrets: Vec::new() };
        fixture.apply();
        fixture.wait_for_rights().await;
        let (admin, passphrase) = (fixture.secret("octavia-keystone-admin").await, fixture.passphrase().await);
        fixture.openstack.with(|cloud| cloud.password.clone_from(&admin["OS_PASSWORD"]));
        let token = world.cluster().token(&world.namespace, NAME).await.unwrap();
        std::fs::write(world.folder.path().join("token"), &token).unwrap();
        fixture.secrets = vec![admin["OS_PASSWORD"].clone(), passphrase, token, "PRIVATE KEY".into()];
        fixture
    }

    /// Renders the release octavia with the real helm, and creates the rendered objects that the program needs.
    fn apply(&self) {
        let (world, folder) = (self.world, self.world.folder.path());
        let resource = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": world.namespace}, "spec": self.spec});
        let file = folder.join("cloud.yaml");
        std::fs::write(&file, yaml::write(&resource)).unwrap();
        // The rendered values contain placeholder credentials, which the rendered objects store in Secrets. A test
        // fails if a file in its folder contains a credential from one of its Secrets. So pass the values and objects
        // through pipes, not through files.
        let mut render = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        render.args(["render", "--placeholders", "--file"]).arg(&file).arg("octavia");
        let values = output(render, "");
        let mut helm = Command::new(world.cluster().helm(4).unwrap());
        helm.args(["template", "octavia", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/charts/octavia")]);
        helm.args(["--namespace", &world.namespace, "--values", "-"]);
        let rendered = output(helm, &values);
        let objects: Vec<String> = rendered.split("\n---\n").filter_map(|text| self.object(text)).collect();
        let mut kubectl = Command::new(world.cluster().kubectl().unwrap());
        kubectl.arg("--kubeconfig").arg(world.cluster().kubeconfig());
        kubectl.args(["--namespace", &world.namespace, "apply", "--server-side", "--filename", "-"]);
        output(kubectl, &objects.join("\n---\n"));
    }

    /// Returns the object in a rendered document, or `None` if the program does not need the object. Adds helm's
    /// annotation `meta.helm.sh/release-namespace`, by which the pool of control planes finds cluster-scoped objects
    /// and deletes them after the test.
    fn object(&self, text: &str) -> Option<String> {
        let mut object: Value = yaml::parse("the rendered octavia", text).ok()?;
        let component = object.pointer("/metadata/labels/component").and_then(Value::as_str);
        if component != Some("prerequisites") && object["metadata"]["name"] != "octavia-keystone-admin" {
            return None;
        }
        object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = self.world.namespace.clone().into();
        Some(object.to_string())
    }

    /// Waits until the API server grants the program the rights in the roles that [`Self::apply`] created.
    async fn wait_for_rights(&self) {
        let reviews: Api<SubjectAccessReview> = Api::all(self.world.client.clone());
        let namespace = &self.world.namespace;
        for attributes in [
            json!({"resource": "nodes", "verb": "list"}),
            json!({"resource": "configmaps", "verb": "patch", "name": NAME, "namespace": namespace}),
        ] {
            let user = format!("system:serviceaccount:{namespace}:{NAME}");
            let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}});
            let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
            let allowed = async {
                while !reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed {}
            };
            with_timeout(&format!("the API server allows the program to {attributes}"), allowed).await;
        }
    }

    /// Returns the keys of a Secret, each with its value as text.
    async fn secret(&self, name: &str) -> BTreeMap<String, String> {
        let data = self.world.api::<Secret>().get(name).await.unwrap().data.unwrap_or_default();
        data.into_iter().map(|(key, text)| (key, String::from_utf8(text.0).unwrap())).collect()
    }

    /// Returns the passphrase of the CA key with which octavia signs its amphorae's certificates.
    pub async fn passphrase(&self) -> String {
        self.secret("octavia-prerequisites-passphrase").await["PASSPHRASE"].clone()
    }

    /// Returns the data of the program's ConfigMap: facts that octavia's values need, such as the addresses of the
    /// `controllers`.
    pub async fn facts(&self) -> BTreeMap<String, String> {
        self.world.api::<ConfigMap>().get(NAME).await.unwrap().data.unwrap_or_default()
    }

    /// Returns the program's writes to Kubernetes after `since`, each as `VERB NAME`.
    pub fn written_since(&self, since: Timestamp) -> Vec<String> {
        let user = format!("system:serviceaccount:{}:{NAME}", self.world.namespace);
        let entries: Vec<AuditEntry> = self.world.cluster().audit(since).unwrap();
        let own = entries.into_iter().filter(|entry| entry.user == user && entry.is_write());
        own.map(|entry| format!("{} {}", entry.verb, entry.name)).collect()
    }

    /// Runs the program with the command and environment of the release's Job, which helm creates at the install.
    pub async fn run(&self) -> RunResult {
        let job = serde_json::to_value(self.world.api::<Job>().get(NAME).await.unwrap()).unwrap();
        self.run_pod(&job["spec"]["template"], NAME).await
    }

    /// Runs the program with the command and environment of the release's CronJob, which runs hourly because new
    /// nodes may have joined the cluster.
    pub async fn run_cron_job(&self) -> RunResult {
        let name = format!("{NAME}-later");
        let job = serde_json::to_value(self.world.api::<CronJob>().get(&name).await.unwrap()).unwrap();
        self.run_pod(&job["spec"]["jobTemplate"]["spec"]["template"], &format!("{name}-29000000")).await
    }

    async fn run_pod(&self, template: &Value, job: &str) -> RunResult {
        let container = &template["spec"]["containers"][0];
        let command: Vec<&str> = container["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(command, ["python3", "/tmp/scripts/prerequisites.py"]);
        let bin = self.world.api::<ConfigMap>().get(&format!("{NAME}-bin")).await.unwrap().data.unwrap();
        let script = self.world.folder.path().join("prerequisites.py");
        std::fs::write(&script, &bin["prerequisites.py"]).unwrap();
        let mut python = tokio::process::Command::new(&self.python);
        python.arg(&script).env_clear().envs(self.environment(container, job).await).envs(self.local_variables());
        let output = with_timeout("the program ends", python.kill_on_drop(true).output()).await.unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        for secret in &self.secrets {
            assert!(!text.contains(secret), "the output must not contain a password or a key: {text}");
        }
        RunResult { succeeded: output.status.success(), output: text }
    }

    /// Returns the environment variables that a kubelet would set for this container of the Job's pod.
    async fn environment(&self, container: &Value, job: &str) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for from in container["envFrom"].as_array().unwrap() {
            all.extend(self.secret(from["secretRef"]["name"].as_str().unwrap()).await);
        }
        for variable in container["env"].as_array().unwrap() {
            let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
                None => variable["value"].as_str().unwrap_or_default(),
                Some("metadata.namespace") => &self.world.namespace,
                Some("metadata.labels['batch.kubernetes.io/job-name']") => job,
                Some(other) => panic!("the test does not know the pod's field {other}: add it to this function"),
            };
            all.insert(variable["name"].as_str().unwrap().to_owned(), value.to_owned());
        }
        all
    }

    /// Returns the environment variables that need other values in the test than in the Job's pod: the addresses of the
    /// test's servers, paths in the test's folder, and a single attempt without pauses.
    fn local_variables(&self) -> [(&'static str, String); 8] {
        let folder = self.world.folder.path().to_str().unwrap().to_owned();
        let kubeconfig = std::fs::read_to_string(self.world.cluster().kubeconfig()).unwrap();
        let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
        let cluster = &kubeconfig["clusters"][0]["cluster"];
        let of = |key: &str| cluster[key].as_str().unwrap().to_owned();
        [
            ("KUBERNETES_API", of("server")),
            ("KUBERNETES_CA", of("certificate-authority")),
            ("TOKEN", format!("{folder}/token")),
            ("OS_AUTH_URL", format!("{}/identity/v3", self.openstack.address)),
            ("ATTEMPTS", "1".into()),
            ("PAUSE", "0".into()),
            ("HOME", folder.clone()),
            ("TMPDIR", folder),
        ]
    }

    /// Checks that the certificates and keys that the program created meet Octavia's requirements.
    pub async fn check_certificates(&self) {
        let secret = self.world.api::<Secret>().get("octavia-amphora-certs").await.unwrap();
        let mut check = Command::new(&self.python);
        check.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/operator/octavia/certificates.py"));
        output(check.arg(self.passphrase().await), &serde_json::to_string(&secret).unwrap());
    }
}

/// Runs a command with `input` on standard input, checks that the command succeeds, and returns its standard output.
fn output(mut command: impl std::borrow::BorrowMut<Command>, input: &str) -> String {
    let command = command.borrow_mut();
    let ended = output_with_input(command, input).unwrap();
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}
