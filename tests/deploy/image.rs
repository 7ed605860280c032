//! Assembles the root filesystem of the operator's container image, and runs the operator in it as a kubelet would:
//! read-only, as user 65532, as PID 1, and with only the rights that the operator's chart grants.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cluster::{Cluster, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use crate::path;
use crate::render::{HELMS, helm, program};

/// Assembles the image's root filesystem with this build's osdpl, helm 4 and the charts in `tests/charts`.
fn root(folder: &Path) -> Result<(), String> {
    let output = Command::new(path("deploy/image-root"))
        .arg(folder)
        .args(["--osdpl", env!("CARGO_BIN_EXE_osdpl"), "--helm"])
        .arg(program(HELMS[0]))
        .arg("--charts")
        .arg(path("tests/charts"))
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
}

#[test]
fn image_root_is_complete_and_replaces_only_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    root(&image).unwrap();
    root(&image).unwrap();
    for file in
        ["usr/local/bin/osdpl", "usr/local/bin/helm", "usr/local/bin/kubectl-osdpl", "lib64/ld-linux-x86-64.so.2"]
    {
        let mode = image.join(file).metadata().unwrap_or_else(|error| panic!("{file}: {error}")).permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{file}");
    }
    for file in
        ["etc/passwd", "etc/ssl/certs/ca-certificates.crt", "usr/share/osdpl/charts/nova/charts/stand-in/Chart.yaml"]
    {
        assert!(image.join(file).is_file(), "{file}");
    }
    assert!(!image.join("bin/sh").exists(), "the image must have no shell");
    let foreign = folder.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter"), "dear").unwrap();
    assert!(root(&foreign).unwrap_err().contains("is not empty and not an image root; name another folder"));
    assert!(foreign.join("letter").exists());
}

/// The operator in its container; dropping this value stops it.
struct Contained(Child);

impl Contained {
    fn start(image: &Path, account: &Path, port: &str, listen: &str) -> Self {
        let mut command = Command::new(path("tests/deploy/confined"));
        command.arg(image).arg(account).args(["/usr/local/bin/osdpl", "operator"]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
        command
            .env("POD_NAME", "osdpl-0")
            .env("POD_NAMESPACE", "osdpl-system")
            .env("POD_UID", "7a1c5c3e-0000-4000-8000-000000000001");
        command.env("OSDPL_CHARTS", "/usr/share/osdpl/charts").env("OSDPL_LISTEN", listen);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    /// Sends SIGTERM to PID 1 of the container, as a kubelet does, and returns the exit status of PID 1.
    fn stop(mut self) -> std::process::ExitStatus {
        let unshare = self.0.id();
        let inside = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
        assert!(Command::new("kill").arg("-TERM").arg(inside.trim()).status().unwrap().success());
        self.0.wait().unwrap()
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // The child process is `unshare --kill-child`. When it is killed, the operator is killed, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a control plane, and installs the operator's own chart. Writes the files of the operator's service account
/// into the folder `account`, as a kubelet mounts them. Returns the control plane and the port of its API server.
async fn installed(account: &Path) -> (Cluster, String) {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let chart = path("deploy/osdpl");
    let arguments = [
        "install",
        "osdpl",
        chart.to_str().unwrap(),
        "--namespace",
        "osdpl-system",
        "--create-namespace",
        "--set",
        "rbac.clusterWide=true",
        "--kubeconfig",
        kubeconfig,
    ];
    helm(HELMS[0], &arguments, "").unwrap();
    let token = cluster.token("osdpl-system", "osdpl").await.unwrap();
    std::fs::write(account.join("token"), token).unwrap();
    std::fs::write(account.join("namespace"), "osdpl-system").unwrap();
    let authorities: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let there = |found: Option<&ConfigMap>| found.is_some();
    let authority = await_condition(authorities, "kube-root-ca.crt", there).await.unwrap().unwrap();
    std::fs::write(account.join("ca.crt"), &authority.data.unwrap()["ca.crt"]).unwrap();
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let port = text
        .lines()
        .find_map(|line| line.split("https://127.0.0.1:").nth(1))
        .unwrap()
        .trim()
        .trim_matches('"')
        .to_owned();
    (cluster, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_runs_in_the_image_and_stops_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (image, account) = (folder.path().join("image"), folder.path().join("account"));
    std::fs::create_dir(&account).unwrap();
    root(&image).unwrap();
    let (cluster, port) = installed(&account).await;
    let operator = Contained::start(&image, &account, &port, "127.0.0.1:0");
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "openstack"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let api: Api<OpenStackDeployment> = Api::namespaced(cluster.client(), "openstack");
    let cloud = serde_json::from_value(json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud"},
        "spec": {"openstackRelease": "2026.1", "services": {"memcached": {"enabled": true}}},
    }));
    api.create(&PostParams::default(), &cloud.unwrap()).await.unwrap();
    let ready = |cloud: Option<&OpenStackDeployment>| {
        let status = cloud.and_then(|cloud| cloud.status.as_ref());
        status.is_some_and(|status| status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    };
    let cloud = await_condition(api.clone(), "cloud", ready).await.unwrap().unwrap();
    assert_eq!(cloud.status.as_ref().unwrap().releases, "1/1");
    api.delete("cloud", &DeleteParams::default()).await.unwrap();
    await_condition(api, "cloud", conditions::is_deleted(&cloud.uid().unwrap())).await.unwrap();
    assert!(operator.stop().success(), "the operator as PID 1 must handle SIGTERM and exit with success");
}
