//! The schema of `certificates` in a feature's file: the Secrets with certificates that pods or a Gateway use.

use serde::Deserialize;
use serde_json::Value;

/// A list of Secrets with certificates, and what osdpl checks in these Secrets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificates {
    /// The CEL condition under which the feature requires the Secrets; unset if it always requires them.
    #[serde(default)]
    pub when: Option<String>,
    /// The field of the spec to which findings about these certificates refer.
    pub field: String,
    /// The Secrets: a list of maps with `name`, `namespace` and `hosts`. The list can contain expressions (`${…}`) that
    /// read the variables `spec`, `features`, `openstack`, `services` and `releases`. `hosts` are the host names by
    /// which clients connect, and for which the certificate must be valid. Without `hosts`, osdpl checks no host name.
    pub secrets: Value,
    /// The names of the entries in each Secret's data that contain the certificate, its private key and its CA.
    pub keys: CertificateKeys,
    /// Whether the user must create the Secrets. If so, osdpl reports a Secret that is missing.
    #[serde(default, rename = "userProvided")]
    pub user_provided: bool,
}

/// The names of three entries in a Secret's data: the certificate, its private key, and its CA. If a name is `None`,
/// osdpl does not check the entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateKeys {
    /// The name of the entry with the certificate and its chain, such as `tls.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The name of the entry with the certificate's private key, such as `tls.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name of the entry with the CA certificates that clients trust, such as `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}
