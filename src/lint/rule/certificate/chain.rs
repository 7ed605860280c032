//! Certificates as rustls reads them: what TLS clients would say of them.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{CertificateError, Error, RootCertStore};

/// The object identifier of the curve P-521 (SEC 2, secp521r1) in DER.
const P521: [u8; 7] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];

/// From when and until when something counts; without an end that can be told.
pub type Span = (Option<Timestamp>, Option<Timestamp>);

/// The certificates under a key of a Secret.
pub struct Chain {
    /// The key.
    pub name: String,
    all: Vec<CertificateDer<'static>>,
}

/// Reads the certificates under a key.
///
/// # Errors
/// What is wrong with the text, and what to do.
pub fn read(name: &str, text: &str) -> Result<Chain, String> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok).collect();
    if all.is_empty() || CertificateDer::pem_slice_iter(text.as_bytes()).any(|read| read.is_err()) {
        return Err(format!(
            "{name} holds no PEM certificate; put the certificate first, then those that it follows from"
        ));
    }
    if ParsedCertificate::try_from(&all[0]).is_err() {
        return Err(format!(
            "the first certificate of {name} is no X.509 certificate of version 3 that TLS can use; make a new one"
        ));
    }
    Ok(Chain { name: name.to_owned(), all })
}

impl Chain {
    /// Why the key under `name` is not the first certificate's. Never says a word of it.
    pub fn key_problem(&self, name: &str, text: &str) -> Option<String> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok();
        // Nothing can be said of it here, and the cloud's own servers compute with it.
        if key.as_ref().is_some_and(|key| key.secret_der().windows(P521.len()).any(|part| part == P521)) {
            return None;
        }
        let Some(key) = key.and_then(|key| any_supported_type(&key).ok()) else {
            return Some(format!("{name} holds no PEM key that TLS can use; give the certificate's own, unencrypted"));
        };
        let belongs = CertifiedKey::new(self.all.clone(), key).keys_match().is_ok();
        (!belongs).then(|| {
            format!("{} and {name} do not belong together; give the key that the certificate was made for", self.name)
        })
    }

    /// That there are hosts which the first certificate does not speak for, all of them at once.
    pub fn host_problem(&self, hosts: &[String]) -> Option<String> {
        let first = ParsedCertificate::try_from(&self.all[0]).ok()?;
        let speaks = |host: &str| {
            // Of all names below another any one is asked for.
            let host = host.strip_prefix("*.").map_or_else(|| host.to_owned(), |rest| format!("osdpl.{rest}"));
            ServerName::try_from(host).is_ok_and(|name| verify_server_name(&first, &name).is_ok())
        };
        let silent: Vec<&str> = hosts.iter().map(String::as_str).filter(|host| !speaks(host)).collect();
        let names = if silent.len() == 1 { "that name" } else { "those names" };
        (!silent.is_empty()).then(|| {
            format!(
                "{} does not speak for {}: clients refuse it; make one with {names} among its subjectAltNames",
                self.name,
                silent.join(", ")
            )
        })
    }

    /// Why who trusts these authorities does not trust the first certificate. Whether all of them still count is another question.
    pub fn trust_problem(&self, authorities: &Self) -> Option<String> {
        use CertificateError::{BadSignature, InvalidPurpose, InvalidPurposeContext, UnknownIssuer};
        // What is trusted itself nobody has to sign.
        if authorities.all.contains(&self.all[0]) {
            return None;
        }
        let mut roots = RootCertStore::empty();
        let added = authorities.all.iter().filter(|authority| roots.add((*authority).clone()).is_ok()).count();
        let begin = self.begin();
        let problem = verify(&self.all[0], &roots, &self.all[1..], seconds(begin)).err()?;
        let Error::InvalidCertificate(error) = problem else { return None };
        match error {
            _ if added == 0 => {
                Some(format!("{} holds no authority; put the one in that has signed {}", authorities.name, self.name))
            }
            UnknownIssuer | BadSignature => Some(format!(
                "no authority in {} has signed {}: clients that trust it alone refuse the certificate; put the right one in, with all that are between the two in {}",
                authorities.name, self.name, self.name
            )),
            InvalidPurpose | InvalidPurposeContext { .. } => Some(format!(
                "{} is not for servers, by its extended key usage: clients refuse it; make one that is (serverAuth)",
                self.name
            )),
            _ => None,
        }
    }

    /// From when on all of them count.
    fn begin(&self) -> Timestamp {
        self.all.iter().filter_map(|one| span(one).0).max().unwrap_or_default()
    }

    /// When the first certificate counts for who trusts these authorities, with those that lead to it: others that stand in the file hurt nobody.
    pub fn whole(&self, authorities: Option<&Self>) -> Span {
        let between = (1..self.all.len()).filter(|index| self.needs(*index, authorities)).map(|index| &self.all[index]);
        let spans = std::iter::once(&self.all[0]).chain(between).map(span);
        spans.fold((None, None), |(from, until), (begin, end)| (from.max(begin), soonest(until, end)))
    }

    /// Whether nobody would believe the first certificate without this one: who trusts the authorities, or where those are not known, any of the others.
    fn needs(&self, index: usize, authorities: Option<&Self>) -> bool {
        let others = self.all.iter().enumerate().skip(1).filter(|(at, _)| *at != index);
        let others: Vec<CertificateDer<'_>> = others.map(|(_, other)| other.clone()).collect();
        if authorities.is_some_and(|authorities| authorities.all.contains(&self.all[0])) {
            return false;
        }
        let mut roots = RootCertStore::empty();
        // What is no authority signs nothing.
        roots.add_parsable_certificates(authorities.map_or(&others, |authorities| &authorities.all).iter().cloned());
        let begin = span(&self.all[0]).0.unwrap_or_default();
        verify(&self.all[0], &roots, &others, seconds(begin)).is_err()
    }

    /// When at least the last of them counts.
    pub fn best(&self) -> Span {
        let last = self.all.iter().map(span).max_by_key(|(_, until)| until.unwrap_or(Timestamp::MAX));
        last.unwrap_or_default()
    }
}

fn soonest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

fn seconds(time: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().try_into().unwrap_or_default()))
}

fn verify(
    certificate: &CertificateDer<'_>,
    roots: &RootCertStore,
    between: &[CertificateDer<'_>],
    time: UnixTime,
) -> Result<(), Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, between, time, algorithms)
}

/// When a certificate counts, as rustls says it of the first and the last second that there is.
fn span(certificate: &CertificateDer<'_>) -> Span {
    let at = |time| match verify(certificate, &RootCertStore::empty(), &[], time) {
        Err(Error::InvalidCertificate(
            CertificateError::NotValidYetContext { not_before: told, .. }
            | CertificateError::ExpiredContext { not_after: told, .. },
        )) => i64::try_from(told.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        _ => None,
    };
    (at(seconds(Timestamp::UNIX_EPOCH)), at(seconds(Timestamp::MAX)))
}
