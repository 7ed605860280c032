//! A proxy between the API server and two kinds of clients: the operator and its helm processes. A test sets one rule,
//! which decides what the proxy does with each request.
//!
//! The proxy terminates TLS with its own certificate, and passes requests and responses on unchanged. For each
//! connection of a client, the proxy opens a separate connection to the API server. If either of these two connections
//! ends, the proxy ends the other one.

mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::service::service_fn;
use hyper::{Method, Response, Uri};
use hyper_util::rt::TokioIo;
use kube::config::Kubeconfig;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::world::World;

/// The number of status writes that the API server refuses in tests of what the operator does before such a write. The
/// operator sends a refused write four times in a pass, so this number includes writes of a second pass.
pub const REFUSALS: usize = 6;

/// A running proxy. When this value is dropped, all of its connections are closed.
pub struct Proxy {
    /// The path of a kubeconfig with the operator's identity and the proxy's address.
    pub kubeconfig: PathBuf,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// The properties of a request from which a rule determines the answer. The text of this value (`Display`) consists of
/// the client, the method and the path.
#[derive(Clone)]
pub struct Request {
    pub method: Method,
    pub uri: Uri,
    /// The header `User-Agent`, which begins with `Helm/` if helm sent the request.
    pub agent: String,
    /// The number of the client's connection. The first connection to the proxy has the number 0.
    pub connection: u64,
}

/// The reaction of the proxy to a request.
pub enum Answer {
    /// Forwards the request, and delivers the response.
    Forward,
    /// Forwards the request, waits for the response, calls the given function, and never delivers the response.
    Lose(Box<dyn FnOnce() + Send>),
    /// Does not forward the request, and responds with this HTTP status, as the API server would. With status 429, the
    /// response has the header `Retry-After: 1`.
    Refuse(u16),
    /// Does not forward the request, and never responds.
    Stall,
}

type Rule = Box<dyn FnMut(&Request) -> Answer + Send>;

struct Shared {
    rule: Mutex<Rule>,
    /// The number of connections that clients have opened so far.
    opened: AtomicU64,
    /// The proxy stalls each connection whose number is smaller than this value.
    stalled: Arc<AtomicU64>,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    api_server: SocketAddr,
}

impl Proxy {
    /// Starts a proxy for the operators of this test. The proxy forwards all requests until the test sets a rule.
    pub async fn start(world: &World) -> Self {
        let mut kubeconfig = Kubeconfig::read_from(&world.plane().operator).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (acceptor, certificate) = acceptor();
        let folder = world.folder.path();
        let (authority, path) = (folder.join("proxy.crt"), folder.join("proxy.kubeconfig"));
        std::fs::write(&authority, certificate).unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let api_server = cluster.server.replace(address).unwrap();
        let trusted = cluster.certificate_authority.replace(authority.display().to_string()).unwrap();
        std::fs::write(&path, json!(kubeconfig).to_string()).unwrap();
        let shared = Arc::new(Shared {
            rule: Mutex::new(Box::new(|_| Answer::Forward)),
            opened: AtomicU64::new(0),
            stalled: Arc::default(),
            acceptor,
            connector: connector(&trusted),
            api_server: api_server.strip_prefix("https://").unwrap().parse().unwrap(),
        });
        let server = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { kubeconfig: path, shared, server }
    }

    /// Refuses all writes of the status with 503. The returned receiver contains the number of refused writes.
    pub fn refuse_status_writes(&self) -> watch::Receiver<usize> {
        let (refused, count) = watch::channel(0);
        self.set_rule(move |request| {
            if !request.is_status_write() {
                return Answer::Forward;
            }
            refused.send_modify(|count| *count += 1);
            Answer::Refuse(503)
        });
        count
    }

