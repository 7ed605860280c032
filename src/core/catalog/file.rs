//! The schema of the catalogue's files, strict: an unknown field is an error with line and column.
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
//! | `values/couplings.yaml` | [`super::Coupling`] |
//! | `values/rules.yaml` | [`super::Rule`] |
//! | `values/keys/<chart>.json` | [`super::KeyTree`] |
//! | `presets/<preset>.yaml` | [`Preset`] |
//!
//! `when` and `${…}` are CEL over `spec`, `features`, `openstack`, `services`, `releases` and, in values, `credentials`, `ceph`
//! (see [`crate::ceph::variables`]), `facts` (what Jobs of releases have written down: [`Release::facts`]) and `release`. Beside CEL's own functions there are those of the table in
//! `src/expr/functions.rs`. `secret(ref)`, in values alone, is the text of a key of a Secret that the spec names at a place which the feature's schema
//! marks with `x-osdpl-secret: true` (an object with the required strings `name` and `key`).

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

/// Values under a condition, for some releases or for every chart that knows the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fragment {
    /// The reason, for people.
    #[serde(default)]
    pub why: String,
    /// A CEL condition; always where unset.
    #[serde(default)]
    pub when: Option<String>,
    /// Values for releases by name.
    #[serde(default)]
    pub releases: BTreeMap<String, Body>,
    /// Values for every release, without the keys that its chart does not know.
    #[serde(default)]
    pub every: Option<Every>,
}

/// Values under a condition, for one release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnFragment {
    /// The reason, for people.
    #[serde(default)]
    pub why: String,
    /// A CEL condition; always where unset.
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
pub struct Every {
    /// Only this group.
    #[serde(default)]
    pub group: Option<Group>,
    /// Not these releases.
    #[serde(default)]
    pub except: Vec<String>,
    /// Helm values; a chart gets only the keys that it knows.
    pub values: Values,
}

/// `values/shared/<topic>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// The topic: the file's name.
    pub shared: String,
    /// One line for people.
    pub description: String,
    /// The values.
    pub fragments: Vec<Fragment>,
}

/// `values/features/<feature>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The feature's name: the file's.
    pub feature: String,
    /// One line for people.
    pub description: String,
    /// The JSON schema of `spec.features.<name>`; without defaults, which the API server would write into the spec.
    pub schema: Value,
    /// What holds where the spec and the presets say nothing.
    pub default: Value,
    /// The values it sets.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
    /// The certificates that it has taken out of Secrets.
    #[serde(default)]
    pub certificates: Vec<Certificates>,
    /// What can't be with it.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// `presets/<preset>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The preset's name: the file's.
    pub preset: String,
    /// One line for people.
    pub description: String,
    /// The services it has.
    #[serde(default)]
    pub services: Vec<String>,
    /// The defaults of features that it changes.
    #[serde(default)]
    pub features: Values,
    /// The values it sets.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
    /// Presets that can't be beside it: why, and what to do.
    #[serde(default)]
    pub excludes: BTreeMap<String, String>,
    /// For sizes, the most connections that the services open to the database, as a sum.
    #[serde(default)]
    pub connections: String,
    /// What else can't be with it.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// A rule over the whole spec.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// A CEL condition: when it speaks.
    pub when: String,
    /// Whether it refuses or warns.
    pub level: Level,
    /// The field of the spec to look at.
    pub field: String,
    /// What is wrong and what to do; `${…}` as in values, so that it can name what it is about.
    pub message: String,
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is told where somebody asks, and is nothing to worry about.
    Note,
    /// It is said, and carried out.
    Warning,
    /// It is refused.
    Error,
}

impl Level {
    /// As it stands before a message.
    pub fn word(self) -> &'static str {
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
    /// The release's name: the file's.
    pub openstack_release: String,
    /// One line for people.
    pub description: String,
    /// What expressions see as `openstack`, beside `openstack.release`.
    #[serde(default)]
    pub variables: Values,
    /// The releases from which one may come.
    #[serde(default)]
    pub upgrades_from: Vec<String>,
    /// The values it sets.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
}

/// `values/drift.yaml`: what others may write into releases' objects, each with the reason, for people.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Writers by the name in `managedFields`.
    #[serde(default)]
    pub managers: BTreeMap<String, String>,
    /// Paths of fields, as [`crate::drift::Fields`] writes them.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// `values/nodes.yaml`: the roles that nodes can play, and how what runs on them is made anew.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// Releases whose `DaemonSets` are rolled in batches, in this order.
    #[serde(default)]
    pub rollout: Vec<String>,
    /// Roles by name.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
}

/// A role that nodes can play.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// One line for people.
    pub description: String,
    /// The labels that it stands for.
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
    /// The digest over the archive's sorted entries, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The repository; the default one where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}
