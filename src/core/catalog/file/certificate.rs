//! The certificates of a feature: Secrets that pods or a Gateway use.

use serde::Deserialize;
use serde_json::Value;

/// Secrets of one kind, and the requirements for them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificates {
    /// A CEL condition; unconditional if unset.
    #[serde(default)]
    pub when: Option<String>,
    /// The field of the spec to report.
    pub field: String,
    /// The Secrets: a list of maps with `name`, `namespace` and `hosts`; `${…}` as in values. `hosts` are the names
    /// that clients verify in the certificate; none if they verify no name.
    pub secrets: Value,
    /// The keys of the Secrets.
    pub keys: CertificateKeys,
    /// Whether users must create the Secrets. If so, a missing one is reported.
    #[serde(default, rename = "brought")]
    pub user_provided: bool,
}

/// The keys of a Secret. Content without a key here is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateKeys {
    /// The certificate and its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Its private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The CA certificates that clients trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}
