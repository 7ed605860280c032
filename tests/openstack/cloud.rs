//! The cloud of the current kubeconfig.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cluster::output_with_input;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// The pod with OpenStack's client (`features.client`).
const CLIENT: &str = "deployment/openstack-client";
/// The maximum time for which a test waits for the cluster or the operator.
const PATIENCE: Duration = Duration::from_mins(20);

/// A cloud, by the name and namespace of its `OpenStackDeployment`.
pub struct Cloud {
    pub name: String,
    pub namespace: String,
}

impl Cloud {
    /// Finds the cloud in the cluster of the current kubeconfig, and waits until it is Ready.
    pub fn find() -> Self {
        let cloud = Self::find_any();
        cloud.until_ready();
        cloud
    }

    /// Finds the cloud, even if it is not Ready.
    pub fn find_any() -> Self {
        let all: Value = serde_json::from_str(&run("kubectl", &["get", "osdpl", "-A", "-o", "json"], "")).unwrap();
        let text = |pointer: &str| {
            let value = all["items"][0]["metadata"].pointer(pointer).and_then(Value::as_str);
            value.expect("the cluster has no OpenStackDeployment: create one, for example with `make real`").to_owned()
        };
        Self { name: text("/name"), namespace: text("/namespace") }
    }

    /// Runs kubectl in the cloud's namespace, and returns its standard output.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with `input` as its standard input.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        run("kubectl", &[&["-n", &self.namespace], arguments].concat(), input)
    }

    /// Returns objects as `kubectl get -o json` prints them.
    pub fn get(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[&["get", "-o", "json"], arguments].concat())).unwrap()
    }

    /// Runs osdpl, and returns its standard output.
    pub fn osdpl(&self, arguments: &[&str]) -> String {
        run("osdpl", &[arguments, &["-n", &self.namespace]].concat(), "")
    }

    /// Runs `osdpl smoke`, and returns its standard output.
    pub fn smoke(&self, arguments: &[&str]) -> String {
        let Some(authority) = self.authority() else { return self.osdpl(&[&["smoke"], arguments].concat()) };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, authority).unwrap();
        self.osdpl(&[&["smoke", "--ca", file.path().to_str().unwrap()], arguments].concat())
    }

    /// Returns the certificate of the CA that clients of the APIs trust; `None` if the APIs use http.
    pub fn authority(&self) -> Option<String> {
        let spec = &self.resource()["spec"];
        let enabled = spec["features"]["tls"]["internal"]["enabled"] == true;
        enabled.then(|| self.script("cat $OS_CACERT", &[]))
    }

    /// Runs OpenStack's client, and returns its output as JSON.
    pub fn openstack(&self, arguments: &[&str]) -> Value {
        let command = ["exec", CLIENT, "--", "openstack"];
        serde_json::from_str(&self.kubectl(&[&command, arguments, &["-f", "json"]].concat())).unwrap()
    }

    /// Runs a shell script in the pod with OpenStack's client, and returns its standard output.
    pub fn script(&self, script: &str, arguments: &[&str]) -> String {
        self.try_script(script, arguments).unwrap_or_else(|error| panic!("a script fails: {error}"))
    }

    /// Runs a shell script in the pod with OpenStack's client. Returns its standard output, or its output and standard
    /// error if it fails.
    pub fn try_script(&self, script: &str, arguments: &[&str]) -> Result<String, String> {
        let command = ["-n", &self.namespace, "exec", "-i", CLIENT, "--", "bash", "-eu", "-s", "--"];
        try_run("kubectl", &[&command, arguments].concat(), script)
    }

    /// Starts a shell script in the pod with OpenStack's client. The caller can write to it and read from it.
    pub fn start_script(&self, script: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("kubectl");
        command.args(["-n", &self.namespace, "exec", "-i", CLIENT, "--", "bash", "-c", script, "probe"]);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("cannot run kubectl")
    }

    /// Changes the spec with a JSON merge patch, waits until the cloud is Ready, and returns how long both took.
    pub fn change(&self, spec: &Value) -> Duration {
        let begin = Instant::now();
        let patch = serde_json::json!({"spec": spec}).to_string();
        self.kubectl(&["patch", "osdpl", &self.name, "--type=merge", "--patch", &patch]);
        self.until_ready();
        begin.elapsed()
    }

    /// Replaces the resource with one that [`Self::resource`] returned, waits until the cloud is Ready, and returns how
    /// long both took.
    pub fn replace(&self, resource: &Value) -> Duration {
        let begin = Instant::now();
        self.kubectl_with(&["replace", "-f", "-"], &resource.to_string());
        self.until_ready();
        begin.elapsed()
    }

    /// Waits until the status message of the cloud contains this text, and returns the message.
    pub fn until_message(&self, text: &str) -> String {
        until(&format!("the status message contains {text:?}"), || {
            let cloud = self.get(&["osdpl", &self.name]);
            let message = cloud["status"]["message"].as_str().unwrap_or_default();
            message.contains(text).then(|| message.to_owned())
        })
    }

    /// Returns the `OpenStackDeployment` with its current spec.
    pub fn resource(&self) -> Value {
        let all = self.get(&["osdpl", &self.name]);
        serde_json::json!({
            "apiVersion": all["apiVersion"],
            "kind": all["kind"],
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": all["spec"],
        })
    }

    /// Waits until the cloud is Ready with its current spec.
    pub fn until_ready(&self) {
        self.osdpl(&["wait", "--timeout", "40m"]);
    }

    /// Returns the uid of each pod that belongs to a workload, by the pod's name. Pods of Jobs are not part of it.
    pub fn pods(&self) -> BTreeMap<String, String> {
        let all = self.get(&["pods"]);
        let of_job = |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"] == "Job";
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = all["items"].as_array().unwrap().iter().filter(|pod| !of_job(pod));
        items.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect()
    }

    /// Returns the longest time that a pod needed from its creation until it was ready. Leaves out the pods in `before`.
    pub fn slowest_start(&self, before: &BTreeMap<String, String>) -> Duration {
        let all = self.get(&["pods"]);
        let time = |value: &Value| -> Option<Timestamp> { value.as_str()?.parse().ok() };
        let start = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array()?;
            let ready = conditions.iter().find(|one| one["type"] == "Ready" && one["status"] == "True")?;
            let seconds =
                time(&ready["lastTransitionTime"])?.duration_since(time(&pod["metadata"]["creationTimestamp"])?);
            Duration::try_from(seconds).ok()
        };
        let pods = all["items"].as_array().unwrap().iter().filter(|pod| is_new(pod, before));
        pods.filter_map(start).max().unwrap_or_default()
    }
}

