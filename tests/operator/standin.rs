//! A stand-in for the APIs of services: answers as it is told, to whatever Service was meant.

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

use crate::nova::{Asked, Nova};

/// How a service answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    Well,
    Badly,
    Never,
}

/// The server; it ends, and refuses connections, when this is dropped.
pub struct StandIn {
    pub address: SocketAddr,
    /// The cloud behind it.
    pub nova: Arc<Nova>,
    told: Arc<Told>,
    server: JoinHandle<()>,
}

struct Told {
    /// By the Service's name; those that are not named answer well.
    manners: Mutex<BTreeMap<String, Manner>>,
    /// The types of services in Keystone's catalogue.
    types: Mutex<Vec<&'static str>>,
    /// The bodies of requests for a token.
    logins: Mutex<Vec<Value>>,
    asked: watch::Sender<u64>,
    tls: TlsAcceptor,
    nova: Arc<Nova>,
}

impl StandIn {
    pub async fn start(types: &[&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nova = Arc::<Nova>::default();
        let told = Arc::new(Told {
            manners: Mutex::default(),
            types: Mutex::new(types.to_vec()),
            logins: Mutex::default(),
            asked: watch::channel(0).0,
            tls: acceptor(),
            nova: Arc::clone(&nova),
        });
        let (address, shared) = (listener.local_addr().unwrap(), Arc::clone(&told));
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, nova, told, server }
    }

    pub fn answers(&self, service: &str, manner: Manner) {
        self.told.manners.lock().unwrap().insert(service.into(), manner);
    }

    pub fn catalogue(&self, types: &[&'static str]) {
        *self.told.types.lock().unwrap() = types.to_vec();
    }

    pub fn logins(&self) -> Vec<Value> {
        self.told.logins.lock().unwrap().clone()
    }

    /// Returns when so many more requests were answered.
    pub async fn answered(&self, more: u64) {
        let mut asked = self.told.asked.subscribe();
        let until = *asked.borrow() + more;
        asked.wait_for(|count| *count >= until).await.unwrap();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A certificate that nobody trusts.
fn acceptor() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["elsewhere.example.org".into()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap()))
}

/// TLS where the other side begins it.
async fn serve(stream: TcpStream, told: Arc<Told>) {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    if stream.peek(&mut first).await.is_ok_and(|read| read > 0) {
        if first[0] == HANDSHAKE {
            if let Ok(stream) = told.tls.accept(stream).await {
                answer(stream, &told).await;
            }
        } else {
            answer(stream, &told).await;
        }
    }
}

/// One request, one answer; whoever does not wait for it has gone.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, told: &Told) {
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
    let manner = told.manners.lock().unwrap().get(service).copied().unwrap_or(Manner::Well);
    let line = head.first().map_or("", String::as_str).trim_end_matches(" http/1.1");
    let (verb, path) = line.split_once(' ').unwrap_or_default();
    let mut more = String::new();
    let (status, answer) = match (manner, line) {
        (Manner::Never, _) => return std::future::pending().await,
        (Manner::Badly, _) => ("503 Service Unavailable", json!({})),
        (Manner::Well, "get /v3") => ("200 OK", json!({"version": {"id": "v3.14", "status": "stable"}})),
        (Manner::Well, "post /v3/auth/tokens") => {
            let (token, expires) = told.nova.token();
            more = format!("X-Subject-Token: {token}\r\n");
            told.logins.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            let types = told.types.lock().unwrap().clone();
            let entry = |type_: &&str| json!({"type": type_, "endpoints": [{"interface": "internal"}]});
            let catalog: Vec<_> = types.iter().map(entry).collect();
            ("201 Created", json!({"token": {"catalog": catalog, "expires_at": expires}}))
        }
        (Manner::Well, _) if path.starts_with("/v2.") => {
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (token, version) = (header("x-auth-token: "), header("x-openstack-nova-api-version: "));
            told.nova.answer(&Asked { service, verb, path, token, version, body: &body })
        }
        (Manner::Well, _) => ("200 OK", json!({"versions": []})),
    };
    let answer = answer.to_string();
    let answer =
        format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{answer}", answer.len());
    drop(stream.write_all(answer.as_bytes()).await);
    drop(stream.shutdown().await);
    told.asked.send_modify(|count| *count += 1);
}
