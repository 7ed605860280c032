//! The schema of the catalogue's files. An unknown field in a file is an error with line and column.
//!
//! | path | type |
//! |---|---|
//! | `values/services/<service>.yaml` | [`Service`] |
//! | `values/features/<feature>.yaml` | [`Feature`] |
//! | `values/openstack/<release>.yaml` | [`OpenStackRelease`] |
//! | `values/shared/<topic>.yaml` | [`Shared`] |
//! | `values/lock.yaml` | [`Lock`] |
//! | `values/drift.yaml` | [`Drift`] |
//! | `values/hooks.yaml` | [`Hooks`] |
//! | `values/nodes.yaml` | [`Nodes`] |
//! | `values/couplings.yaml` | [`super::EqualSetting`] |
//! | `values/rules.yaml` | [`super::Rule`] |
//! | `values/keys/<chart>.json` | [`super::KeyTree`] |
//! | `values/options/<chart>.<path>.json` | [`super::Options`] |
//! | `values/options/shared/<name>.json` | options that files in `values/options/` include |
//! | `presets/<preset>.yaml` | [`Preset`] |
//!
//! Only the command line reads `values/smoke.yaml`, the steps of `osdpl smoke`.
//!
//! Conditions (`when`) and expressions in values (`${…}`) are CEL. Both can read the variables `spec`, `features`,
//! `openstack`, `services` and `releases`. The conditions of fragments, and expressions in values, can also read `ceph`
//! (see [`crate::ceph::variables`]), `facts` (recorded by Jobs of releases, see [`Release::facts`]) and `release`. Only
//! expressions in values can read `credentials`. Conditions and expressions can call CEL's functions and the functions
//! of `osdpl_values::expr`.
//!
//! The baseline of a release ([`crate::desired::BASELINE`]) is a number that osdpl sets when it installs the release. A
//! fragment or a check can read it as `releases.<name>.baseline`, to apply only to releases that osdpl has installed
//! since the catalogue got a new default. A fragment can also read it as `release.baseline`.
//!
//! In values, the function `secret(ref)` reads a key of a Secret. `ref` is a field in the settings of a feature, with
//! the required strings `name` and `key`. The schema of the feature must mark this field with `x-osdpl-secret: true`.

mod certificate;
mod service;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::finding::Level;
use osdpl_values::Values;

pub use certificate::{CertificateKeys, Certificates};
pub use service::{
    Credential, CredentialKind, DaemonSet, Endpoint, External, Form, Group, Hosts, Need, Release, Service, WorkloadKind,
};

/// A fragment: values for single releases or for every release, with an optional condition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fragment {
    /// The text that tells users why the catalogue sets the values.
    #[serde(default)]
    pub why: String,
    /// The CEL condition under which the values apply; unset if they always apply.
    #[serde(default)]
    pub when: Option<String>,
    /// The values for single releases, by the release's name.
    #[serde(default)]
    pub releases: BTreeMap<String, Body>,
    /// Values for every release. Each release gets only the keys that its chart knows.
    #[serde(default)]
    pub every: Option<EveryRelease>,
}

/// A fragment in the list `fragments` of a release: values for this release only, with an optional condition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnFragment {
    /// The text that tells users why the catalogue sets the values.
    #[serde(default)]
    pub why: String,
    /// The CEL condition under which the values apply; unset if they always apply.
    #[serde(default)]
    pub when: Option<String>,
    /// The helm values. Strings can contain expressions (`${…}`).
    #[serde(default)]
    pub values: Values,
    /// The paths at which osdpl removes the chart's default.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// The values that a fragment sets in one release, and the chart defaults that it removes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The helm values. Strings can contain expressions (`${…}`).
    #[serde(default)]
    pub values: Values,
    /// The paths at which osdpl removes the chart's default.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// Values that a fragment sets in every release, or in every release of one group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EveryRelease {
    /// The group of services whose releases get the values. If unset, the releases of all groups get them.
    #[serde(default)]
    pub group: Option<Group>,
    /// The names of the releases that do not get the values.
    #[serde(default)]
    pub except: Vec<String>,
    /// The helm values. Each release gets only the keys that its chart knows.
    pub values: Values,
}

/// The content of `values/shared/<topic>.yaml`: values about one topic, such as endpoints, for many releases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// The name of the topic, equal to the file name without `.yaml`.
    pub shared: String,
    /// A one-line description of the topic.
    pub description: String,
    /// The values about the topic, for single releases or for every release.
    pub fragments: Vec<Fragment>,
}

