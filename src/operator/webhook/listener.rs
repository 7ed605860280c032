//! Accepts the webhook's TLS connections, and reloads the webhook's certificate when the certificate's files change.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::CertificateFiles;

/// The timeout of a client's TLS handshake with the webhook.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of connections that have completed their TLS handshake and wait for the webhook to serve them.
const MAX_WAITING: usize = 16;
/// The maximum number of TLS handshakes at the same time. Further clients wait in the listener's queue. Without the
/// limit, many handshakes could take the CPU time that reconcile passes and the renewal of the Lease need.
const MAX_HANDSHAKES: usize = 16;

/// Accepts connections and completes their TLS handshakes concurrently, so that a hanging client blocks no other
/// client.
pub(crate) struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: tokio::task::JoinHandle<()>,
}

impl TlsListener {
    /// Starts to accept TLS connections on `listener`, with the certificate and key in `files`.
    pub(crate) fn new(listener: TcpListener, files: CertificateFiles) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let certificate = Certificate::read(files)?;
        let (sender, ready) = mpsc::channel(MAX_WAITING);
        let accepting = tokio::spawn(accept(listener, certificate, sender));
        Ok(Self { address, ready, accepting })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // `recv` never returns `None`: the task that accepts connections keeps the channel open as long as this
            // listener exists.
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
    let permits = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        // `acquire_owned` fails only if the semaphore is closed, which never happens.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (stream, from) = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "the webhook could not accept a connection; it tries again");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        certificate.refresh();
        let (acceptor, sender) = (certificate.acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
            match handshake {
                Ok(Ok(stream)) => drop(sender.send((stream, from)).await),
                Ok(Err(error)) => tracing::debug!(%error, %from, "the TLS handshake of a webhook client failed"),
                Err(_) => tracing::debug!(%from, "the TLS handshake of a webhook client timed out"),
            }
            drop(permit);
        });
    }
}

/// The webhook's certificate and private key, as the webhook last read them from valid files.
struct Certificate {
    files: CertificateFiles,
    /// The digest of the certificate file and the key file, as last read. If the digest of their current contents
    /// differs, the files have changed.
    digest: String,
    acceptor: TlsAcceptor,
}

impl Certificate {
    fn read(files: CertificateFiles) -> anyhow::Result<Self> {
        let texts = read_files(&files)?;
        Ok(Self { digest: digest(&texts), acceptor: acceptor(&files, &texts)?, files })
    }

    /// Replaces the certificate if its files have changed.
    ///
    /// The webhook calls this function for each connection. The function compares the contents of the files, because
    /// the modification times of files in a mounted Secret may stay the same. The webhook keeps the old certificate
    /// while the new files are invalid. For example, the certificate's file may be new while the key's file is still
    /// the old one.
    fn refresh(&mut self) {
        let Ok(texts) = read_files(&self.files) else { return };
        let digest = digest(&texts);
        if digest == self.digest {
            return;
        }
        match acceptor(&self.files, &texts) {
            Ok(acceptor) => {
                tracing::info!("the webhook uses a new certificate, because its files have changed");
                (self.digest, self.acceptor) = (digest, acceptor);
            }
            Err(error) => tracing::warn!(
                error = format!("{error:#}"),
                "the webhook's new certificate can't be used; the webhook keeps the old one"
            ),
        }
    }
}

/// Reads the files with the certificate and the key.
#[allow(clippy::disallowed_methods, reason = "reads the webhook's certificate")]
fn read_files(files: &CertificateFiles) -> anyhow::Result<[String; 2]> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    Ok([read(&files.certificate)?, read(&files.key)?])
}

fn digest(texts: &[String; 2]) -> String {
    osdpl_values::digest(texts.iter().map(String::as_str))
}

fn acceptor(files: &CertificateFiles, [chain, secret]: &[String; 2]) -> anyhow::Result<TlsAcceptor> {
    let CertificateFiles { certificate, key } = files;
    let missing = |path: &Path, what: &str| format!("{} does not contain a {what} in PEM format", path.display());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.with_context(|| missing(certificate, "certificate"))?;
    let secret = PrivateKeyDer::from_pem_slice(secret.as_bytes()).with_context(|| missing(key, "key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_single_cert(chain, secret);
    let config = config.with_context(|| format!("{} and {} do not match", certificate.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    /// Writes a new self-signed certificate for localhost, and its key, into the files. Returns the certificate.
    pub(in super::super) fn certify(files: &CertificateFiles) -> CertificateDer<'static> {
        let pair = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&files.key, pair.serialize_pem()).unwrap();
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        certificate.der().clone()
    }

    /// Connects to `address` with TLS. The client trusts only the certificate `trusted`.
    pub(in super::super) async fn connect(
        address: SocketAddr,
        trusted: &CertificateDer<'static>,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(config).connect("localhost".try_into().unwrap(), stream).await
    }

    async fn connects(address: SocketAddr, trusted: &CertificateDer<'static>) -> bool {
        connect(address, trusted).await.is_ok()
    }

    #[tokio::test]
    async fn reloads_a_changed_certificate_and_keeps_it_while_files_are_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFiles { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let first = certify(&files);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = TlsListener::new(listener, files.clone()).unwrap();
        assert!(connects(listener.address, &first).await);
        std::fs::write(&files.key, "half a k").unwrap();
        assert!(connects(listener.address, &first).await, "the old certificate must stay while a file is invalid");
        let second = certify(&files);
        assert!(connects(listener.address, &second).await);
        assert!(!connects(listener.address, &first).await);
    }

    #[tokio::test]
    async fn limits_the_handshakes_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFiles { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let trusted = certify(&files);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = TlsListener::new(listener, files).unwrap();
        let mut silent = Vec::new();
        for _ in 0..MAX_HANDSHAKES {
            silent.push(TcpStream::connect(listener.address).await.unwrap());
        }
        let mut next = std::pin::pin!(connects(listener.address, &trusted));
        // Without the limit, the listener would complete the handshake of this client during these polls.
        for _ in 0..100 {
            assert!(futures::poll!(&mut next).is_pending(), "the listener must not exceed its limit of handshakes");
            tokio::task::yield_now().await;
        }
        drop(silent.pop());
        assert!(next.await);
    }

    #[tokio::test]
    async fn rejects_a_certificate_that_does_not_match_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFiles { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        certify(&files);
        std::fs::write(&files.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let error = TlsListener::new(listener, files).err().unwrap().to_string();
        assert!(error.contains("tls.crt") && error.contains("tls.key do not match"), "{error}");
    }
}
