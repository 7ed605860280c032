//! Connections with TLS, by a certificate that may change.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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
    /// The digest of both files.
    digest: String,
    acceptor: TlsAcceptor,
}

impl Certificate {
    fn read(files: Files) -> anyhow::Result<Self> {
        let texts = texts(&files)?;
        Ok(Self { digest: digest(&texts), acceptor: acceptor(&files, &texts)?, files })
    }

    /// Takes the files where they changed: every connection asks, because times of files may stand still where a Secret is mounted. Where they
    /// are wrong, perhaps because only one is written yet, the certificate before stays.
    fn refresh(&mut self) {
        let Ok(texts) = texts(&self.files) else { return };
        let digest = digest(&texts);
        if digest == self.digest {
            return;
        }
        match acceptor(&self.files, &texts) {
            Ok(acceptor) => {
                tracing::info!("the webhook's certificate changed");
                (self.digest, self.acceptor) = (digest, acceptor);
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the webhook keeps its old certificate"),
        }
    }
}

/// The certificate and the key as they are written.
#[allow(clippy::disallowed_methods, reason = "the webhook looks after its certificate's files")]
fn texts(files: &Files) -> anyhow::Result<[String; 2]> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    Ok([read(&files.certificate)?, read(&files.key)?])
}

fn digest(texts: &[String; 2]) -> String {
    osdpl_values::digest(texts.iter().map(String::as_str))
}

fn acceptor(files: &Files, [chain, secret]: &[String; 2]) -> anyhow::Result<TlsAcceptor> {
    let Files { certificate, key } = files;
    let wrong = |path: &Path, what: &str| format!("{} holds no {what} in PEM", path.display());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.with_context(|| wrong(certificate, "certificate"))?;
    let secret = PrivateKeyDer::from_pem_slice(secret.as_bytes()).with_context(|| wrong(key, "key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_single_cert(chain, secret);
    let config =
        config.with_context(|| format!("{} and {} do not belong together", certificate.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    fn certify(files: &Files) -> CertificateDer<'static> {
        let pair = KeyPair::generate().unwrap();
        let made = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&files.key, pair.serialize_pem()).unwrap();
        std::fs::write(&files.certificate, made.pem()).unwrap();
        made.der().clone()
    }

    async fn speaks(address: SocketAddr, trusted: &CertificateDer<'static>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(config).connect("localhost".try_into().unwrap(), stream).await.is_ok()
    }

    #[tokio::test]
    async fn a_certificate_is_taken_when_its_files_change_and_kept_while_they_are_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let first = certify(&files);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secured = Secured::new(listener, files.clone()).unwrap();
        assert!(speaks(secured.address, &first).await);
        std::fs::write(&files.key, "half a k").unwrap();
        assert!(speaks(secured.address, &first).await, "the files are being written");
        let second = certify(&files);
        assert!(speaks(secured.address, &second).await);
        assert!(!speaks(secured.address, &first).await);
    }

    #[tokio::test]
    async fn a_certificate_that_does_not_fit_its_key_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        certify(&files);
        std::fs::write(&files.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let error = Secured::new(listener, files).err().unwrap().to_string();
        assert!(error.contains("tls.crt") && error.contains("tls.key do not belong together"), "{error}");
    }
}
