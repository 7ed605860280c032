//! Checks certificate chains with rustls, as TLS clients do.

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

/// The start and the end of a validity period, each `None` if it is not known.
pub(super) type Validity = (Option<Timestamp>, Option<Timestamp>);

/// The PEM certificates in one entry of a Secret. The entry contains either a server's certificate followed by its
/// intermediate certificates, or CA certificates.
pub(super) struct Chain {
    /// The name of the entry in the Secret's data, such as `tls.crt`.
    pub name: String,
    all: Vec<CertificateDer<'static>>,
}

/// Parses the PEM certificates in the entry `name` of a Secret.
///
/// # Errors
/// Returns an error if the entry contains no PEM certificate or a damaged one, or if TLS can't use the first
/// certificate. The message says what to do.
pub(super) fn read(name: &str, text: &str) -> Result<Chain, String> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|_| {
        format!("{name} contains a PEM block that is damaged or cut off; copy the complete certificates again")
    })?;
    if all.is_empty() {
        return Err(format!(
            "{name} contains no PEM certificate; write each certificate in PEM format (-----BEGIN CERTIFICATE-----)"
        ));
    }
    if ParsedCertificate::try_from(&all[0]).is_err() {
        return Err(format!(
            "the first certificate of {name} is not an X.509 v3 certificate that TLS can use; create a new one"
        ));
    }
    Ok(Chain { name: name.to_owned(), all })
}

