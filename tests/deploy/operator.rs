//! Runs the operator's process without a cluster.

use std::path::Path;
use std::process::Command;

use crate::{path, read};

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: lab\ncontexts: [{name: lab, context: {cluster: lab, user: me}}]\nusers: [{name: me, user: {}}]\n";

/// Starts an operator without a cluster; returns the error output with which it ends.
fn start(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.args(["operator", "--namespace", "osdpl", "--listen", "127.0.0.1:0"]).args(arguments);
    for name in ["OSDPL_ALLOW_HTTP_CHARTS", "OSDPL_CATALOG", "OSDPL_CHARTS"] {
        command.env_remove(name);
    }
    let output = command.env("KUBECONFIG", "/nowhere").output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn refuses_an_http_repository_unless_it_is_allowed() {
    let start = |extra: &[&str]| start(&[&["--charts", "http://127.0.0.1:1"], extra].concat());
    let refused = start(&[]);
    let expected = "charts: \"http://127.0.0.1:1\" is not encrypted, so anyone on the network could replace its charts";
    assert!(refused.contains(expected) && refused.contains("--allow-http-charts"), "{refused}");
    let allowed = start(&["--allow-http-charts"]);
    assert!(allowed.contains("no cluster to connect to"), "{allowed}");
}

/// The operator refuses an `http://` repository in the chart lock (`values/lock.yaml`) even if the lock contains the
/// chart's digest. The reason: the spec can name another version of the chart, for which the lock contains no digest.
#[test]
fn refuses_an_http_repository_in_the_lock_unless_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let link = |name: &str| std::os::unix::fs::symlink(path(name), folder.path().join(name)).unwrap();
    std::fs::create_dir(folder.path().join("values")).unwrap();
    link("presets");
    for entry in std::fs::read_dir(path("values")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "lock.yaml" {
            link(&format!("values/{name}"));
        }
    }
    let entry = format!(
        "charts:\n  podinfo: {{version: 1.0.0, repository: 'http://charts.example', digest: 'sha256:{}'}}\n",
        "0".repeat(64)
    );
    let lock = read("values/lock.yaml").replacen("charts:\n", &entry, 1);
    std::fs::write(folder.path().join("values/lock.yaml"), lock).unwrap();
    let start = |extra: &[&str]| start(&[&["--catalog", folder.path().to_str().unwrap()], extra].concat());
    let refused = start(&[]);
    let expected = "values/lock.yaml: charts.podinfo.repository: charts: \"http://charts.example\" is not encrypted";
    assert!(refused.contains(expected) && refused.contains("--allow-http-charts"), "{refused}");
    let allowed = start(&["--allow-http-charts"]);
    assert!(allowed.contains("no cluster to connect to"), "{allowed}");
}

#[test]
fn reports_a_missing_api_server_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    // No process listens on port 1: only root may bind it, and the kernel never assigns it as a free port.
    let address = "127.0.0.1:1";
    let (kubeconfig, cache) = (home.path().join("kubeconfig"), home.path().join("cache"));
    let clusters = format!("clusters: [{{name: lab, cluster: {{server: 'http://{address}'}}}}]\n");
    std::fs::write(&kubeconfig, format!("{KUBECONFIG}{clusters}")).unwrap();
    std::fs::create_dir_all(cache.join("helm")).unwrap();
    std::fs::write(cache.join("helm/script"), "echo v4.3.1\n").unwrap();
    let helm = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operator/helm/fake/helm.sh");
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command
        .args(["operator", "--namespace", "osdpl", "--plain-logs", "--listen", "127.0.0.1:0", "--helm"])
        .arg(helm)
        .arg("--cache")
        .arg(cache);
    command.env("KUBECONFIG", kubeconfig).env_remove("OSDPL_CATALOG").env_remove("NO_COLOR").env_remove("RUST_LOG");
    // The operator must not connect through a proxy that the environment of the test sets.
    for proxy in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    let expected = format!("reading the operator's Lease: the API server at http://{address} does not answer: ");
    assert!(stderr.contains(&expected), "{stderr}");
    assert!(
        stderr.contains("check that it runs") && stderr.contains("(KUBECONFIG, or the pod's own cluster)"),
        "{stderr}"
    );
    assert!(stderr.contains(" INFO ") && !stderr.contains('\u{1b}'), "{stderr}");
}
