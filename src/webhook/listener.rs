//! Connections with TLS, by a certificate that may change.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::Files;

/// How long a client may take to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How many connections may wait to be served.
const WAITING: usize = 16;

/// Listens, and hands on connections once TLS stands: one that hangs holds up no other.
pub struct Secured {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Secured {
    /// Listens with the certificate in these files.
    pub fn new(listener: TcpListener, files: Files) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let certificate = Certificate::read(files)?;
        let (sender, ready) = mpsc::channel(WAITING);
        let accepting = tokio::spawn(accept(listener, certificate, sender));
        Ok(Self { address, ready, accepting })
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task that accepts never ends before this one.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn accept(
    listener: TcpListener,
    mut certificate: Certificate,
    sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "the webhook can't take a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        certificate.refresh();
        let (acceptor, sender) = (certificate.acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(sender.send((stream, from)).await),
                Ok(Err(error)) => tracing::debug!(%error, %from, "no TLS with the webhook's client"),
                Err(_) => tracing::debug!(%from, "the webhook's client is silent"),
            }
        });
    }
}

/// The certificate as it was read last.
struct Certificate {
    files: Files,
    changed: Option<(SystemTime, SystemTime)>,
    acceptor: TlsAcceptor,
}

impl Certificate {
    fn read(files: Files) -> anyhow::Result<Self> {
        Ok(Self { changed: changed(&files), acceptor: acceptor(&files)?, files })
    }

    /// Reads the files anew where they changed. Where they are wrong, perhaps because only one is written yet, the one before stays.
    fn refresh(&mut self) {
        let now = changed(&self.files);
        if now.is_none() || now == self.changed {
            return;
        }
        match acceptor(&self.files) {
            Ok(acceptor) => {
                tracing::info!("the webhook's certificate changed");
                (self.changed, self.acceptor) = (now, acceptor);
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the webhook keeps its old certificate"),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the webhook looks after its certificate's files")]
fn changed(files: &Files) -> Option<(SystemTime, SystemTime)> {
    let time = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    Some((time(&files.certificate)?, time(&files.key)?))
}

fn acceptor(files: &Files) -> anyhow::Result<TlsAcceptor> {
    let Files { certificate, key } = files;
    let reading = |path: &Path| format!("{} can't be read as PEM", path.display());
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect).with_context(|| reading(certificate))?;
    let secret = PrivateKeyDer::from_pem_file(key).with_context(|| reading(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_single_cert(chain, secret);
    let config =
        config.with_context(|| format!("{} and {} do not belong together", certificate.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