impl Chain {
    /// Returns why TLS can't use the private key in the entry `name` with the first certificate; `None` if the key
    /// matches, or if it is on the curve P-521, which osdpl can't check.
    ///
    /// The reason never contains key data.
    pub(crate) fn key_problem(&self, name: &str, text: &str) -> Option<String> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok();
        // Accept private keys on the curve P-521 unchecked: rustls with ring can't read them, but the servers of the
        // cloud can.
        if key.as_ref().is_some_and(|key| key.secret_der().windows(P521.len()).any(|part| part == P521)) {
            return None;
        }
        let Some(key) = key.and_then(|key| any_supported_type(&key).ok()) else {
            return Some(format!(
                "{name} contains no PEM key that TLS can use; use the certificate's own key, unencrypted"
            ));
        };
        let is_match = CertifiedKey::new(self.all.clone(), key).keys_match().is_ok();
        (!is_match)
            .then(|| format!("{} and {name} do not match; use the key that the certificate was issued for", self.name))
    }

    /// Returns a message with the hosts for which the first certificate is not valid; `None` if there is no such host.
    pub(crate) fn host_problem(&self, hosts: &[String]) -> Option<String> {
        let first = ParsedCertificate::try_from(&self.all[0]).ok()?;
        let is_valid_for = |host: &str| {
            // A rustls `ServerName` can't be a wildcard. For `*.example.org`, check a name that the wildcard matches.
            let host = host.strip_prefix("*.").map_or_else(|| host.to_owned(), |rest| format!("osdpl.{rest}"));
            ServerName::try_from(host).is_ok_and(|name| verify_server_name(&first, &name).is_ok())
        };
        let missing: Vec<&str> = hosts.iter().map(String::as_str).filter(|host| !is_valid_for(host)).collect();
        let names = if missing.len() == 1 { "that name" } else { "those names" };
        (!missing.is_empty()).then(|| {
            format!(
                "{} is not valid for {}: clients refuse it; issue a certificate with {names} among its subjectAltNames",
                self.name,
                missing.join(", ")
            )
        })
    }

    /// Returns why a client that trusts only the CAs in `authorities` does not trust the first certificate; `None` if
    /// the client trusts it. The function reports only a missing signature and a wrong extended key usage, and ignores
    /// other problems, such as expiry.
    pub(crate) fn trust_problem(&self, authorities: &Self) -> Option<String> {
        use CertificateError::{BadSignature, InvalidPurpose, InvalidPurposeContext, UnknownIssuer};
        // If the certificate itself is one of the trusted CAs, clients trust it even if no CA has signed it.
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
                Some(format!("{} contains no CA certificate; add the CA that signed {}", authorities.name, self.name))
            }
            UnknownIssuer | BadSignature => Some(format!(
                "no CA in {} has signed {}: clients that trust only these CAs refuse the certificate; add the right CA there, and all intermediate certificates to {}",
                authorities.name, self.name, self.name
            )),
            InvalidPurpose | InvalidPurposeContext { .. } => Some(format!(
                "{} can't be used by servers, because its extended key usage lacks serverAuth: clients refuse it; issue a certificate with serverAuth",
                self.name
            )),
            _ => None,
        }
    }

    /// Returns the latest of the times at which the certificates of the chain become valid.
    fn begin(&self) -> Timestamp {
        self.all.iter().filter_map(|one| validity(one).0).max().unwrap_or_default()
    }

    /// Returns the period in which all certificates that clients need are valid.
    ///
    /// Clients need the first certificate, and each intermediate certificate for which [`Self::needs`] returns true.
    pub(crate) fn validity(&self, authorities: Option<&Self>) -> Validity {
        let intermediates =
            (1..self.all.len()).filter(|index| self.needs(*index, authorities)).map(|index| &self.all[index]);
        let validities = std::iter::once(&self.all[0]).chain(intermediates).map(validity);
        validities.fold((None, None), |(from, until), (begin, end)| (from.max(begin), earliest(until, end)))
    }

    /// Whether clients stop trusting the first certificate if the intermediate certificate at `index` is removed.
    ///
    /// `authorities` are the trusted CAs. If `authorities` is `None`, the function treats the remaining intermediate
    /// certificates as trusted CAs.
    fn needs(&self, index: usize, authorities: Option<&Self>) -> bool {
        let others = self.all.iter().enumerate().skip(1).filter(|(at, _)| *at != index);
        let others: Vec<CertificateDer<'_>> = others.map(|(_, other)| other.clone()).collect();
        if authorities.is_some_and(|authorities| authorities.all.contains(&self.all[0])) {
            return false;
        }
        let mut roots = RootCertStore::empty();
        // `add_parsable_certificates` skips certificates that can't be CAs. Clients need no such certificate, because
        // it can't have signed another certificate.
        roots.add_parsable_certificates(authorities.map_or(&others, |authorities| &authorities.all).iter().cloned());
        let begin = validity(&self.all[0]).0.unwrap_or_default();
        verify(&self.all[0], &roots, &others, seconds(begin)).is_err()
    }

    /// Returns the validity period of the certificate that expires last.
    pub(crate) fn latest_validity(&self) -> Validity {
        let last = self.all.iter().map(validity).max_by_key(|(_, until)| until.unwrap_or(Timestamp::MAX));
        last.unwrap_or_default()
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

fn seconds(time: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().try_into().unwrap_or_default()))
}

fn verify(
    certificate: &CertificateDer<'_>,
    roots: &RootCertStore,
    intermediates: &[CertificateDer<'_>],
    time: UnixTime,
) -> Result<(), Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, time, algorithms)
}

/// Returns the validity period of a certificate.
///
/// rustls returns the start and the end of the period only in errors. So the function verifies the certificate at the
/// earliest and at the latest possible second. The error "not valid yet" contains the start, and the error "expired"
/// contains the end.
fn validity(certificate: &CertificateDer<'_>) -> Validity {
    let bound = |now| match verify(certificate, &RootCertStore::empty(), &[], now) {
        Err(Error::InvalidCertificate(
            CertificateError::NotValidYetContext { not_before: time, .. }
            | CertificateError::ExpiredContext { not_after: time, .. },
        )) => i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        _ => None,
    };
    (bound(seconds(Timestamp::UNIX_EPOCH)), bound(seconds(Timestamp::MAX)))
}
