//! The spec of an `OpenStackDeployment`.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OpenStackDeploymentStatus;

/// One OpenStack cloud, run from the upstream OpenStack-Helm charts.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "osdpl.dev",
    version = "v1alpha1",
    kind = "OpenStackDeployment",
    plural = "openstackdeployments",
    singular = "openstackdeployment",
    shortname = "osdpl",
    category = "openstack",
    namespaced,
    status = "OpenStackDeploymentStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackDeploymentSpec {
    /// The OpenStack release, such as `2026.1`.
    pub openstack_release: String,
    /// Kinds of cloud to compose, in this order; later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub presets: Vec<String>,
    /// The DNS domain under which the public endpoints are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_domain: Option<String>,
    /// The Keystone region; `RegionOne` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The StorageClass of new volume claims; `general` where unset. Existing claims never change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// What features to turn on and how; `osdpl catalog` lists them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form")]
    pub features: Map<String, Value>,
    /// Values for all charts, or for one group of them.
    #[serde(default, skip_serializing_if = "Common::is_empty")]
    pub common: Common,
    /// What to change about single services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, ServiceOverrides>,
    /// Where charts come from.
    #[serde(default, skip_serializing_if = "Charts::is_empty")]
    pub charts: Charts,
    /// Where container images come from.
    #[serde(default, skip_serializing_if = "Images::is_empty")]
    pub images: Images,
    /// Whether changes that the spec did not ask for wait for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Nothing is installed, upgraded or uninstalled while true; status goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What a deletion of this resource leaves behind; `Retain` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// One layer of helm values with the defaults it removes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// Helm values; maps merge, lists and scalars replace, an explicit null removes the chart's default.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form")]
    pub values: Map<String, Value>,
    /// Paths (`conf.nova.DEFAULT.debug`; a key with dots in quotes) whose chart default is removed: sent to helm as nulls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

/// Values for all charts and for the two groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Common {
    /// Values of every release.
    #[serde(flatten)]
    pub all: Overrides,
    /// Values of every release of the group `infra` (databases, brokers, caches, node networking).
    #[serde(default)]
    pub infra: Overrides,
    /// Values of every release of the group `openstack`.
    #[serde(default)]
    pub openstack: Overrides,
}

impl Common {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What to change about one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOverrides {
    /// Whether the service is part of the cloud; the presets decide where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The service runs outside of this cluster: no release is installed for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Credentials of the service that come from Secrets of yours instead of being generated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, SecretKey>,
    /// What to change about single releases of the service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub releases: BTreeMap<String, ReleaseOverrides>,
}

/// Where an external service listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// An IP address or DNS name.
    pub host: String,
    /// The TCP port; the service's usual one where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// One key of a Secret in the resource's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The Secret's name.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

/// What to change about one release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseOverrides {
    /// Values of this release, over every other layer.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// Values kept in Secrets or ConfigMaps, merged in order, below `values`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_from: Vec<ValuesFrom>,
    /// The chart's version; the catalogue's lock where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The namespace of the release; the resource's where unset. Fixed once installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Helm's name of the release; the catalogue's where unset. Fixed once installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// This release is neither upgraded nor uninstalled while true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Values kept in a Secret or ConfigMap of the resource's namespace, as YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFrom {
    /// `Secret` or `ConfigMap`.
    pub kind: ValuesKind,
    /// The object's name.
    pub name: String,
    /// The key in its data; `values.yaml` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the object or key may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The kind of object that holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ValuesKind {
    /// Values that are redacted everywhere.
    Secret,
    /// Values that may be shown.
    ConfigMap,
}

/// Where charts come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Charts {
    /// The chart repository's URL (`https://…` or `oci://…`); the operator's own setting where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

impl Charts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where container images come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Prefixes of image references and what replaces them, such as `quay.io: registry.example.org/quay`; the longest match wins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mirrors: BTreeMap<String, String>,
    /// `Always`, `IfNotPresent` or `Never`; the charts' default where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<String>,
}

impl Images {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Who lets changes go that the spec did not ask for: those of a new operator or catalogue, and uninstalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// A person, with `osdpl approve`.
    #[default]
    Manual,
    /// The operator, at once.
    Automatic,
}

/// What a deletion of the resource leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Volume claims, credentials and key Secrets stay: applying the resource again finds them.
    #[default]
    Retain,
    /// Nothing stays.
    Purge,
}

/// A schema for objects whose keys the API server must keep and not judge.
pub(super) fn free_form(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
