//! The spec of an `OpenStackDeployment`.
//!
//! Every string, list and map in the spec has a maximum size, because the API server estimates the cost of a CRD's CEL
//! rules (`rules.rs`) for the largest possible resource. If the estimate is too high, the API server rejects the CRD.

#![expect(clippy::duplicated_attributes, reason = "every `printcolumn` repeats the attributes `name` and `type_`")]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::choice::{Approval, DeletionPolicy, DriftPolicy, HookPolicy};
use super::{Nodes, OpenStackDeploymentStatus, free_form_schema};

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
    doc = "One OpenStack cloud, run from the upstream OpenStack-Helm charts. The operator reconciles only the oldest OpenStackDeployment in a cluster.",
    // The operator's chart contains the CRD. When a person uninstalls this chart, helm must keep the CRD. If helm
    // deleted the CRD, Kubernetes would delete every cloud.
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
    /// The OpenStack release, such as `"2026.1"`, in quotes. osdpl can't upgrade a deployed cloud to another OpenStack
    /// release yet.
    #[schemars(length(max = 16))]
    pub openstack_release: String,
    /// The names of presets, such as `compute`, `storage` and `ha`. A later preset overrides values of earlier ones.
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
    /// The StorageClass of new volume claims; `general` if unset. The operator never changes existing claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// The ConfigMaps whose files the operator adds to the catalogue: services, presets, features and charts of your
    /// own. The ConfigMaps must be in the namespace of this resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub catalog: Vec<AdditionReference>,
    /// The settings of features, by the feature's name. The CRD lists the fields of built-in features. You can define
    /// further features in files that you add to the catalogue.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form_schema")]
    pub features: Map<String, Value>,
    /// Values for all releases, and values for all releases of one group.
    #[serde(default, skip_serializing_if = "Common::is_empty")]
    pub common: Common,
    /// Settings of single services, by the service's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 96))]
    pub services: BTreeMap<String, ServiceOverrides>,
    /// Settings for nodes: their roles, values for the pods on some nodes, the rollout of the data plane, and limits
    /// for maintenance. If unset, the operator sets no labels on nodes.
    #[serde(default, skip_serializing_if = "Nodes::is_empty")]
    pub nodes: Nodes,
    /// The repository from which the operator fetches charts.
    #[serde(default, skip_serializing_if = "Charts::is_empty")]
    pub charts: Charts,
    /// The settings for the container images of the pods: mirrors, digests and the pull policy.
    #[serde(default, skip_serializing_if = "Images::is_empty")]
    pub images: Images,
    /// The policy for the changes that wait until a person approves them; `Manual` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// While true, the operator installs, upgrades and uninstalls nothing, and writes no other objects of the cloud. It
    /// still updates the status, adopts releases on request, and carries out NodeMaintenances. A deletion of this
    /// resource waits, except with `deletionPolicy: Detach`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The policy for the objects that the operator keeps when someone deletes this resource; `Retain` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// The reaction of the operator if someone edits or deletes objects of releases without helm; `Report` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    /// When an upgrade runs the hooks of a release, such as the Jobs that migrate its database; `WhenNeeded` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HookPolicy>,
}

/// A ConfigMap whose files the operator adds to the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionReference {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The digest of the ConfigMap's data, `sha256:` and 64 hexadecimal digits. If set, the operator uses only content
    /// with this digest. If unset, the operator needs no approval for the content that it reads first. It uses changed
    /// content only after a person's approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
}

/// Helm values of releases, and the defaults that osdpl removes from the charts' values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// Helm values. osdpl merges a map with the maps of less specific sources, such as presets. A list or scalar
    /// replaces the value of less specific sources. An explicit null removes the chart's default.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form_schema")]
    pub values: Map<String, Value>,
    /// The paths at which osdpl removes the chart's default, such as `conf.nova.DEFAULT.debug`. Put a key in double
    /// quotes if it contains dots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 40), inner(length(min = 1, max = 128)))]
    pub unset: Vec<String>,
}

/// Values for all releases, and values for all releases of one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Common {
    /// Values of every release.
    #[serde(flatten)]
    pub all: Overrides,
    /// Values of every release of the group `infra` (such as databases, brokers, caches, libvirt and monitoring).
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

