//! Determines the Secrets from which the services of a cloud read their TLS certificates.

use serde::Deserialize;

use super::Finding;
use super::conditions::{correction, holds, refused};
use crate::catalog::{Catalog, CertificateKeys, Certificates};
use osdpl_values::Origin;
use osdpl_values::expr::Scope;

/// A Secret with a certificate, and the host names for which the certificate must be valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Certificate {
    /// The field of the spec whose setting requires the certificate.
    pub field: String,
    /// The namespace of the Secret with the certificate.
    pub namespace: String,
    /// The name of the Secret with the certificate.
    pub name: String,
    /// The host names with which clients connect. The certificate must be valid for all of them.
    pub hosts: Vec<String>,
    /// The names of the entries in the Secret's data that contain the certificate, its private key and the CA
    /// certificates.
    pub keys: CertificateKeys,
    /// Whether the user must create the Secret. If so, osdpl reports a missing Secret.
    pub user_provided: bool,
}

/// A Secret with a certificate: an item of the list `secrets`, which a feature's file contains under `certificates`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretEntry {
    name: String,
    namespace: String,
    #[serde(default)]
    hosts: Vec<String>,
}

/// Returns the certificates that the features require. Adds an error to `findings` if osdpl can't evaluate the
/// expressions in the list `secrets` of a feature's `certificates`.
///
/// `scope` contains no credentials, so these expressions can't read a credential.
pub(super) fn certificates(catalog: &Catalog, scope: &Scope, findings: &mut Vec<Finding>) -> Vec<Certificate> {
    let mut found = Vec::new();
    let features = catalog.features.values();
    let entries = features.flat_map(|feature| feature.certificates.iter().map(move |entry| (&feature.file, entry)));
    for (file, entry) in entries {
        if !holds(entry.when.as_ref(), scope, catalog.file_location(file), &entry.field, findings) {
            continue;
        }
        match evaluate_secrets(entry, scope) {
            Ok(secrets) => {
                found.extend(secrets.into_iter().map(|SecretEntry { name, namespace, hosts }| Certificate {
                    field: entry.field.clone(),
                    namespace,
                    name,
                    hosts,
                    keys: entry.keys.clone(),
                    user_provided: entry.user_provided,
                }));
            }
            Err(problem) => {
                let location = catalog.file_location(file);
                let message = format!("osdpl can't evaluate `certificates`: {problem}; {}", correction(location));
                findings.push(refused(entry.field.clone(), message));
            }
        }
    }
    found
}

/// Evaluates the expressions in the list `secrets` of a feature's `certificates`, and returns the Secrets with
/// certificates.
fn evaluate_secrets(entry: &Certificates, scope: &Scope) -> Result<Vec<SecretEntry>, String> {
    let layer = entry.secrets.layer(Origin::Derived("certificates".into()), scope);
    let mut layer = layer.map_err(|(path, error)| format!("{path}: {error}"))?;
    let secrets = layer.values.remove("secrets").unwrap_or_default();
    serde_json::from_value(secrets).map_err(|error| error.to_string())
}