    /// Sets the rule for all requests that arrive from now on.
    pub fn set_rule(&self, rule: impl FnMut(&Request) -> Answer + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// Drops the packets of all connections that are open now, in both directions. New connections work.
    pub fn stall_open_connections(&self) {
        self.shared.stalled.store(self.shared.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Request {
    /// Whether the request changes objects. A dry run changes nothing.
    pub fn is_write(&self) -> bool {
        let is_dry = self.uri.query().is_some_and(|query| query.contains("dryRun="));
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE) && !is_dry
    }

    /// Whether the request writes the status of an `OpenStackDeployment`.
    pub fn is_status_write(&self) -> bool {
        let path = self.uri.path();
        self.is_write() && path.contains("/openstackdeployments/") && path.ends_with("/status")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = self.agent.split('/').next().unwrap_or_default();
        write!(formatter, "{client} {} {}", self.method, self.uri.path())
    }
}

/// Returns a TLS acceptor with a new certificate, and the certificate in PEM.
fn acceptor() -> (TlsAcceptor, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    (TlsAcceptor::from(Arc::new(config)), certificate.pem())
}

/// Returns a TLS connector that trusts the certificate in the file `trusted`.
pub fn connector(trusted: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    TlsConnector::from(Arc::new(config.with_no_client_auth()))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let number = shared.opened.fetch_add(1, Ordering::SeqCst);
                let stream = Stallable { stream: accepted.unwrap().0, number, stalled: Arc::clone(&shared.stalled) };
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
            Some(ended) = connections.join_next() => { ended.unwrap(); }
        }
    }
}

/// Serves a connection until the client or the API server ends it. Returns `None` if the connection to the client or to
/// the API server fails.
async fn serve(stream: Stallable, shared: Arc<Shared>) -> Option<()> {
    let number = stream.number;
    let client = shared.acceptor.accept(stream).await.ok()?;
    let stream = TcpStream::connect(shared.api_server).await.ok()?;
    let name = ServerName::IpAddress(shared.api_server.ip().into());
    let stream = shared.connector.connect(name, stream).await.ok()?;
    let (sender, api_server) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let sender = tokio::sync::Mutex::new(sender);
    let service = service_fn(|request| respond(request, number, &shared, &sender));
    let mut client = pin!(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), service));
    tokio::select! {
        _ = client.as_mut() => return Some(()),
        _ = api_server => client.as_mut().graceful_shutdown(),
    }
    client.await.ok()
}

async fn respond(
    request: hyper::Request<Incoming>,
    connection: u64,
    shared: &Shared,
    sender: &tokio::sync::Mutex<SendRequest<Incoming>>,
) -> Result<Response<Either<Incoming, Full<Bytes>>>, hyper::Error> {
    let agent = request.headers().get(USER_AGENT).map_or("", |agent| agent.to_str().unwrap_or_default()).to_owned();
    let seen = Request { method: request.method().clone(), uri: request.uri().clone(), agent, connection };
    let answer = (shared.rule.lock().unwrap())(&seen);
    let forward = async || {
        let mut sender = sender.lock().await;
        sender.ready().await?;
        sender.send_request(request).await
    };
    match answer {
        Answer::Forward => Ok(forward().await?.map(Either::Left)),
        Answer::Lose(then) => {
            drop(forward().await?);
            then();
            std::future::pending().await
        }
        Answer::Refuse(code) => Ok(refusal(code)),
        Answer::Stall => std::future::pending().await,
    }
}

/// Returns a response as the API server sends it if it refuses a request.
fn refusal(code: u16) -> Response<Either<Incoming, Full<Bytes>>> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "refused by the test's proxy",
    });
    let mut response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    if code == 429 {
        response = response.header(RETRY_AFTER, "1");
    }
    response.body(Either::Right(Full::from(status.to_string()))).unwrap()
}

/// A client's connection that the proxy can stall. Once stalled, a connection never reads or writes anything again. So
/// its polls register no waker.
struct Stallable {
    stream: TcpStream,
    number: u64,
    stalled: Arc<AtomicU64>,
}

impl Stallable {
    fn poll<T>(&mut self, poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<T>) -> Poll<T> {
        let is_stalled = self.number < self.stalled.load(Ordering::SeqCst);
        if is_stalled { Poll::Pending } else { poll(Pin::new(&mut self.stream)) }
    }
}

impl AsyncRead for Stallable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        at: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.poll(|stream| stream.poll_read(at, buffer))
    }
}

impl AsyncWrite for Stallable {
    fn poll_write(mut self: Pin<&mut Self>, at: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.poll(|stream| stream.poll_write(at, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, at: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll(|stream| stream.poll_flush(at))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, at: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(at))
    }
}