/// The settings of one service: whether it runs and where, its credentials, and its releases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOverrides {
    /// Whether the service is part of the cloud. If unset, the service is part of the cloud if a preset names it or
    /// another service needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The address of the service if it runs outside of this cluster. The operator then installs no release of the
    /// service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Maps names of the service's credentials to keys of your own Secrets. osdpl takes these credentials from the
    /// Secrets instead of generating them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub credentials: BTreeMap<String, SecretKey>,
    /// Settings of single releases of the service, by the release's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 6))]
    pub releases: BTreeMap<String, ReleaseOverrides>,
}

/// The address of a service that runs outside of this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// The IP address or DNS name of the service.
    #[schemars(length(max = 253))]
    pub host: String,
    /// The TCP port of the service; if unset, the port that the catalogue sets for the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// One key of a Secret in the resource's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in the Secret's data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// The settings of one helm release: its values, chart version, name and namespace, and how the operator manages it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseOverrides {
    /// Values of this release, which override values of `spec.common`, presets, features and the catalogue.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// Values in Secrets or ConfigMaps. A later entry overrides values of earlier ones, and `values` overrides all
    /// entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub values_from: Vec<ValuesFrom>,
    /// The version of the chart; if unset, the version in the catalogue's lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// The digest of the chart with this `version` (`sha256:` and 64 hexadecimal digits). If set, the operator accepts
    /// only content with this digest, even if the repository served other content under this version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub digest: Option<String>,
    /// The namespace of the release. If unset, it is the namespace that the catalogue sets for the release (as for
    /// cert-manager), or else the namespace of this resource. The namespace of an installed release can't be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// The name of the release in helm; if unset, the release's name in the catalogue. The name of an installed release
    /// can't be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 53))]
    pub name: Option<String>,
    /// While true, the operator does not install, upgrade or uninstall this release, even if someone deletes the
    /// OpenStackDeployment: the deletion then waits, unless `deletionPolicy` is `Detach`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Set `false` to unmanage the release: it keeps running, but the operator no longer changes or monitors it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
    /// The reaction of the operator if someone edited or deleted objects of this release without helm; `spec.drift`
    /// applies if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
}

/// A key of a Secret or ConfigMap in the namespace of this resource. The key contains helm values as YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFrom {
    /// Whether the values are in a `Secret` or in a `ConfigMap`.
    pub kind: ValuesKind,
    /// The name of the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in the data of the Secret or ConfigMap; `values.yaml` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
    /// Whether osdpl ignores this entry if the object or the key does not exist. If false, osdpl reports an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// Whether the values are in a Secret or in a ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ValuesKind {
    /// A Secret. osdpl redacts all values from the Secret.
    Secret,
    /// A `ConfigMap`. osdpl redacts only those values from the `ConfigMap` that it recognizes as secrets.
    ConfigMap,
}

/// The repository from which the operator fetches charts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Charts {
    /// The URL of the chart repository (`https://…` or `oci://…`). If unset, the operator uses the source of charts in
    /// its own helm values (the key `charts`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub repository: Option<String>,
}

impl Charts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The settings for the container images of the pods: mirrors, digests and the pull policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Maps prefixes of image references to their replacements, such as `quay.io: registry.example.org/quay`. If
    /// several prefixes match an image, osdpl replaces the longest one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = bounded(512)))]
    pub mirrors: BTreeMap<String, String>,
    /// The digest (`sha256:` and 64 hexadecimal digits) to which osdpl pins each image, by the image's name. Write the
    /// original name with its tag, as in the charts or the catalogue, and not the name with the prefix from `mirrors`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024, "additionalProperties" = image_digest()))]
    pub digests: BTreeMap<String, String>,
    /// When the kubelet pulls images: `Always`, `IfNotPresent` or `Never`. If unset, the charts' defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "IfNotPresent", "Never"]))]
    pub pull_policy: Option<String>,
}

impl Images {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `spec.images` changes any reference to a container image. If so, osdpl must know which images the charts
    /// refer to.
    pub fn rewrites(&self) -> bool {
        !self.mirrors.is_empty() || !self.digests.is_empty()
    }
}

fn image_digest() -> Value {
    serde_json::json!({ "type": "string", "maxLength": 71, "pattern": "^sha256:[0-9a-f]{64}$" })
}

fn bounded(length: u32) -> Value {
    serde_json::json!({ "type": "string", "maxLength": length })
}