/// The content of `values/features/<feature>.yaml`: the schema of the feature's settings in the spec, and the values
/// that the settings set in releases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name of the feature, equal to the file name without `.yaml`.
    pub feature: String,
    /// A one-line description of the feature.
    pub description: String,
    /// The JSON schema of `spec.features.<name>`. A `default` in the schema has no effect: osdpl removes it from the
    /// CRD, because the API server would write the default into the spec.
    pub schema: Value,
    /// The settings of the feature if neither the spec nor a preset sets any.
    pub default: Value,
    /// The values that the feature sets in releases.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
    /// The Secrets with certificates that the feature requires.
    #[serde(default)]
    pub certificates: Vec<Certificates>,
    /// The checks that the feature contributes. osdpl runs them on every spec, even if the spec has no settings of the
    /// feature.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// The content of `presets/<preset>.yaml`: the services, settings of features, and values that a spec gets if it names
/// the preset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The name of the preset, equal to the file name without `.yaml`.
    pub preset: String,
    /// A one-line description of the preset.
    pub description: String,
    /// The names of the services that the preset enables.
    #[serde(default)]
    pub services: Vec<String>,
    /// The settings of features that the preset provides, by the feature's name. The spec can override these settings.
    #[serde(default)]
    pub features: Values,
    /// The values that the preset sets in releases.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
    /// The presets that a spec can't combine with this preset, each with a message that says why and what to do.
    #[serde(default)]
    pub excludes: BTreeMap<String, String>,
    /// The calculation of the maximum number of database connections of all services: a text for the reference
    /// documentation. Only presets that set the size of a cloud have this text.
    #[serde(default)]
    pub connections: String,
    /// The checks that osdpl runs on a spec that uses the preset.
    #[serde(default)]
    pub checks: Vec<Check>,
}

/// A check that a preset or feature contributes: osdpl reports a finding if the condition `when` is true for the spec.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The CEL condition under which osdpl reports the finding.
    pub when: String,
    /// The severity of the finding. If it is `error`, osdpl refuses the `OpenStackDeployment`.
    pub level: Level,
    /// The field of the spec to which the finding refers.
    pub field: String,
    /// The text of the finding: the problem and the remedy. It can contain expressions (`${…}`), for example to name
    /// the wrong item.
    pub message: String,
}

/// The content of `values/openstack/<release>.yaml`: an OpenStack release, such as 2026.1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OpenStackRelease {
    /// The name of the OpenStack release, equal to the file name without `.yaml`.
    pub openstack_release: String,
    /// A one-line description of the OpenStack release.
    pub description: String,
    /// The content of the variable `openstack` in expressions. osdpl adds the name of the OpenStack release as
    /// `openstack.release`.
    #[serde(default)]
    pub variables: Values,
    /// The names of the OpenStack releases from which a cloud can be upgraded directly to this OpenStack release.
    #[serde(default)]
    pub upgrades_from: Vec<String>,
    /// The values that the OpenStack release sets in helm releases.
    #[serde(default)]
    pub fragments: Vec<Fragment>,
}

/// The content of `values/drift.yaml`: the changes to a release's objects that osdpl tolerates. osdpl does not report
/// these changes as drift.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// The field managers whose changes osdpl does not report as drift: maps the name in `managedFields` to the reason
    /// why osdpl tolerates the changes.
    #[serde(default)]
    pub managers: BTreeMap<String, String>,
    /// The fields whose changes osdpl does not report as drift: maps the path of the field, such as `spec.replicas`, to
    /// the reason why osdpl tolerates changes.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// The content of `values/hooks.yaml`: the values that no hook of a release reads.
///
/// If an upgrade changes only such values, osdpl runs helm without hooks.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// The values that no hook reads, in one entry for each reason why hooks do not read them.
    #[serde(default)]
    pub unread: Vec<UnreadValues>,
}

/// Values of one or more releases that no hook of these releases reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreadValues {
    /// Why no hook reads the values: a note for readers of the file, which osdpl does not use.
    pub why: String,
    /// The names of the releases whose hooks do not read the values.
    pub releases: Vec<String>,
    /// The paths of the values. A path also stands for all values below it.
    pub paths: Vec<String>,
}

/// The content of `values/nodes.yaml`: the roles of nodes, and the order in which the operator rolls out `DaemonSets`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// The releases whose `DaemonSets` the operator rolls out in batches, in the order of the rollouts.
    #[serde(default)]
    pub rollout: Vec<String>,
    /// The built-in roles of nodes, by name.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
}

/// A role of nodes: the labels by which upstream's charts select the nodes for their pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// A one-line description of the role.
    pub description: String,
    /// The labels that the operator sets on nodes with this role.
    pub labels: BTreeMap<String, String>,
}

/// The content of `values/lock.yaml`: the pinned version of each chart.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The pinned versions, by the chart's name.
    pub charts: BTreeMap<String, Pin>,
}

/// The version of a chart that osdpl installs, with the digest and the repository of the chart's archive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The exact version of the chart, such as `2026.1.0`.
    pub version: String,
    /// The digest of the files in the chart's archive; `None` if the lock contains no digest yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The URL of the chart's repository; `None` for the default source of charts (`OSDPL_CHARTS` or `--charts`). The
    /// operator's own chart sets the default source from its value `charts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}
