//! The schema of `values/services/<service>.yaml`.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::OwnFragment;
use crate::catalog::Component;
use osdpl_values::Values;

/// The content of `values/services/<service>.yaml`: a service and the helm releases that it consists of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Service {
    /// The name of the service, equal to the file name without `.yaml`.
    pub service: String,
    /// A one-line description of the service.
    pub description: String,
    /// The group that the service belongs to. `spec.common` and shared fragments can set values for all releases of a
    /// group.
    pub group: Group,
    /// The releases of the service, by name. A name is unique across all services.
    pub releases: BTreeMap<String, Release>,
    /// The passwords and secret keys that the service owns. Expressions in the catalogue read them as
    /// `credentials.<service>.<name>`.
    #[serde(default)]
    pub credentials: BTreeMap<String, Credential>,
    /// The Kubernetes Service through which pods reach the service if it runs outside of the cluster; unset if the
    /// service must run in the cluster.
    #[serde(default)]
    pub external: Option<External>,
}

/// A group of services. `spec.common` and shared fragments can set values for the releases of all services in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Databases, message brokers, caches, and the networking of nodes.
    Infra,
    /// OpenStack services.
    Openstack,
}

/// A helm release of a service: its chart, its values, and what the operator must know about its Kubernetes objects.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Release {
    /// The name of the chart; unset if the chart has the release's name.
    #[serde(default)]
    pub chart: Option<String>,
    /// The default namespace of the release; if unset, the namespace of the OpenStackDeployment. Only charts that are
    /// not part of OpenStack, such as cert-manager, have a namespace here. The spec can set another namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The CEL condition under which the release is part of the service; unset if the release always is part of it.
    #[serde(default)]
    pub when: Option<String>,
    /// The components that must be available before helm installs the release. The services that provide the components
    /// become part of the cloud.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// The components that upstream's init containers in the release's pods wait for. The operator does not wait for
    /// these components before it starts helm.
    ///
    /// The services that provide the components become part of the cloud. If the operator can't run helm for all
    /// releases at once, it starts with the releases of the services that provide the components.
    #[serde(default)]
    pub awaits: Vec<Need>,
    /// The components without which the programs in the release's pods do not work. The operator does not wait for
    /// these components before it installs the release, because the components' pods can also depend on the release's
    /// pods.
    ///
    /// The services that provide the components become part of the cloud. If the spec disables such a service, osdpl
    /// warns.
    #[serde(default)]
    pub alongside: Vec<Need>,
    /// The components whose pods the chart creates: maps `application/component` to the kind of workload that runs the
    /// pods.
    #[serde(default)]
    pub components: BTreeMap<String, WorkloadKind>,
    /// The HTTP API of the release, which the operator probes; unset if the release has none.
    #[serde(default)]
    pub endpoint: Option<Endpoint>,
    /// The components that form a quorum: they work only while more than half of their pods are ready. The operator
    /// declares a node ready to be drained only if enough pods of these components are ready on other nodes.
    #[serde(default)]
    pub quorum: Vec<String>,
    /// The components whose `CronJobs` test the cloud: maps `application/component` to a text that tells people where
    /// to find the test results. The cloud's status reports whether the last test run succeeded.
    #[serde(default)]
    pub tests: BTreeMap<String, String>,
    /// The component with a pod on each hypervisor, and the `CronJob` that registers hypervisors in Nova; set only for
    /// the release nova.
    #[serde(default)]
    pub hosts: Option<Hosts>,
    /// The `DaemonSets` for which the chart accepts values that apply to some nodes only.
    ///
    /// The map's key is the `DaemonSet`'s name in the chart's overrides, without the prefix `<chart>_`: `ovs-agent` for
    /// `neutron_ovs-agent`.
    #[serde(default)]
    pub daemonsets: BTreeMap<String, DaemonSet>,
    /// The names of Jobs that the chart installs as ordinary objects, not as hooks. The operator deletes these Jobs
    /// before an upgrade, because Kubernetes refuses to change the pod template of a Job.
    #[serde(default)]
    pub plain_jobs: Vec<String>,
    /// The name of the `ConfigMap` in which a Job of the release records facts, such as the UUIDs of OpenStack objects
    /// that the Job created. The `ConfigMap` is in the release's namespace.
    ///
    /// After the Job has recorded a key, expressions read the key's value as `facts.<release>.<key>`. The value is a
    /// string.
    #[serde(default)]
    pub facts: Option<String>,
    /// Secrets that upstream's charts create in hooks with `resource-policy: keep`, so that `helm uninstall` does not
    /// delete the Secrets. The operator deletes these Secrets only with the deletion policy `Purge`.
    #[serde(default)]
    pub kept_secrets: Vec<String>,
    /// `ConfigMap`s that programs in the release's pods create. `helm uninstall` does not delete these `ConfigMap`s,
    /// because no chart contains them. The operator deletes these `ConfigMap`s only with the deletion policy `Purge`.
    /// In a name, `${release.name}` stands for the name of the helm release.
    #[serde(default)]
    pub kept_config_maps: Vec<String>,
    /// The values that set the size of volume claims: maps the path of a value to the owner of the claims. The owner is
    /// a `StatefulSet`, given as `application/component`, or the claim itself, given as its name.
    ///
    /// Kubernetes can't change the size in the claim template of a `StatefulSet`, and can't make a claim smaller. So
    /// the sizes of existing claims override the sizes in the catalogue.
    #[serde(default)]
    pub claim_sizes: BTreeMap<String, String>,
    /// The keys below `images.tags` in the chart's values of the images that long-running containers use and whose
    /// default tag moves, such as `latest`. The status reports their digests.
    #[serde(default)]
    pub floating_images: Vec<String>,
    /// The CEL expression that computes a digest of the settings on which running OpenStack instances depend; unset if
    /// the release has no such settings. If an upgrade changes the digest, the operator waits for a person to approve
    /// the upgrade. The operator writes the digest to a label, so the expression must not read a secret.
    #[serde(default)]
    pub instance_digest: Option<String>,
    /// The value of helm's flag `--timeout`, in seconds. helm applies it to each hook separately.
    #[serde(default = "default_timeout")]
    pub timeout: u32,
    /// Whether helm 4 writes the release's objects with server-side apply (`--server-side`).
    #[serde(default = "default_server_side")]
    pub server_side: bool,
    /// The values that the release gets in every cloud. They override shared fragments. All other fragments override
    /// these values.
    #[serde(default)]
    pub values: Values,
    /// The paths in the values at which osdpl removes the chart's default value.
    #[serde(default)]
    pub unset: Vec<String>,
    /// Further values of this release, such as workarounds for errors in the chart. Each fragment has a text that says
    /// why the catalogue sets the values, and may have a condition.
    #[serde(default)]
    pub fragments: Vec<OwnFragment>,
}

