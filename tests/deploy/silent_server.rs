//! Runs commands against an API server that accepts connections and never responds.

use std::net::TcpListener;
use std::process::Command;

#[test]
fn commands_end_if_the_server_never_responds() {
    // The kernel accepts the connections, and no program reads the requests.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\nusers: \
         [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let expected =
        format!("the API server at http://{address} does not answer: it did not respond in time; check that");
    for arguments in [
        &["status"][..],
        &["plan"],
        &["why"],
        &["approve"],
        &["wait"],
        &["diff"],
        &["detach", "--all"],
        &["forget", "node-1"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.args(arguments).args(["--request-timeout", "1"]).env("KUBECONFIG", &kubeconfig).env_remove("RUST_LOG");
        for proxy in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(proxy);
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(&expected), "{arguments:?}: {stderr}");
    }
}
