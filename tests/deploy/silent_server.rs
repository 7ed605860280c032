//! Runs commands against an API server that never responds, stops responding, refuses all requests, or fails while a
//! command watches, and with a credential plugin that does not end.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::resource;

/// A response: the status code and the body.
type Answer = (u16, String);

/// The cause that a command reports when its own time limit (`--request-timeout 1`) ends a request. If only the timeout
/// of the connection, 75 s, ended the request, the command would report `timed out`.
const TIMED_OUT: &str = "no response within 1 s";

/// Runs a command of osdpl against the server at this address. osdpl waits at most one second for a response.
fn run(address: SocketAddr, arguments: &[&str]) -> Output {
    run_as("{}", address, arguments)
}

/// Runs a command like [`run`], with a kubeconfig that has this user.
fn run_as(user: &str, address: SocketAddr, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\nusers: \
         [{{name: a, user: {user}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let mut command = Command::new(program());
    command.args(arguments).args(["--request-timeout", "1"]).env("KUBECONFIG", &kubeconfig).env_remove("RUST_LOG");
    for proxy in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    command.output().unwrap()
}

/// Returns the path of osdpl: the value of the environment variable `OSDPL_PROGRAM`, or the program that cargo built.
fn program() -> std::ffi::OsString {
    std::env::var_os("OSDPL_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_osdpl").into())
}

/// Runs a command that must fail with an error that contains `expected`.
fn check_failure(address: SocketAddr, arguments: &[&str], expected: &str) {
    let output = run(address, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains(expected), "{arguments:?}: {stderr}");
}

/// Starts a server that sends the response `answer(n)` to request number `n`, and asks clients to wait 100 s before
/// they try again. Returns the server's address, and a counter of the requests that it has received.
fn serve(answer: impl Fn(usize) -> Answer + Send + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counter = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            // Read until the empty line after the head of the request. osdpl's requests in these tests have no body.
            while stream.read_line(&mut line).unwrap_or_default() > 2 {
                line.clear();
            }
            let (code, body) = answer(counter.fetch_add(1, Ordering::SeqCst));
            let head = "Retry-After: 100\r\nConnection: close\r\nContent-Type: application/json";
            // Ignore errors: the client may have ended already.
            drop(write!(
                stream.get_mut(),
                "HTTP/1.1 {code} A\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    (address, requests)
}

/// Returns the response to a request that lists all `OpenStackDeployment`s: the list of `items`.
fn list(items: &[serde_json::Value]) -> Answer {
    let list = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeploymentList",
        "metadata": {"resourceVersion": "1"}, "items": items});
    (200, list.to_string())
}

/// The failure of the server of `serve_until`. The failure begins with one request and affects all later requests.
#[derive(Clone, Copy)]
enum Outage {
    /// The server does not respond, and keeps all connections open.
    Silent,
    /// The server responds that it is unavailable. Established watches stay open, and report nothing.
    Unavailable,
}

/// Starts an API server that has only one object, the OpenStackDeployment `cloud` in the namespace `site`. The outage
/// begins with the first request whose target (path and query) `starts_outage` accepts. Returns the server's address.
fn serve_until(starts_outage: fn(&str) -> bool, outage: Outage) -> SocketAddr {
    let mut cloud = resource("{openstackRelease: '2026.1', presets: [core]}");
    cloud["metadata"] = json!({"name": "cloud", "namespace": "site", "generation": 1});
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut is_out, mut open) = (false, Vec::new());
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while stream.read_line(&mut head).unwrap_or_default() > 2 {}
            let target = head.split(' ').nth(1).unwrap_or_default();
            is_out |= starts_outage(target);
            let (code, body) = match (is_out, outage) {
                (true, Outage::Silent) => {
                    open.push(stream);
                    continue;
                }
                (true, Outage::Unavailable) => (503, "down".to_owned()),
                (false, _) if target.contains("/openstackdeployments?") => list(&[cloud.clone()]),
                (false, _) if target == "/api/v1/namespaces/site" => {
                    (200, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "site"}}).to_string())
                }
                (false, _) => list(&[]),
            };
            let head = format!("HTTP/1.1 {code} A\r\nConnection: close\r\nContent-Type: application/json\r\n");
            if !is_out && target.contains("watch=true") {
                drop(write!(stream.get_mut(), "{head}\r\n"));
                open.push(stream);
            } else {
                drop(write!(stream.get_mut(), "{head}Content-Length: {}\r\n\r\n{body}", body.len()));
            }
        }
    });
    address
}

/// Whether a request lists the Secrets with osdpl's label. Commands that read the whole cloud send this request.
fn lists_own_secrets(target: &str) -> bool {
    target.starts_with("/api/v1/namespaces/site/secrets?") && target.contains("osdpl.dev%2Fdeployment")
}

