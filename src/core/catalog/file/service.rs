//! `values/services/<service>.yaml`.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::OwnFragment;
use crate::catalog::Component;
use osdpl_values::Values;

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
    /// The namespace that it is usually in, for charts that belong beside the cloud (cert-manager, rook-ceph); the resource's where unset.
    /// What the spec says of the release comes first.
    #[serde(default)]
    pub namespace: Option<String>,
    /// A CEL condition over the features; the release is always part of the service where unset.
    #[serde(default)]
    pub when: Option<String>,
    /// Components that must be available before it may be submitted. The services that provide them become part of the cloud.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Components that its pods wait for by themselves, in upstream's init containers: no reason to hold the release back, but those who provide
    /// them become part of the cloud, and go first where not all can.
    #[serde(default)]
    pub awaits: Vec<Need>,
    /// Components without which it is of no use, in no order (pods of both may wait for each other): the services that provide them become part of
    /// the cloud, unless the spec disables them, which is warned of.
    #[serde(default)]
    pub alongside: Vec<Need>,
    /// `application/component` to the kind of its workload.
    #[serde(default)]
    pub components: BTreeMap<String, WorkloadKind>,
    /// Its API, which is asked whether it answers.
    #[serde(default)]
    pub endpoint: Option<Endpoint>,
    /// Components of which more than half of the pods must be ready: no node is drained that would leave fewer.
    #[serde(default)]
    pub quorum: Vec<String>,
    /// The `CronJobs` that are tests, by `application/component`, each with where its results are kept: how the last run ended is told in the status.
    #[serde(default)]
    pub tests: BTreeMap<String, String>,
    /// The nodes that its API knows as hosts of instances.
    #[serde(default)]
    pub hosts: Option<Hosts>,
    /// The `DaemonSets` that take values for some nodes alone, by the name that the chart's overrides have for them, without the chart's own.
    #[serde(default)]
    pub daemonsets: BTreeMap<String, DaemonSet>,
    /// The names of its Jobs that are no hooks.
    #[serde(default)]
    pub plain_jobs: Vec<String>,
    /// The `ConfigMap`, in the release's namespace, into which a Job of the release's own writes what it has made: expressions see
    /// each key as the text `facts.<release>.<key>`, and no key as long as it is not there.
    #[serde(default)]
    pub facts: Option<String>,
    /// Secrets that an uninstall leaves behind (upstream's pre-install hooks with `resource-policy: keep`): removed by Purge alone.
    #[serde(default)]
    pub kept_secrets: Vec<String>,
    /// A CEL expression for a digest of what running guests hold on to, `none` for nothing: when it
    /// changes, the upgrade waits for approval.
    #[serde(default)]
    pub guests: Option<String>,
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

/// The nodes that an API knows as hosts of instances.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Hosts {
    /// The component whose pods run on them: `application/component`.
    #[serde(deserialize_with = "component")]
    pub component: Component,
    /// The `CronJob` that makes new ones known to the rest of the cloud, on a schedule, and that is run at once when there is one.
    pub discovered_by: String,
}

fn component<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Component, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || format!("{text:?} is no component; write application/component, such as nova/compute");
    Component::parse(&text).ok_or_else(wrong).map_err(D::Error::custom)
}

/// The API of a release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// The component that answers: `application/component`.
    pub component: String,
    /// Its name below the charts' `endpoints`, which is its type in Keystone's catalogue.
    pub endpoint: String,
    /// The Service, as the chart calls it.
    pub service: String,
    /// The port's name below `endpoints.<endpoint>.port`.
    #[serde(default = "api")]
    pub port_name: String,
    /// The chart's TCP port of the internal endpoint.
    pub port: u16,
    /// What is asked for: something that answers without a token.
    pub path: String,
    /// The HTTP codes that are accepted; 300 is how OpenStack's APIs tell several versions.
    #[serde(default = "well")]
    pub accept: Vec<u16>,
    /// Whether it is Keystone: its versions are read, and its catalogue with the administrator's token.
    #[serde(default)]
    pub keystone: bool,
}

fn api() -> String {
    "api".into()
}

fn well() -> Vec<u16> {
    vec![200, 300]
}

fn fifteen_minutes() -> u32 {
    900
}

fn yes() -> bool {
    true
}

/// A component that must be there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// `application/component`.
    pub component: String,
    /// A CEL condition over `spec`, `features`, `openstack`, `services` and `releases`.
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

/// A `DaemonSet` that takes values for some nodes alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonSet {
    /// How its chart takes them.
    pub form: Form,
    /// `application/component` of its pods.
    pub component: String,
    /// A CEL condition for its being part of the cloud.
    #[serde(default)]
    pub when: Option<String>,
    /// Paths that end in what all nodes share (scripts, the pods themselves), so that they can't differ by node.
    #[serde(default)]
    pub shared: Vec<String>,
}

/// How a chart takes values for some nodes alone (helm-toolkit's `daemonset_overrides` and `daemonset_overrides_root`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `conf.overrides.<chart>_<daemonset>.{labels,hosts}`: what is below `conf` alone; of a node's entries the last by label counts, and
    /// one by name before all of them.
    Conf,
    /// `overrides.<chart>_<daemonset>.labels."<key>::<value>".values`: any value; a node that two entries fit gets no pod at all.
    Root,
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
