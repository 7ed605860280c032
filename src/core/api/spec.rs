//! The spec of an `OpenStackDeployment`.
//!
//! Every string, list and map has a maximum size. The API server estimates the cost of a CRD's CEL rules for the
//! largest object that the schema allows, and rejects the CRD if a rule below an unbounded map could cost too much. The
//! rules are in `rules.rs`.

#![expect(clippy::duplicated_attributes, reason = "every `printcolumn` repeats the attributes `name` and `type_`")]

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
    doc = "One OpenStack cloud, run from the upstream OpenStack-Helm charts. Only the oldest one in a cluster is reconciled.",
    // The operator's chart contains the CRD. If helm deleted it with the chart, every cloud would be deleted, too.
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
    /// Presets to compose, such as `compute`, `storage`, `ha`, in this order. Later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub presets: Vec<String>,
    /// The DNS domain under which the public endpoints are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub public_domain: Option<String>,
    /// The Keystone region; `RegionOne` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub region: Option<String>,
    /// The StorageClass of new volume claims; `general` if unset. Existing claims are never changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// The features and their settings. The features of the built-in catalogue are listed with their fields; others can
    /// come from a catalogue of your own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form_schema")]
    pub features: Map<String, Value>,
    /// Values for all charts, or for one group of them.
    #[serde(default, skip_serializing_if = "Common::is_empty")]
    pub common: Common,
    /// Changes to single services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 96))]
    pub services: BTreeMap<String, ServiceOverrides>,
    /// The roles of nodes, and the values that differ on some of them. If unset, no node is changed.
    #[serde(default, skip_serializing_if = "Nodes::is_empty")]
    pub nodes: Nodes,
    /// The source of charts.
    #[serde(default, skip_serializing_if = "Charts::is_empty")]
    pub charts: Charts,
    /// The source of container images.
    #[serde(default, skip_serializing_if = "Images::is_empty")]
    pub images: Images,
    /// Whether changes that the spec did not request wait for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// While true, nothing is installed, upgraded or uninstalled. The status is still updated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The objects that remain after a deletion of this resource; `Retain` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// The reaction to objects of releases that someone edited or deleted without helm; `Report` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
}

/// One layer of helm values, and the chart defaults it removes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// Helm values. Maps merge, lists and scalars replace, an explicit null removes the chart's default.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form_schema")]
    pub values: Map<String, Value>,
    /// Paths (`conf.nova.DEFAULT.debug`; a key with dots in quotes) whose chart default is removed.
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

/// Changes to one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOverrides {
    /// Whether the service is part of the cloud; the presets decide if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Set if the service runs outside this cluster. No release is installed for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Credentials of the service that come from your own Secrets instead of being generated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub credentials: BTreeMap<String, SecretKey>,
    /// Changes to single releases of the service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 6))]
    pub releases: BTreeMap<String, ReleaseOverrides>,
}

/// The address of an external service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// An IP address or DNS name.
    #[schemars(length(max = 253))]
    pub host: String,
    /// The TCP port; the service's usual one if unset.
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

/// Changes to one release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseOverrides {
    /// Values of this release, merged over all other layers.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// Values from Secrets or ConfigMaps, merged in order, below `values`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub values_from: Vec<ValuesFrom>,
    /// The chart's version; that of the catalogue's lock if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// The namespace of the release; if unset, the one from the catalogue (cert-manager), else the resource's. An
    /// installed release is not moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// The helm name of the release; the catalogue's name if unset. An installed release keeps its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 53))]
    pub name: Option<String>,
    /// While true, this release is neither upgraded nor uninstalled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// False unmanages the release: it keeps running, but is neither changed nor monitored any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
    /// The reaction to objects of this release that someone edited or deleted; that of `spec.drift` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
}

/// Values in a Secret or ConfigMap of the resource's namespace, as YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFrom {
    /// `Secret` or `ConfigMap`.
    pub kind: ValuesKind,
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in its data; `values.yaml` if unset.
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
    /// A Secret. osdpl redacts its values everywhere.
    Secret,
    /// A `ConfigMap`. osdpl may show its values.
    ConfigMap,
}

/// The source of charts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Charts {
    /// The chart repository's URL (`https://…` or `oci://…`); the operator's own setting if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub repository: Option<String>,
}

impl Charts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The source of container images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Image prefixes and their replacements (longest match wins), such as `quay.io: registry.example.org/quay`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = bounded(512)))]
    pub mirrors: BTreeMap<String, String>,
    /// Digests (`sha256:` and 64 hexadecimal digits) to pin images to, by the image name in the charts or the catalogue
    /// (with its tag, before mirrors).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024, "additionalProperties" = image_digest()))]
    pub digests: BTreeMap<String, String>,
    /// `Always`, `IfNotPresent` or `Never`; the charts' default if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "IfNotPresent", "Never"]))]
    pub pull_policy: Option<String>,
}

impl Images {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether osdpl must change references to images. To do so, it must know the references in the charts.
    pub fn rewrites(&self) -> bool {
        !self.mirrors.is_empty() || !self.digests.is_empty()
    }
}

/// Returns the schema of a map in which the API server accepts and keeps any keys.
pub(super) fn free_form_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "maxProperties": 256, "x-kubernetes-preserve-unknown-fields": true })
}

fn image_digest() -> Value {
    serde_json::json!({ "type": "string", "maxLength": 71, "pattern": "^sha256:[0-9a-f]{64}$" })
}

fn bounded(length: u32) -> Value {
    serde_json::json!({ "type": "string", "maxLength": length })
}
