//! The HTTPS endpoint of the simulated kubelets, from which the API server reads the logs of pods. One endpoint serves
//! the logs of the pods on all nodes.
//!
//! The log of a container is the value of the pod's annotation `kwok.osdpl.dev/log`, or a default line if the pod has
//! no such annotation. There is one exception: while a pod waits for dependencies, the log of its container `init`
//! lists these dependencies in the format of kubernetes-entrypoint.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::Error;
use crate::folder::Folder;
use crate::waits::PREFIX;

/// Serves the logs of all pods over HTTPS on this port until the process exits.
pub(crate) async fn serve(folder: &Folder, port: u16, client: Client) -> Result<(), Error> {
    let path = folder.pki("kubelet.crt");
    let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(Error::file("listen for", &path))?;
    let listener = Listener { inner, acceptor: acceptor(folder)? };
    let router = Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(logs)).with_state(client);
    axum::serve(listener, router).await.map_err(Error::file("serve with", &path))
}

fn acceptor(folder: &Folder) -> Result<TlsAcceptor, Error> {
    let failed = |reason: String| Error::Certificate { name: "kubelet".into(), reason };
    let certificate = CertificateDer::from_pem_file(folder.pki("kubelet.crt"));
    let certificate = certificate.map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(folder.pki("kubelet.key")).map_err(|error| failed(error.to_string()))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    Ok(TlsAcceptor::from(Arc::new(config.map_err(|error| failed(error.to_string()))?)))
}

/// Accepts TLS connections for the HTTP server of the endpoint.
struct Listener {
    inner: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Ignore a connection whose TLS handshake fails, and wait for the next connection.
            if let Ok((stream, address)) = self.inner.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// The options of a log request (`PodLogOptions`) that the endpoint supports. The endpoint ignores `follow`: a response
/// contains the log as it is now, and then ends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogOptions {
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
    #[serde(default)]
    previous: bool,
}

async fn logs(
    State(client): State<Client>,
    Path((namespace, name, container)): Path<(String, String, String)>,
    Query(options): Query<LogOptions>,
) -> (StatusCode, String) {
    match Api::<Pod>::namespaced(client, &namespace).get(&name).await {
        Ok(pod) => respond(&pod, &container, &options),
        Err(error) => (StatusCode::NOT_FOUND, error.to_string()),
    }
}

fn respond(pod: &Pod, container: &str, options: &LogOptions) -> (StatusCode, String) {
    let refuse = |reason: String| {
        (StatusCode::BAD_REQUEST, format!("container {container:?} in pod {:?} {reason}", pod.name_any()))
    };
    let Some(status) = status(pod, container) else { return refuse("is waiting to start: ContainerCreating".into()) };
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let ran_before = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    match waiting {
        _ if options.previous && !ran_before => refuse("has no previous terminated container".into()),
        Some(waiting) if !ran_before => {
            refuse(format!("is waiting to start: {}", waiting.reason.as_deref().unwrap_or("ContainerCreating")))
        }
        _ => (StatusCode::OK, cut(&text(pod, container), options)),
    }
}

fn status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.find(|status| status.name == container)
}

fn text(pod: &Pod, container: &str) -> String {
    let annotation = |key: &str| pod.annotations().get(&format!("{PREFIX}{key}"));
    if let (Some(missing), "init") = (annotation("waits-for"), container) {
        let line = |dependency: &str| format!("Resolving dependency {dependency} failed\n");
        return missing.split("; ").map(line).collect();
    }
    match annotation("log") {
        Some(log) if log.ends_with('\n') => log.clone(),
        Some(log) => format!("{log}\n"),
        None => format!("simulated container {container} of pod {}\n", pod.name_any()),
    }
}

/// Returns the first `limit_bytes` bytes of the last `tail_lines` lines of a log. Like a kubelet, applies `tail_lines`
/// before `limit_bytes`.
fn cut(text: &str, options: &LogOptions) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let kept = lines.len().min(options.tail_lines.unwrap_or(usize::MAX));
    let mut text = lines[lines.len() - kept..].concat();
    let limit = options.limit_bytes.unwrap_or(usize::MAX);
    if let Some(end) = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end)) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(state: &serde_json::Value, last: &serde_json::Value) -> Pod {
        let container = json!({
            "name": "db-sync", "ready": false, "restartCount": 1, "image": "", "imageID": "",
            "state": state, "lastState": last,
        });
        serde_json::from_value(json!({
            "metadata": { "name": "sync-1", "annotations": { "kwok.osdpl.dev/log": "one\ntwo\nthree" } },
            "status": { "containerStatuses": [container] },
        }))
        .unwrap()
    }

    fn all() -> LogOptions {
        LogOptions { tail_lines: None, limit_bytes: None, previous: false }
    }

    #[test]
    fn waiting_container_has_a_reason_instead_of_a_log() {
        let (code, text) =
            respond(&pod(&json!({"waiting": {"reason": "PodInitializing"}}), &json!({})), "db-sync", &all());
        assert_eq!(code, StatusCode::BAD_REQUEST);
        assert_eq!(text, r#"container "db-sync" in pod "sync-1" is waiting to start: PodInitializing"#);
    }

    #[test]
    fn crash_loop_shows_the_log_of_the_last_run() {
        let pod = pod(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &json!({"terminated": {"exitCode": 1}}));
        assert_eq!(respond(&pod, "db-sync", &all()), (StatusCode::OK, "one\ntwo\nthree\n".into()));
    }

    #[test]
    fn limits_by_lines_and_then_by_bytes() {
        let options = LogOptions { tail_lines: Some(2), limit_bytes: Some(5), previous: false };
        assert_eq!(cut("one\ntwo\nthree\n", &options), "two\nt");
        // A character of which only some bytes are within the limit is removed completely.
        assert_eq!(cut("é", &LogOptions { limit_bytes: Some(1), ..all() }), "");
    }
}
