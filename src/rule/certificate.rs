//! Certificates: whether they belong to their key and speak for their host.

use serde_json::Value;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::{Judged, beside};
use crate::api::OpenStackDeploymentSpec;
use crate::values::leaves;

/// What is wrong with the certificates in Secrets that the spec's features name, as far as the Secrets are `beside` it. One that stands below a key
/// of public endpoints must speak for Keystone's public name: it is the first that every client asks.
pub(super) fn judge(spec: &OpenStackDeploymentSpec, namespace: &str, beside: &[Value]) -> Vec<Judged> {
    let mut found = Vec::new();
    for (path, name) in leaves(&spec.features) {
        let Some(secret) = name.as_str().and_then(|name| beside::find("Secret", name, namespace, beside)) else {
            continue;
        };
        if secret["type"] != "kubernetes.io/tls" {
            continue;
        }
        let text = |key| beside::text(secret, key).unwrap_or_default();
        let is_public = path.keys().iter().any(|key| key.to_lowercase().contains("public"));
        let host = spec.public_domain.as_ref().filter(|_| is_public).map(|domain| format!("keystone.{domain}"));
        let hosts: Vec<&str> = host.iter().map(String::as_str).collect();
        let name = name.as_str().unwrap_or_default();
        let problems = problems(&text("tls.crt"), &text("tls.key"), &hosts);
        let told = problems.into_iter().map(|problem| {
            Judged::error("certificate", format!("spec.features.{path}"), format!("Secret {name}: {problem}"))
        });
        found.extend(told);
    }
    found
}

/// What is wrong with a certificate (the first of `chain`, PEM) with this key (PEM) for these hosts. Never says a word of the key.
pub fn problems(chain: &str, key: &str, hosts: &[&str]) -> Vec<String> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = match parsed {
        Ok(chain) if !chain.is_empty() => chain,
        _ => {
            return vec![
                "tls.crt holds no PEM certificate; put the certificate first, then those that it follows from".into(),
            ];
        }
    };
    let mut found = Vec::new();
    match PrivateKeyDer::from_pem_slice(key.as_bytes()).ok().and_then(|key| any_supported_type(&key).ok()) {
        None => {
            found.push("tls.key holds no PEM key that TLS can use; give the certificate's own, unencrypted".to_owned());
        }
        Some(key) => {
            if CertifiedKey::new(chain.clone(), key).keys_match().is_err() {
                found.push(
                    "tls.crt and tls.key do not belong together; give the key that the certificate was made for"
                        .to_owned(),
                );
            }
        }
    }
    let Ok(first) = ParsedCertificate::try_from(&chain[0]) else {
        found.push(
            "the first certificate of tls.crt is no X.509 certificate of version 3 that TLS can use; make a new one"
                .to_owned(),
        );
        return found;
    };
    for host in hosts {
        let speaks = ServerName::try_from(*host).is_ok_and(|name| verify_server_name(&first, &name).is_ok());
        if !speaks {
            found.push(format!("the certificate does not speak for {host}: clients refuse it; make one with that name among its subjectAltNames"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, generate_simple_self_signed};

    use super::*;

    #[test]
    fn a_certificate_is_held_against_its_key_and_its_hosts() {
        let made =
            generate_simple_self_signed(vec!["keystone.example.org".into(), "*.cloud.example.org".into()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        assert_eq!(problems(&chain, &key, &["keystone.example.org", "nova.cloud.example.org"]), Vec::<String>::new());
        let other = KeyPair::generate().unwrap().serialize_pem();
        let cases = [
            (chain.as_str(), other.as_str(), "keystone.example.org", "tls.crt and tls.key do not belong together"),
            (&chain, &key, "glance.example.org", "the certificate does not speak for glance.example.org"),
            (&chain, "nonsense", "keystone.example.org", "tls.key holds no PEM key"),
            ("nonsense", &key, "keystone.example.org", "tls.crt holds no PEM certificate"),
        ];
        for (chain, key, host, expected) in cases {
            let found = problems(chain, key, &[host]);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
            assert!(!found[0].contains("PRIVATE"), "{found:?}");
        }
    }
}
