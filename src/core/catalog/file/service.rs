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
    /// The name of the service, equal to the file name.
    pub service: String,
    /// A one-line description.
    pub description: String,
    /// The group of common values that it takes.
    pub group: Group,
    /// Its releases by name. Names are unique across all services.
    pub releases: BTreeMap<String, Release>,
    /// The credentials it owns. Expressions read them as `credentials.<service>.<name>`.
    #[serde(default)]
    pub credentials: BTreeMap<String, Credential>,
    /// The connection data if the service can run outside the cluster.
    #[serde(default)]
    pub external: Option<External>,
}

/// A group of services that share common values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Databases, message brokers, caches, node networking.
    Infra,
    /// OpenStack services.
    Openstack,
}

/// One release of a service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Release {
    /// The name of the chart; that of the release if unset.
    #[serde(default)]
    pub chart: Option<String>,
    /// The default namespace, for charts that are not part of OpenStack (cert-manager, rook-ceph); that of the custom
    /// resource if unset. A namespace in the spec takes precedence.
    #[serde(default)]
    pub namespace: Option<String>,
    /// A CEL condition over the features; if unset, the release is always part of the service.
    #[serde(default)]
    pub when: Option<String>,
    /// Components that must be available before the release may be installed. The services that provide them become
    /// part of the cloud.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Components that its own pods wait for, in upstream's init containers. The release does not wait for them, but
    /// the services that provide them become part of the cloud, and start first if not all can start at once.
    #[serde(default)]
    pub awaits: Vec<Need>,
    /// Components without which the release does not work. They may start in any order, because pods of both may wait
    /// for each other. The services that provide them become part of the cloud. If the spec disables one, osdpl warns.
    #[serde(default)]
    pub alongside: Vec<Need>,
    /// Maps `application/component` to the kind of its workload.
    #[serde(default)]
    pub components: BTreeMap<String, WorkloadKind>,
    /// Its API, which is probed.
    #[serde(default)]
    pub endpoint: Option<Endpoint>,
    /// Components of which more than half of the pods must be ready. A drain that would leave fewer is refused.
    #[serde(default)]
    pub quorum: Vec<String>,
    /// The `CronJobs` that are tests, by `application/component`, each with the location of its results. The
    /// status reports the result of the last run.
    #[serde(default)]
    pub tests: BTreeMap<String, String>,
    /// The component whose nodes its API lists as hypervisors.
    #[serde(default)]
    pub hosts: Option<Hosts>,
    /// The `DaemonSets` that accept values for some nodes, by their name in the chart's overrides without the chart's
    /// own name.
    #[serde(default)]
    pub daemonsets: BTreeMap<String, DaemonSet>,
    /// The names of Jobs that are not hooks.
    #[serde(default)]
    pub plain_jobs: Vec<String>,
    /// The `ConfigMap`, in the release's namespace, in which a Job of the release records what it created. Expressions
    /// read each key as the text `facts.<release>.<key>`. The key is missing until it is recorded.
    #[serde(default)]
    pub facts: Option<String>,
    /// Secrets that an uninstall leaves behind (upstream's pre-install hooks with `resource-policy: keep`). Only Purge
    /// removes them.
    #[serde(default)]
    pub kept_secrets: Vec<String>,
    /// A CEL expression for a digest of the settings that running instances depend on; `none` if there are none. An
    /// upgrade that changes the digest waits for approval.
    #[serde(default, rename = "guests")]
    pub instance_digest: Option<String>,
    /// Helm's `--timeout`, per hook, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout: u32,
    /// Helm 4's `--server-side`.
    #[serde(default = "default_server_side")]
    pub server_side: bool,
    /// Base values.
    #[serde(default)]
    pub values: Values,
    /// Paths whose chart default is removed.
    #[serde(default)]
    pub unset: Vec<String>,
    /// Fixes and conditional values of this release. `releases` and `every` are not allowed in them.
    #[serde(default)]
    pub fragments: Vec<OwnFragment>,
}

/// The nodes that an API lists as hypervisors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Hosts {
    /// The component whose pods run on them: `application/component`.
    #[serde(deserialize_with = "component")]
    pub component: Component,
    /// The `CronJob` that registers new hosts. The operator also runs it at once when a node was added.
    pub discovered_by: String,
}

fn component<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Component, D::Error> {
    let text = String::deserialize(deserializer)?;
    let invalid = || format!("{text:?} is not a component; write application/component, such as nova/compute");
    Component::parse(&text).ok_or_else(invalid).map_err(D::Error::custom)
}

/// The API of a release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// The component that serves the API: `application/component`.
    pub component: String,
    /// Its name below the charts' `endpoints`, which is the service type in Keystone's catalogue.
    pub endpoint: String,
    /// The name of the Service in the chart.
    pub service: String,
    /// The port's name below `endpoints.<endpoint>.port`.
    #[serde(default = "default_port_name")]
    pub port_name: String,
    /// The TCP port of the internal endpoint in the chart.
    pub port: u16,
    /// The path of the probe. The API must respond there without a token.
    pub path: String,
    /// The accepted HTTP status codes. OpenStack APIs return 300 to list several versions.
    #[serde(default = "default_accept")]
    pub accept: Vec<u16>,
    /// Whether it is Keystone. Its versions are read, and its catalogue with the administrator's token.
    #[serde(default)]
    pub keystone: bool,
}

fn default_port_name() -> String {
    "api".into()
}

fn default_accept() -> Vec<u16> {
    vec![200, 300]
}

fn default_timeout() -> u32 {
    900
}

fn default_server_side() -> bool {
    true
}

/// A required component.
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

/// A `DaemonSet` that accepts values for some nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonSet {
    /// The format in which its chart accepts them.
    pub form: Form,
    /// The component of its pods: `application/component`.
    pub component: String,
    /// A CEL condition under which it is part of the cloud.
    #[serde(default)]
    pub when: Option<String>,
    /// Paths whose values can't differ between nodes, because they end up in objects that all nodes share (scripts, pod
    /// specs).
    #[serde(default)]
    pub shared: Vec<String>,
}

/// The format of values for some nodes (helm-toolkit's `daemonset_overrides` and `daemonset_overrides_root`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `conf.overrides.<chart>_<daemonset>.{labels,hosts}`: only values below `conf`. Of several entries that match a
    /// node, the last one by label wins, and one by name wins over all of them.
    Conf,
    /// `overrides.<chart>_<daemonset>.labels."<key>::<value>".values`: any value. A node that matches two entries gets
    /// no pod at all.
    Root,
}

/// A credential that a service owns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Credential {
    /// The format of the credential.
    #[serde(default)]
    pub kind: CredentialKind,
    /// The number of characters (bytes for `base64`).
    #[serde(default = "default_length")]
    pub length: usize,
    /// A one-line description.
    #[serde(default)]
    pub description: String,
    /// Steps that a rotation needs besides an upgrade; empty if none.
    #[serde(default)]
    pub rotation: String,
    /// Whether the user must provide it if the service is external.
    #[serde(default)]
    pub external: bool,
}

fn default_length() -> usize {
    32
}

/// The format of a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CredentialKind {
    /// `[A-Za-z0-9]`, because upstream's scripts split URIs naively.
    #[default]
    Password,
    /// Hexadecimal digits.
    Hex,
    /// A random UUID.
    Uuid,
    /// Random bytes in standard base64.
    Base64,
}

/// The connection data of a service outside the cluster.
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
