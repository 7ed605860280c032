//! Contains the HTTP client with which osdpl calls the APIs of OpenStack services.
//!
//! Each request uses its own connection.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, RootCertStore};

use crate::resolve::resolve;
use osdpl_core::endpoint::{ProbeResponse, Token, Url};
use osdpl_core::openstack::HttpMethod;

/// The maximum size of a response body, in bytes. Real responses are far smaller.
///
/// For example, Keystone's service catalogue has a few hundred bytes per endpoint, and a page of Nova's list of
/// instances has a few thousand bytes per instance.
const MAX_BODY: usize = 4 << 20;

/// The value of the request header `User-Agent`.
const AGENT: &str = concat!("osdpl/", env!("CARGO_PKG_VERSION"));

/// The media type of the bodies of requests and responses, unless the caller's headers name another one.
const JSON: &str = "application/json";

/// The request header with a token of Keystone (Identity API v3).
pub const TOKEN_HEADER: &str = "x-auth-token";

/// The response header in which Keystone returns a token (Identity API v3).
const SUBJECT_TOKEN: &str = "x-subject-token";

/// The settings of an HTTP client.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The `host:port` to which the client connects instead of the host in the URL; only for tests.
    pub address: Option<String>,
    /// The timeout for connecting. The timeout for the response is at least as long.
    pub timeout: Duration,
    /// The certificates, in PEM, that the client trusts in addition to the certificates of the system.
    pub ca: Vec<u8>,
    /// The function that decides before each request whether the client may send the request.
    pub permit: Permit,
}

/// A function that decides whether a client may send a request. The client calls it for each request, after it has
/// connected. The default permits every request.
#[derive(Clone)]
pub struct Permit(Arc<dyn Fn() -> bool + Send + Sync>);

impl Permit {
    /// Creates a permit with which a client sends requests only while `is_permitted` returns `true`.
    pub fn new(is_permitted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_permitted))
    }
}

impl Default for Permit {
    fn default() -> Self {
        Self::new(|| true)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Permit").field(&(self.0)()).finish()
    }
}

/// The headers of a request, each with its name and its value. The values can be secret.
pub(crate) type Headers = [(&'static str, String)];

/// An HTTP client, which uses a new connection for each request.
pub struct Http {
    config: HttpConfig,
    /// The time for which the client waits for a response. The time begins when the client has connected.
    response_timeout: Duration,
    /// The connector for TLS, which the client creates for its first `https` request. Creating it earlier would waste
    /// memory: the system's certificates take half a megabyte.
    tls: OnceLock<Result<TlsConnector, String>>,
}

impl Http {
    /// Creates a client that uses the timeout in `config` for connecting and for the response.
    pub fn new(config: HttpConfig) -> Self {
        Self { response_timeout: config.timeout, config, tls: OnceLock::new() }
    }

    /// Creates a client whose timeout for the response is `response_timeout` or, if longer, the timeout in `config`.
    pub fn with_response_timeout(config: HttpConfig, response_timeout: Duration) -> Self {
        Self { response_timeout: response_timeout.max(config.timeout), ..Self::new(config) }
    }

    /// Sends a `GET` request and returns the response; `None` if the client could not connect, or if its `Permit`
    /// forbids the request.
    pub async fn get(&self, url: &Url) -> Option<ProbeResponse> {
        self.send(url, Method::GET, &[], Vec::new()).await
    }

    /// Sends a `POST` request with a JSON body and returns the response; `None` if the client could not connect, or if
    /// its `Permit` forbids the request.
    pub async fn post(&self, url: &Url, body: Vec<u8>) -> Option<ProbeResponse> {
        self.send(url, Method::POST, &[], body).await
    }

    /// Sends a request and returns the response; `None` if the client could not connect, or if its `Permit` forbids the
    /// request.
    pub async fn send(&self, url: &Url, method: Method, headers: &Headers, body: Vec<u8>) -> Option<ProbeResponse> {
        let HttpConfig { address, timeout, ca: _, permit } = &self.config;
        let connect = async {
            match address {
                Some(address) => TcpStream::connect(address.as_str()).await,
                None => TcpStream::connect(resolve(&url.host, url.port).await?.as_slice()).await,
            }
        };
        let stream = tokio::time::timeout(*timeout, connect).await.ok()?.ok()?;
        if !(permit.0)() {
            return None;
        }
        let response = async {
            let request = request(url, method, headers, body)?;
            if url.tls {
                exchange(self.encrypted(url, stream).await?, request).await
            } else {
                exchange(stream, request).await
            }
        };
        let silence = |_| ProbeResponse::Silence(self.response_timeout.as_secs());
        let response = tokio::time::timeout(self.response_timeout, response).await;
        Some(response.map_or_else(silence, |response| response.unwrap_or_else(|error| error)))
    }

    async fn encrypted(
        &self,
        url: &Url,
        stream: TcpStream,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, ProbeResponse> {
        let connector = self.tls.get_or_init(|| connector(&self.config.ca)).clone().map_err(ProbeResponse::Broken)?;
        let name = ServerName::try_from(url.host.clone()).map_err(|error| ProbeResponse::Broken(error.to_string()))?;
        connector.connect(name, stream).await.map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match inner {
                Some(rustls::Error::InvalidCertificate(why)) => ProbeResponse::Certificate(why.to_string()),
                Some(other) => ProbeResponse::Broken(format!("the TLS connection failed: {other}")),
                None => ProbeResponse::Broken(format!("the TLS connection failed: {error}")),
            }
        })
    }
}

fn request(url: &Url, method: Method, headers: &Headers, body: Vec<u8>) -> Result<Request<Full<Bytes>>, ProbeResponse> {
    let host = url.authority();
    let defaults = [
        ("host", host.as_str()),
        ("user-agent", AGENT),
        ("accept", JSON),
        ("content-type", JSON),
        ("connection", "close"),
    ];
    let is_set = |name: &str| headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    let defaults = defaults.into_iter().filter(|(name, _)| !is_set(name));
    let request = Request::builder().method(method).uri(&url.path);
    let request = defaults.fold(request, |request, (name, value)| request.header(name, value));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    request.body(Full::from(body)).map_err(|error| ProbeResponse::Broken(error.to_string()))
}

/// Returns an HTTP method as the HTTP library defines it.
pub fn method(method: HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Delete => Method::DELETE,
    }
}