/// The component with a pod on each hypervisor, and the `CronJob` that registers hypervisors in Nova.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Hosts {
    /// The component with a pod on each hypervisor, as `application/component`.
    #[serde(deserialize_with = "component")]
    pub component: Component,
    /// The name of the `CronJob` that registers new hypervisors in Nova. When a new node has joined the cluster, the
    /// operator does not wait for the `CronJob`'s schedule, but creates a Job from the `CronJob` at once.
    pub discovered_by: String,
}

fn component<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Component, D::Error> {
    let text = String::deserialize(deserializer)?;
    let invalid = || format!("{text:?} is not a component; write application/component, such as nova/compute");
    Component::parse(&text).ok_or_else(invalid).map_err(D::Error::custom)
}

/// The HTTP API of a release, which the operator probes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// The component that serves the API, as `application/component`.
    pub component: String,
    /// The key of the API below `endpoints` in the values of charts, such as `key_manager`. The type of the API in
    /// Keystone's service catalogue is the same with `-` instead of `_`.
    pub endpoint: String,
    /// The name of the Kubernetes Service that the chart creates for the API.
    pub service: String,
    /// The key of the API's port below `endpoints.<endpoint>.port` in the values of charts, such as `api`.
    #[serde(default = "default_port_name")]
    pub port_name: String,
    /// The default of the internal endpoint's TCP port in the chart. osdpl uses it if the release's values set no port.
    pub port: u16,
    /// The path of the URL that the probe requests. The API must respond at this path without a token.
    pub path: String,
    /// The HTTP status codes with which a probe succeeds. OpenStack APIs return 300 if they list several versions.
    #[serde(default = "default_accept")]
    pub accept: Vec<u16>,
    /// Whether this is Keystone's own API. If so, a probe also checks that the response describes version 3 of the API.
    /// Besides, the operator requests a token as the administrator, because the response with the token contains
    /// Keystone's service catalogue.
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

