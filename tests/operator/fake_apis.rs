//! Fake APIs of Keystone, Nova, Neutron and other services on one port. Tests choose how the fake API of each Service
//! responds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::nova::{ApiRequest, Nova};

/// The behaviour of the fake API of a Service: it responds to requests normally, with status 503 (`Unavailable`), or
/// never (`Silent`).
#[derive(Clone, Copy, PartialEq)]
pub enum Behaviour {
    Normal,
    Unavailable,
    Silent,
}

/// The HTTP server of all fake APIs. When this value is dropped, the server stops, and the operator's connections are
/// refused.
pub struct FakeApis {
    pub address: SocketAddr,
    /// The hosts and instances that the fake APIs of Nova and Neutron report.
    pub nova: Arc<Nova>,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    /// The behaviour of the fake API of each Service. The key is the name of the Service. The API of a Service that is
    /// not in this map responds normally.
    behaviours: Mutex<BTreeMap<String, Behaviour>>,
    /// The service types in the fake Keystone's catalogue, such as `image`.
    types: Mutex<Vec<&'static str>>,
    /// The bodies of the token requests to Keystone, oldest first.
    logins: Mutex<Vec<Value>>,
    requests: watch::Sender<u64>,
    tls: TlsAcceptor,
    nova: Arc<Nova>,
}

impl FakeApis {
    pub async fn start(types: &[&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nova = Arc::<Nova>::default();
        let shared = Arc::new(Shared {
            behaviours: Mutex::default(),
            types: Mutex::new(types.to_vec()),
            logins: Mutex::default(),
            requests: watch::channel(0).0,
            tls: acceptor(),
            nova: Arc::clone(&nova),
        });
        let (address, state) = (listener.local_addr().unwrap(), Arc::clone(&shared));
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        Self { address, nova, shared, server }
    }

    pub fn set_behaviour(&self, service: &str, behaviour: Behaviour) {
        self.shared.behaviours.lock().unwrap().insert(service.into(), behaviour);
    }

    pub fn set_catalogue(&self, types: &[&'static str]) {
        *self.shared.types.lock().unwrap() = types.to_vec();
    }

    pub fn logins(&self) -> Vec<Value> {
        self.shared.logins.lock().unwrap().clone()
    }

    /// Waits until the server has responded to `more` further requests.
    pub async fn wait_for_requests(&self, more: u64) {
        let mut requests = self.shared.requests.subscribe();
        let last = *requests.borrow() + more;
        requests.wait_for(|count| *count >= last).await.unwrap();
    }
}

impl Drop for FakeApis {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns a TLS acceptor with a self-signed certificate, which clients do not trust.
fn acceptor() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["other.example.org".into()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap()))
}

/// Serves one connection. Uses TLS if the client begins with a TLS handshake.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    if stream.peek(&mut first).await.is_ok_and(|read| read > 0) {
        if first[0] == HANDSHAKE {
            if let Ok(stream) = shared.tls.accept(stream).await {
                respond(stream, &shared).await;
            }
        } else {
            respond(stream, &shared).await;
        }
    }
}

/// Responds to one request. Does nothing if the client has disconnected.
async fn respond(stream: impl AsyncRead + AsyncWrite + Unpin, shared: &Shared) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut line) = (Vec::new(), String::new());
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
        head.push(line.trim_end().to_lowercase());
        line.clear();
    }
    let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let length = header("content-length: ").parse().unwrap_or(0);
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    let service = header("host: ").split('.').next().unwrap_or_default();
    let behaviour = shared.behaviours.lock().unwrap().get(service).copied().unwrap_or(Behaviour::Normal);
    let line = head.first().map_or("", String::as_str).trim_end_matches(" http/1.1");
    let (verb, path) = line.split_once(' ').unwrap_or_default();
    let mut headers = String::new();
    let (status, body) = match (behaviour, line) {
        (Behaviour::Silent, _) => return std::future::pending().await,
        (Behaviour::Unavailable, _) => ("503 Service Unavailable", json!({})),
        (Behaviour::Normal, "get /v3") => ("200 OK", json!({"version": {"id": "v3.14", "status": "stable"}})),
        (Behaviour::Normal, "post /v3/auth/tokens") => {
            let (token, expires) = shared.nova.token();
            headers = format!("X-Subject-Token: {token}\r\n");
            shared.logins.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            let types = shared.types.lock().unwrap().clone();
            let entry = |type_: &&str| json!({"type": type_, "endpoints": [{"interface": "internal"}]});
            let catalog: Vec<_> = types.iter().map(entry).collect();
            ("201 Created", json!({"token": {"catalog": catalog, "expires_at": expires}}))
        }
        (Behaviour::Normal, _) if path.starts_with("/v2.") => {
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (token, version) = (header("x-auth-token: "), header("x-openstack-nova-api-version: "));
            shared.nova.respond(&ApiRequest { service, verb, path, token, version, body: &body })
        }
        (Behaviour::Normal, _) => ("200 OK", json!({"versions": []})),
    };
    let body = body.to_string();
    let response =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    drop(stream.write_all(response.as_bytes()).await);
    drop(stream.shutdown().await);
    shared.requests.send_modify(|count| *count += 1);
}