#[test]
fn commands_end_if_the_server_fails_while_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let render = ["render", "--credentials", "--out", out.to_str().unwrap()];
    for arguments in [&["plan"][..], &["why"], &["diff"], &["explain", "keystone", "pod.replicas.api"], &render] {
        let address = serve_until(lists_own_secrets, Outage::Silent);
        check_failure(address, arguments, "the cluster could not be read within 1 s: the API server did not send all");
    }
    let unavailable = serve_until(lists_own_secrets, Outage::Unavailable);
    check_failure(unavailable, &["plan"], "the cluster could not be read within 1 s: the API server did not send all");
    let starts: [fn(&str) -> bool; 4] = [
        |target| target.contains("/pods?") && target.ends_with("limit=1"),
        |target| target.contains("/leases?"),
        |target| target == "/api/v1/namespaces/site",
        |target| target.contains("/statefulsets?") && !target.ends_with("limit=1"),
    ];
    for starts_outage in starts {
        check_failure(serve_until(starts_outage, Outage::Silent), &["plan"], "within 1 s");
    }
}

#[test]
fn watching_commands_end_if_the_server_stops_responding() {
    let starts: [fn(&str) -> bool; 2] = [
        |target| target.contains("fieldSelector=metadata.name") && !target.contains("watch=true"),
        // This request reads the resource because the watch has reported nothing for a second.
        |target| target.ends_with("/namespaces/site/openstackdeployments/cloud"),
    ];
    for command in [&["status", "--watch"][..], &["wait"]] {
        for starts_outage in starts {
            let address = serve_until(starts_outage, Outage::Silent);
            let expected = format!("the API server at http://{address} does not answer: {TIMED_OUT}");
            check_failure(address, command, &format!("watching OpenStackDeployment site/cloud: {expected}"));
        }
    }
}

#[test]
fn commands_end_if_the_server_never_responds() {
    // This server never responds: the kernel accepts connections, but no program reads the requests.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let expected = format!("the API server at http://{address} does not answer: {TIMED_OUT}; check that");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for arguments in [
        &["status"][..],
        &["plan"],
        &["why"],
        &["approve"],
        &["wait"],
        &["diff"],
        &["detach", "--all"],
        &["forget", "node-1"],
        &["openrc"],
        &["smoke"],
        &["adopt", "keystone"],
        &["explain", "keystone", "pod.replicas.api"],
        &["catalog", "--namespace", "site"],
        &["render", "--credentials", "--out", out.to_str().unwrap()],
    ] {
        check_failure(address, arguments, &expected);
    }
    check_failure(address, &["adopt"], &format!("the API server does not answer: ServiceError: {TIMED_OUT}"));
}

#[test]
fn commands_end_if_the_credential_plugin_hangs() {
    let (address, requests) = serve(|_| list(&[]));
    let version = "client.authentication.k8s.io/v1";
    let user = format!("{{exec: {{apiVersion: {version}, command: sleep, args: ['60'], interactiveMode: Never}}}}");
    for command in ["status", "plan"] {
        let output = run_as(&user, address, &[command]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = "the credential plugin \"sleep\" of the kubeconfig did not answer within 1 s; run it by hand";
        assert!(!output.status.success() && stderr.contains(expected), "{command}: {stderr}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

#[test]
fn commands_end_if_the_server_is_unavailable() {
    let (address, requests) = serve(|_| (503, "<html>503 Service Unavailable</html>".into()));
    let expected = format!("the API server at http://{address} can't process the request: 503 without a reason; check");
    for arguments in [&["status"][..], &["plan"], &["wait"]] {
        let before = requests.load(Ordering::SeqCst);
        check_failure(address, arguments, &expected);
        let sent = requests.load(Ordering::SeqCst) - before;
        assert!(sent <= 4, "{arguments:?} must send a request at most four times, not {sent} times");
    }
}

#[test]
fn watching_commands_end_if_the_server_fails() {
    let mut cloud = resource("{openstackRelease: '2026.1'}");
    cloud["metadata"]["namespace"] = "site".into();
    for command in [&["status", "--watch"][..], &["wait"]] {
        for (code, why) in [(401, "token expired"), (503, "503 token expired")] {
            let found = list(&[cloud.clone()]);
            let refusal = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
                "reason": "", "message": "token expired"});
            let answer = move |request| if request == 0 { found.clone() } else { (code, refusal.to_string()) };
            let (address, _) = serve(answer);
            let expected = match code {
                503 => format!("the API server at http://{address} can't process the request: {why}"),
                _ => why.to_owned(),
            };
            check_failure(address, command, &format!("watching OpenStackDeployment site/cloud: {expected}"));
        }
    }
}

#[test]
fn watching_commands_end_if_the_resource_is_deleted() {
    let mut cloud = resource("{openstackRelease: '2026.1'}");
    cloud["metadata"]["namespace"] = "site".into();
    for command in [&["status", "--watch"][..], &["wait"]] {
        let found = list(&[cloud.clone()]);
        let (address, _) = serve(move |request| if request == 0 { found.clone() } else { list(&[]) });
        check_failure(address, command, "OpenStackDeployment site/cloud does not exist any more: someone deleted it");
    }
}
