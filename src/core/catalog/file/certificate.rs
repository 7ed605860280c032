//! Certificates that pods, or a Gateway, take out of Secrets: `certificates` of a feature.

use serde::Deserialize;
use serde_json::Value;

/// Secrets of one kind, and what they are to be good for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificates {
    /// A CEL condition; always where unset.
    #[serde(default)]
    pub when: Option<String>,
    /// The field of the spec to look at.
    pub field: String,
    /// The Secrets: a list of maps with `name`, `namespace` and `hosts` (the names that clients look for in the certificate; none where they look for
    /// none); `${…}` as in values.
    pub secrets: Value,
    /// Under which keys they hold what.
    pub keys: CertificateKeys,
    /// Whether somebody has to bring them: that one is not there is told.
    #[serde(default)]
    pub brought: bool,
}

/// Under which keys a Secret holds what; what is unset is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateKeys {
    /// The certificate, and those that it follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Its private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The authorities that clients trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}
