//! The spec of an `OpenStackDeployment`.
//!
//! Every string, list and map is bounded: the API server charges a CEL rule for the largest object that the schema allows, and refuses the whole
//! CRD when one rule under an unbounded map could cost too much. The rules themselves are in `rules.rs`.

#![expect(clippy::duplicated_attributes, reason = "every column has a name and a type")]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Nodes;
use super::OpenStackDeploymentStatus;
use super::choice::{Approval, DeletionPolicy, DriftPolicy};

/// One OpenStack cloud, run from the upstream OpenStack-Helm charts.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "osdpl.dev",
    version = "v1alpha1",
    kind = "OpenStackDeployment",
    plural = "openstackdeployments",
    singular = "openstackdeployment",
    shortname = "osdpl",
    category = "openstack",
    namespaced,
    doc = "One OpenStack cloud, run from the upstream OpenStack-Helm charts. One rules per cluster: the oldest.",
    // The operator's chart carries the CRD: uninstalling it must not take every cloud along.
    annotation("helm.sh/resource-policy", "keep"),
    status = "OpenStackDeploymentStatus",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Release", type_ = "string", json_path = ".status.openstackRelease.deployed"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.openstackRelease"),
    printcolumn(name = "Health", type_ = "string", json_path = ".status.components"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackDeploymentSpec {
    /// The OpenStack release, such as `"2026.1"`, in quotes. It can't be changed yet once deployed.
    #[schemars(length(max = 16))]
    pub openstack_release: String,
    /// Kinds of cloud to compose, such as `compute`, `storage`, `ha`, in this order; later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub presets: Vec<String>,
    /// The DNS domain under which the public endpoints are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub public_domain: Option<String>,
    /// The Keystone region; `RegionOne` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub region: Option<String>,
    /// The StorageClass of new volume claims; `general` where unset. Existing claims never change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// What features to turn on and how. Those that the operator knows are listed with their fields; others can come from a catalogue of your own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form")]
    pub features: Map<String, Value>,
    /// Values for all charts, or for one group of them.
    #[serde(default, skip_serializing_if = "Common::is_empty")]
    pub common: Common,
    /// What to change about single services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 96))]
    pub services: BTreeMap<String, ServiceOverrides>,
    /// Which nodes play which role, and what is different on some of them; no node is touched where it is unset.
    #[serde(default, skip_serializing_if = "Nodes::is_empty")]
    pub nodes: Nodes,
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
    /// What is done about objects of releases that someone edited or deleted beside helm: `Report`, where unset, says what, when and by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
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
    #[schemars(length(max = 40), inner(length(min = 1, max = 128)))]
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
    #[schemars(extend("maxProperties" = 32))]
    pub credentials: BTreeMap<String, SecretKey>,
    /// What to change about single releases of the service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 6))]
    pub releases: BTreeMap<String, ReleaseOverrides>,
}

/// Where an external service listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// An IP address or DNS name.
    #[schemars(length(max = 253))]
    pub host: String,
    /// The TCP port; the service's usual one where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// One key of a Secret in the resource's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in its data.
    #[schemars(length(min = 1, max = 253))]
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
    #[schemars(length(max = 8))]
    pub values_from: Vec<ValuesFrom>,
    /// The chart's version; the catalogue's lock where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// The namespace of the release; where unset the one that the catalogue has for it (cert-manager), else the resource's. A release that is installed does not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Helm's name of the release; the catalogue's where unset. A release that is installed keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 53))]
    pub name: Option<String>,
    /// This release is neither upgraded nor uninstalled while true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// False lets the release go: it stays as it runs, helm goes on with it by hand, and nothing of it is touched or looked after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
    /// What is done about objects of this release that someone edited or deleted beside helm; as `spec.drift` says where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
}

/// Values kept in a Secret or ConfigMap of the resource's namespace, as YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFrom {
    /// `Secret` or `ConfigMap`.
    pub kind: ValuesKind,
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in its data; `values.yaml` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
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
    #[schemars(length(max = 2048))]
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
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = bounded(512)))]
    pub mirrors: BTreeMap<String, String>,
    /// Images as charts or the catalogue name them (with their tag, before mirrors), and the digest (`sha256:` and 64 hexadecimal digits) that each is pinned to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024, "additionalProperties" = image_digest()))]
    pub digests: BTreeMap<String, String>,
    /// `Always`, `IfNotPresent` or `Never`; the charts' default where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "IfNotPresent", "Never"]))]
    pub pull_policy: Option<String>,
}

impl Images {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether images become others than those that the charts name, so that one must know these.
    pub fn rewrites(&self) -> bool {
        !self.mirrors.is_empty() || !self.digests.is_empty()
    }
}

/// A schema for objects whose keys the API server must keep and not judge.
pub(super) fn free_form(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "maxProperties": 256, "x-kubernetes-preserve-unknown-fields": true })
}

fn image_digest() -> Value {
    serde_json::json!({ "type": "string", "maxLength": 71, "pattern": "^sha256:[0-9a-f]{64}$" })
}

fn bounded(length: u32) -> Value {
    serde_json::json!({ "type": "string", "maxLength": length })
}
