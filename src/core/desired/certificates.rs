//! The certificates that a cloud reads from Secrets.

use serde::Deserialize;

use super::Finding;
use super::select::{holds, refused};
use crate::catalog::{Catalog, CertificateKeys, Certificates};
use osdpl_values::Origin;
use osdpl_values::expr::Scope;

/// A Secret with a certificate, and the hosts that it must be valid for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Certificate {
    /// The field of the spec that needs it.
    pub field: String,
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The host names that clients expect in it.
    pub hosts: Vec<String>,
    /// The keys of the Secret.
    pub keys: CertificateKeys,
    /// Whether the user must create the Secret. osdpl then reports it as long as it is missing.
    pub user_provided: bool,
}

/// A Secret as the catalogue describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretEntry {
    name: String,
    namespace: String,
    #[serde(default)]
    hosts: Vec<String>,
}

/// Returns the certificates of all features; `scope` has no credentials. Invalid entries of the catalogue are added to
/// `findings`.
pub(super) fn certificates(catalog: &Catalog, scope: &Scope, findings: &mut Vec<Finding>) -> Vec<Certificate> {
    let mut found = Vec::new();
    for entry in catalog.features.values().flat_map(|feature| &feature.certificates) {
        if !holds(entry.when.as_ref(), scope, &entry.field, findings) {
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
            Err(problem) => findings.push(refused(
                entry.field.clone(),
                format!("the certificates can't be determined: {problem}; report this bug of the catalogue"),
            )),
        }
    }
    found
}

/// Evaluates the list of Secrets.
fn evaluate_secrets(entry: &Certificates, scope: &Scope) -> Result<Vec<SecretEntry>, String> {
    let layer = entry.secrets.layer(Origin::Derived("certificates".into()), scope);
    let mut layer = layer.map_err(|(path, error)| format!("{path}: {error}"))?;
    let secrets = layer.values.remove("secrets").unwrap_or_default();
    serde_json::from_value(secrets).map_err(|error| error.to_string())
}