/// A component that a release needs, waits for, or works with, and the condition for this.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The component that the release refers to, as `application/component`.
    pub component: String,
    /// The CEL condition under which the release requires the component; unset if it always requires it. The condition
    /// can read the variables `spec`, `features`, `openstack`, `services` and `releases`.
    #[serde(default)]
    pub when: Option<String>,
}

/// The kind of the workload that runs the pods of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum WorkloadKind {
    /// A Deployment (`apps/v1`).
    Deployment,
    /// A `StatefulSet` (`apps/v1`).
    StatefulSet,
    /// A `DaemonSet` (`apps/v1`). Its pods run only on nodes with the label that the chart selects.
    DaemonSet,
}

/// A `DaemonSet` whose chart accepts different values for some nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonSet {
    /// The format in which the chart accepts the values for single nodes or groups of nodes.
    pub form: Form,
    /// The component of the `DaemonSet`'s pods, as `application/component`.
    pub component: String,
    /// The CEL condition under which the chart creates the `DaemonSet`; unset if the chart always creates it.
    #[serde(default)]
    pub when: Option<String>,
    /// The paths whose values must be equal on all nodes. The chart writes these values to objects that exist only once
    /// for all nodes, such as a `ConfigMap` with scripts.
    #[serde(default)]
    pub shared: Vec<String>,
}

/// The format in which a chart accepts values for some nodes.
///
/// helm-toolkit implements the formats in its templates `daemonset_overrides` (`Conf`) and `daemonset_overrides_root`
/// (`Root`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The chart reads entries at `conf.overrides.<chart>_<daemonset>.{labels,hosts}`. An entry can set only values
    /// below `conf`. If several entries match a node by label, the last of these entries applies. An entry with the
    /// node's name overrides all entries with labels.
    Conf,
    /// The chart reads entries at `overrides.<chart>_<daemonset>.labels."<key>::<value>".values`. An entry can set any
    /// values. If two entries match a node, no pod of the `DaemonSet` runs on this node, because the chart excludes the
    /// nodes of each entry from all other entries.
    Root,
}

/// A password or secret key that a service owns, and how osdpl generates it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Credential {
    /// The format in which osdpl generates the credential.
    #[serde(default)]
    pub kind: CredentialKind,
    /// The length of the generated string in characters; for `base64`, the number of random bytes. A UUID has a fixed
    /// length.
    #[serde(default = "default_length")]
    pub length: usize,
    /// A one-line description of the credential.
    #[serde(default)]
    pub description: String,
    /// The steps that a person must take to replace the credential, in addition to writing the new credential to the
    /// Secret; or the reason why the credential must never change. Empty if the next upgrade does everything else.
    #[serde(default)]
    pub rotation: String,
    /// Whether the user must provide the credential if its service runs outside of the cluster.
    #[serde(default)]
    pub external: bool,
}

fn default_length() -> usize {
    32
}

/// The format in which osdpl generates a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CredentialKind {
    /// Random letters and digits. Other characters would have to be escaped in URIs, and upstream's scripts can't parse
    /// escaped URIs.
    #[default]
    Password,
    /// Random hexadecimal digits.
    Hex,
    /// A random UUID.
    Uuid,
    /// Random bytes in standard base64.
    Base64,
}

/// The Kubernetes Service through which pods reach a service that runs outside of the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct External {
    /// The name of the Kubernetes Service that the pods of upstream's charts wait for. The operator creates this
    /// Service with the address of the external service.
    pub service: String,
    /// The name of the port of the Kubernetes Service.
    pub port_name: String,
    /// The TCP port of the external service if the spec sets no port.
    pub port: u16,
}