/// Reads a response.
///
/// # Errors
/// Returns an error if the body is too large, or if the connection breaks.
pub(crate) async fn read<B>(response: Response<B>) -> Result<ProbeResponse, ProbeResponse>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let status = response.status();
    let token = response.headers().get(SUBJECT_TOKEN).and_then(|token| token.to_str().ok()).map(Token::new);
    let text = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|error| ProbeResponse::Broken(format!("osdpl can't read the response: {error}")))?;
    Ok(ProbeResponse::Status {
        code: status.as_u16(),
        text: text.trim_end().into(),
        body: body.to_bytes().into(),
        token,
    })
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    request: Request<Full<Bytes>>,
) -> Result<ProbeResponse, ProbeResponse> {
    let broken = |error: hyper::Error| ProbeResponse::Broken(format!("the server sent no valid HTTP: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let response = async { read(sender.send_request(request).await.map_err(broken)?).await };
    // hyper transfers data only while its `connection` future is polled. So poll this future and `response` together.
    let (mut response, mut connection) = (std::pin::pin!(response), std::pin::pin!(connection));
    tokio::select! {
        response = &mut response => response,
        _ = &mut connection => response.await,
    }
}

/// Returns a TLS connector that trusts the system's CA certificates and those in `ca`.
fn connector(ca: &[u8]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(ca) {
        let certificate = certificate.map_err(|error| {
            format!("the file with CA certificates (OSDPL_PROBE_CA or --ca) contains an invalid certificate: {error}")
        })?;
        roots.add(certificate).map_err(|error| {
            format!("the file with CA certificates (OSDPL_PROBE_CA or --ca) contains an unusable certificate: {error}")
        })?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn sends_nothing_without_permission() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let url = Url { tls: false, host: address.ip().to_string(), port: address.port(), path: "/v3".into() };
        let client = |is_permitted: bool| {
            let permit = Permit::new(move || is_permitted);
            Http::new(HttpConfig { address: None, timeout: Duration::from_secs(10), ca: Vec::new(), permit })
        };
        // Returns what the fake server receives on one connection until the end of the first line, or until the client
        // closes the connection. Then the server closes the connection, so the client need not wait for a response.
        let receive = async || {
            let (mut connection, _) = server.accept().await.unwrap();
            let mut received = Vec::new();
            while !received.contains(&b'\n') && connection.read_buf(&mut received).await.unwrap() > 0 {}
            String::from_utf8(received).unwrap()
        };
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let refused = client(false);
            let (response, received) = tokio::join!(refused.send(&url, method.clone(), &[], b"{}".into()), receive());
            assert_eq!((response, received.as_str()), (None, ""));
            let permitted = client(true);
            let (response, received) = tokio::join!(permitted.send(&url, method.clone(), &[], b"{}".into()), receive());
            assert!(response.is_some() && received.starts_with(&format!("{method} /v3 ")), "{received}");
        }
    }
}
