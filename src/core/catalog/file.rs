//! The schema of the catalogue's files. It is strict: an unknown field is an error with line and column.
//!
//! | path | type |
//! |---|---|
//! | `values/services/<service>.yaml` | [`Service`] |
//! | `values/features/<feature>.yaml` | [`Feature`] |
//! | `values/openstack/<release>.yaml` | [`OpenStackRelease`] |
//! | `values/shared/<topic>.yaml` | [`Shared`] |
//! | `values/lock.yaml` | [`Lock`] |
//! | `values/drift.yaml` | [`Drift`] |
//! | `values/nodes.yaml` | [`Nodes`] |
//! | `values/couplings.yaml` | [`super::EqualSetting`] |
//! | `values/rules.yaml` | [`super::Rule`] |
//! | `values/keys/<chart>.json` | [`super::KeyTree`] |
//! | `presets/<preset>.yaml` | [`Preset`] |
//!
//! `when` and `${…}` are CEL over `spec`, `features`, `openstack`, `services` and `releases`. Values may also use
//! `credentials`, `ceph` (see [`crate::ceph::variables`]), `facts` (recorded by Jobs of releases, see
//! [`Release::facts`]) and `release`. `osdpl_values::expr` adds functions to those of CEL. `secret(ref)`, only
//! in values, reads a key of a Secret that the spec references in a field which the feature's schema marks with
//! `x-osdpl-secret: true` (an object with the required strings `name` and `key`).

mod certificate;
mod service;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use osdpl_values::Values;

pub use certificate::{CertificateKeys, Certificates};
pub use service::{
    Credential, CredentialKind, DaemonSet, Endpoint, External, Form, Group, Hosts, Need, Release, Service, WorkloadKind,
};

/// Conditional values, for some releases or for every chart that has the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fragment {
    /// The reason for the values.
    #[serde(default)]
    pub why: String,
    /// A CEL condition; unconditional if unset.
    #[serde(default)]
    pub when: Option<String>,
    /// Values for releases by name.
    #[serde(default)]
    pub releases: BTreeMap<String, Body>,
    /// Values for every release. Keys that its chart does not have are dropped.
    #[serde(default)]
    pub every: Option<EveryRelease>,
}

/// Conditional values for one release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnFragment {
    /// The reason for the values.
    #[serde(default)]
    pub why: String,
    /// A CEL condition; unconditional if unset.
    #[serde(default)]
    pub when: Option<String>,
    /// Helm values.
    #[serde(default)]
    pub values: Values,
    /// Paths whose chart default is removed.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// Values and removals.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// Helm values.
    #[serde(default)]
    pub values: Values,
    /// Paths whose chart default is removed.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// Values for every release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EveryRelease {
    /// The group of releases; all groups if unset.
    #[serde(default)]
    pub group: Option<Group>,
    /// The releases to exclude.
    #[serde(default)]
    pub except: Vec<String>,
    /// Helm values. A chart only gets the keys that it has.
    pub values: Values,
}

/// `values/shared/<topic>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// The topic, equal to the file name.
    pub shared: String,
    /// A one-line description.
    pub description: String,
    /// The values.
    pub fragments: Vec<Fragment>,
}

/// `values/features/<feature>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name of the feature, equal to the file name.
    pub feature: String,
    /// A one-line description.
    pub description: String,
    /// The JSON schema of `spec.features.<name>`. It has no defaults, because the API server would write them into the
    /// spec.
    pub schema: Value,
    /// The value if neither the spec nor the presets set one.
    pub default: Value,
    /// The values it sets.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
    /// The certificates that pods take from Secrets.
    #[serde(default)]
    pub certificates: Vec<Certificates>,
    /// Checks of the spec.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// `presets/<preset>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The name of the preset, equal to the file name.
    pub preset: String,
    /// A one-line description.
    pub description: String,
    /// The services it enables.
    #[serde(default)]
    pub services: Vec<String>,
    /// The feature defaults that it changes.
    #[serde(default)]
    pub features: Values,
    /// The values it sets.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
    /// Presets that can't be combined with it, each with the reason and the remedy.
    #[serde(default)]
    pub excludes: BTreeMap<String, String>,
    /// For sizes: the maximum number of database connections of all services, as a sum.
    #[serde(default)]
    pub connections: String,
    /// Further checks of the spec.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// A rule over the whole spec.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// A CEL condition for the message.
    pub when: String,
    /// Whether the rule is an error or a warning.
    pub level: Level,
    /// The field of the spec to report.
    pub field: String,
    /// The problem and the remedy; `${…}` as in values, so that it can name the affected item.
    pub message: String,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A remark, which is reported only on request.
    Note,
    /// A problem that does not reject the resource.
    Warning,
    /// A problem that rejects the resource.
    Error,
}

impl Level {
    /// Returns the prefix of a message.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// `values/openstack/<release>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OpenStackRelease {
    /// The name of the release, equal to the file name.
    pub openstack_release: String,
    /// A one-line description.
    pub description: String,
    /// The content of the variable `openstack` in expressions, besides `openstack.release`.
    #[serde(default)]
    pub variables: Values,
    /// The releases from which an upgrade is possible.
    #[serde(default)]
    pub upgrades_from: Vec<String>,
    /// The values it sets.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
}

/// `values/drift.yaml`: deviations of the releases' objects that are tolerated, each with the reason.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Field managers, by their name in `managedFields`.
    #[serde(default)]
    pub managers: BTreeMap<String, String>,
    /// Field paths in the notation of [`crate::drift`].
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// `values/nodes.yaml`: the roles of nodes, and the rollout of their `DaemonSets`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// Releases whose `DaemonSets` are rolled out in batches, in this order.
    #[serde(default)]
    pub rollout: Vec<String>,
    /// Roles by name.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
}

/// A role of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// A one-line description.
    pub description: String,
    /// The labels of nodes with this role.
    pub labels: BTreeMap<String, String>,
}

/// `values/lock.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Charts by name.
    pub charts: BTreeMap<String, Pin>,
}

/// The pinned version of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The exact version.
    pub version: String,
    /// The digest over the archive's sorted entries, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The repository; the default one if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}
