//! The only module that speaks HTTP to anything but the API server. Each request uses its own connection.
//!
//! ```text
//! Http   requests one URL        Cloud   the cloud's own APIs as administrator: tokens, versions, pages
//! ```

mod cloud;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, RootCertStore};

pub use cloud::Cloud;

use osdpl_core::endpoint::{ProbeResponse, Token, Url};

/// The maximum size of a response body: Keystone's catalogue has some hundred bytes per endpoint, Nova's list some
/// thousand per instance of a page.
const MAX_BODY: usize = 4 << 20;

/// The user agent.
const AGENT: &str = concat!("osdpl/", env!("CARGO_PKG_VERSION"));

/// The response header with the token (Identity API v3).
const SUBJECT_TOKEN: &str = "x-subject-token";

/// How to reach the APIs of services.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// A `host:port` to connect to instead of the URL's, for tests.
    pub address: Option<String>,
    /// The timeout for the connection and for the response.
    pub timeout: Duration,
    /// Trusted certificates in PEM besides the system's.
    pub ca: Vec<u8>,
}

/// Request headers by name. The values may be secret.
pub(crate) type Headers = [(&'static str, String)];

/// An HTTP client.
pub(crate) struct Http {
    reach: HttpConfig,
    /// The timeout for responses.
    response_timeout: Duration,
    /// Created on first use, because the system's certificates take half a megabyte.
    tls: OnceLock<Result<TlsConnector, String>>,
}

impl Http {
    pub(crate) fn new(reach: HttpConfig) -> Self {
        Self { response_timeout: reach.timeout, reach, tls: OnceLock::new() }
    }

    /// Returns a client that waits at least `response_timeout` for a response once it is connected.
    pub(crate) fn with_response_timeout(reach: HttpConfig, response_timeout: Duration) -> Self {
        Self { response_timeout: response_timeout.max(reach.timeout), ..Self::new(reach) }
    }

    /// Sends a `GET`; `None` if the connection failed.
    pub(crate) async fn get(&self, url: &Url) -> Option<ProbeResponse> {
        self.send(url, Method::GET, &[], Vec::new()).await
    }

    /// Sends a `POST` with JSON; `None` if the connection failed.
    pub(crate) async fn post(&self, url: &Url, body: Vec<u8>) -> Option<ProbeResponse> {
        self.send(url, Method::POST, &[], body).await
    }

    /// Sends a request; `None` if the connection failed.
    pub(crate) async fn send(
        &self,
        url: &Url,
        method: Method,
        headers: &Headers,
        body: Vec<u8>,
    ) -> Option<ProbeResponse> {
        let HttpConfig { address, timeout, ca: _ } = &self.reach;
        let stream = match address {
            Some(address) => tokio::time::timeout(*timeout, TcpStream::connect(address.as_str())).await,
            None => tokio::time::timeout(*timeout, TcpStream::connect((url.host.as_str(), url.port))).await,
        };
        let stream = stream.ok()?.ok()?;
        let answer = async {
            let request = request(url, method, headers, body)?;
            if url.tls {
                exchange(self.encrypted(url, stream).await?, request).await
            } else {
                exchange(stream, request).await
            }
        };
        let silence = |_| ProbeResponse::Silence(self.response_timeout.as_secs());
        let answer = tokio::time::timeout(self.response_timeout, answer).await;
        Some(answer.map_or_else(silence, |answer| answer.unwrap_or_else(|error| error)))
    }

    async fn encrypted(
        &self,
        url: &Url,
        stream: TcpStream,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, ProbeResponse> {
        let connector = self.tls.get_or_init(|| connector(&self.reach.ca)).clone().map_err(ProbeResponse::Broken)?;
        let name = ServerName::try_from(url.host.clone()).map_err(|error| ProbeResponse::Broken(error.to_string()))?;
        connector.connect(name, stream).await.map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match inner {
                Some(rustls::Error::InvalidCertificate(why)) => ProbeResponse::Certificate(why.to_string()),
                Some(other) => ProbeResponse::Broken(format!("TLS: {other}")),
                None => ProbeResponse::Broken(format!("TLS: {error}")),
            }
        })
    }
}

fn request(url: &Url, method: Method, headers: &Headers, body: Vec<u8>) -> Result<Request<Full<Bytes>>, ProbeResponse> {
    let request =
        Request::builder().method(method).uri(&url.path).header(header::HOST, format!("{}:{}", url.host, url.port));
    let request = request.header(header::USER_AGENT, AGENT).header(header::ACCEPT, "application/json");
    let request = request.header(header::CONTENT_TYPE, "application/json").header(header::CONNECTION, "close");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    request.body(Full::from(body)).map_err(|error| ProbeResponse::Broken(error.to_string()))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    request: Request<Full<Bytes>>,
) -> Result<ProbeResponse, ProbeResponse> {
    let broken = |error: hyper::Error| ProbeResponse::Broken(format!("no HTTP: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let token = response.headers().get(SUBJECT_TOKEN).and_then(|token| token.to_str().ok()).map(Token::new);
        let text = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|error| ProbeResponse::Broken(format!("its response ended early: {error}")))?;
        Ok(ProbeResponse::Status {
            code: status.as_u16(),
            text: text.trim_end().into(),
            body: body.to_bytes().into(),
            token,
        })
    };
    // The connection must be polled until the response is complete, and is then dropped.
    let (mut answer, mut connection) = (std::pin::pin!(answer), std::pin::pin!(connection));
    tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

/// Trusts the system's certificates and these.
fn connector(ca: &[u8]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(ca) {
        let certificate = certificate.map_err(|error| format!("OSDPL_PROBE_CA cannot be read: {error}"))?;
        roots.add(certificate).map_err(|error| format!("OSDPL_PROBE_CA cannot be used: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