/// Whether a pod is not in `before`, which [`Cloud::pods`] has returned earlier.
pub fn is_new(pod: &Value, before: &BTreeMap<String, String>) -> bool {
    !before.values().any(|uid| pod["metadata"]["uid"] == **uid)
}

/// Kills all pods of the operator without a grace period.
pub fn kill_operator() {
    let pods = ["delete", "pods", "-A", "-l", "app.kubernetes.io/name=osdpl"];
    let kill = [&pods[..], &["--force", "--grace-period=0", "--wait=false"]].concat();
    println!("  {}", run("kubectl", &kill, "").trim().replace('\n', "; "));
}

/// Reads the cluster each second until `find` returns a value, and returns the value.
pub fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Runs a program with `input` as its standard input, and returns its standard output. Panics with the standard error
/// of the program if the program fails.
pub fn run(program: &str, arguments: &[&str], input: &str) -> String {
    match try_run(program, arguments, input) {
        Ok(output) => output,
        Err(error) => panic!("{program} {}: {error}", arguments.join(" ")),
    }
}

/// Runs a program with `input` as its standard input. Returns its standard output, or its exit status, output
/// and standard error if it fails.
pub fn try_run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let output = output_with_input(Command::new(program).args(arguments), input)
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}; `make test-real` sets PATH"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr)))
    }
}
