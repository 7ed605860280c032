//! The schema of the catalogue's files, strict: an unknown field is an error with line and column.
//!
//! | path | type |
//! |---|---|
//! | `values/services/<service>.yaml` | [`Service`] |
//! | `values/features/<feature>.yaml` | [`Feature`] |
//! | `values/openstack/<release>.yaml` | [`OpenStackRelease`] |
//! | `values/shared/<topic>.yaml` | [`Shared`] |
//! | `values/lock.yaml` | [`Lock`] |
//! | `values/keys/<chart>.yaml` | [`super::KeyTree`] |
//! | `presets/<preset>.yaml` | [`Preset`] |
//!
//! `when` and `${…}` are CEL over `spec`, `features`, `openstack`, `services`, `credentials`, `releases` and (in values) `release`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::values::Values;

/// `values/services/<service>.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Service {
    /// The service's name: the file's.
    pub service: String,
    /// One line for people.
    pub description: String,
    /// Which common values it takes.
    pub group: Group,
    /// Its releases by name, unique over all services.
    pub releases: BTreeMap<String, Release>,
    /// The credentials it owns; expressions read them as `credentials.<service>.<name>`.
    #[serde(default)]
    pub credentials: BTreeMap<String, Credential>,
    /// How it can live outside of the cluster.
    #[serde(default)]
    pub external: Option<External>,
}

/// Which common values a service takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Databases, brokers, caches, node networking.
    Infra,
    /// OpenStack's own services.
    Openstack,
}

/// One release of a service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Release {
    /// The chart's name; the release's where unset.
    #[serde(default)]
    pub chart: Option<String>,
    /// A CEL condition over the features; the release is always part of the service where unset.
    #[serde(default)]
    pub when: Option<String>,
    /// Components that must be available before it may be submitted.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// `application/component` to the kind of its workload.
    #[serde(default)]
    pub components: BTreeMap<String, WorkloadKind>,
    /// The names of its Jobs that are no hooks.
    #[serde(default)]
    pub plain_jobs: Vec<String>,
    /// Secrets that an uninstall leaves behind (upstream's pre-install hooks with `resource-policy: keep`): removed by Purge alone.
    #[serde(default)]
    pub kept_secrets: Vec<String>,
    /// Helm's `--timeout`, per hook, in seconds.
    #[serde(default = "fifteen_minutes")]
    pub timeout: u32,
    /// Helm 4's `--server-side`.
    #[serde(default = "yes")]
    pub server_side: bool,
    /// Base values.
    #[serde(default)]
    pub values: Values,
    /// Paths whose chart default is removed.
    #[serde(default)]
    pub unset: Vec<String>,
    /// Corrections and conditional values of this release alone: `releases` and `every` are not allowed in them.
    #[serde(default)]
    pub fragments: Vec<OwnFragment>,
}

fn fifteen_minutes() -> u32 {
    900
}

fn yes() -> bool {
    true
}

/// A component that must be available.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// `application/component`.
    pub component: String,
    /// A CEL condition.
    #[serde(default)]
    pub when: Option<String>,
}

/// The kind of a component's workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum WorkloadKind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 `StatefulSet`.
    StatefulSet,
    /// apps/v1 `DaemonSet`: it needs nodes with its label.
    DaemonSet,
}

/// A credential that a service owns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Credential {
    /// What it looks like.
    #[serde(default)]
    pub kind: CredentialKind,
    /// How many characters (bytes for `base64`).
    #[serde(default = "thirty_two")]
    pub length: usize,
    /// One line for people.
    #[serde(default)]
    pub description: String,
    /// What changing it needs beyond an upgrade; nothing where empty.
    #[serde(default)]
    pub rotation: String,
    /// Whether it must be given by the user when the service is external.
    #[serde(default)]
    pub external: bool,
}

fn thirty_two() -> usize {
    32
}

/// What a credential looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CredentialKind {
    /// `[A-Za-z0-9]`: upstream's scripts split URIs naively.
    #[default]
    Password,
    /// Hexadecimal digits.
    Hex,
    /// A random UUID.
    Uuid,
    /// Random bytes in standard base64.
    Base64,
}

/// How a service can live outside of the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct External {
    /// The name of the Service that upstream's pods wait for.
    pub service: String,
    /// The name of the port.
    pub port_name: String,
    /// The usual TCP port.
    pub port: u16,
}

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
    /// What can't be with it.
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
    /// What is wrong and what to do.
    pub message: String,
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is said, and carried out.
    Warning,
    /// It is refused.
    Error,
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
