//! Objects of the API server with the few fields that are used, and nothing else held or even allocated.
//!
//! A pod is some 10 KB of JSON and 300 bytes of it matter. What is not declared here is skipped while it is parsed: above
//! all `managedFields` and foreign annotations, which are most of an object's metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::health::{job, pod, workload};

/// Annotations that are kept: helm's mark of ownership.
const KEPT_ANNOTATIONS: &str = "meta.helm.sh/";

/// A kind of object, and which of its fields count.
pub(super) trait Kind: Clone + Send + Sync + 'static {
    const GROUP: &str;
    const VERSION: &str = "v1";
    const KIND: &str;
    const PLURAL: &str;
    /// Whether the API server shall send metadata only.
    const METADATA_ONLY: bool = false;
    type Spec: Part;
    type Status: Part;
    type Data: Part;
}

/// What a part of an object must be able to do.
pub(super) trait Part: Clone + Default + DeserializeOwned + Send + Sync + 'static {}

impl<T: Clone + Default + DeserializeOwned + Send + Sync + 'static> Part for T {}

/// An object of a kind.
#[derive(Clone, Deserialize)]
#[serde(bound = "")]
pub(super) struct Partial<K: Kind> {
    #[serde(default, deserialize_with = "lean")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: K::Spec,
    #[serde(default)]
    pub(super) status: K::Status,
    #[serde(default)]
    pub(super) data: K::Data,
}

/// Its identity only: a Secret's data must not show.
impl<K: Kind> fmt::Debug for Partial<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}/{:?}", K::KIND, self.metadata.namespace, self.metadata.name)
    }
}

impl<K: Kind> Resource for Partial<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn metadata_api() -> bool {
        K::METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// apps/v1 Deployment.
#[derive(Clone)]
pub(super) struct Deployment;

impl Kind for Deployment {
    const GROUP: &str = "apps";
    const KIND: &str = "Deployment";
    const PLURAL: &str = "deployments";
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// apps/v1 `StatefulSet`.
#[derive(Clone)]
pub(super) struct StatefulSet;

impl Kind for StatefulSet {
    const GROUP: &str = "apps";
    const KIND: &str = "StatefulSet";
    const PLURAL: &str = "statefulsets";
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// apps/v1 `DaemonSet`.
#[derive(Clone)]
pub(super) struct DaemonSet;

impl Kind for DaemonSet {
    const GROUP: &str = "apps";
    const KIND: &str = "DaemonSet";
    const PLURAL: &str = "daemonsets";
    type Spec = workload::Spec;
    type Status = workload::Status;
    type Data = IgnoredAny;
}

/// batch/v1 Job.
#[derive(Clone)]
pub(super) struct Job;

impl Kind for Job {
    const GROUP: &str = "batch";
    const KIND: &str = "Job";
    const PLURAL: &str = "jobs";
    type Spec = job::Spec;
    type Status = job::Status;
    type Data = IgnoredAny;
}

/// v1 Pod.
#[derive(Clone)]
pub(super) struct Pod;

impl Kind for Pod {
    const GROUP: &str = "";
    const KIND: &str = "Pod";
    const PLURAL: &str = "pods";
    type Spec = pod::Spec;
    type Status = pod::Status;
    type Data = IgnoredAny;
}

/// v1 Service.
#[derive(Clone)]
pub(super) struct Service;

impl Kind for Service {
    const GROUP: &str = "";
    const KIND: &str = "Service";
    const PLURAL: &str = "services";
    type Spec = Selected;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// `spec` of a Service.
#[derive(Clone, Default, Deserialize)]
pub(super) struct Selected {
    #[serde(default)]
    pub(super) selector: BTreeMap<String, String>,
}

/// helm's record of a revision, without its payload.
#[derive(Clone)]
pub(super) struct RecordHead;

impl Kind for RecordHead {
    const GROUP: &str = "";
    const KIND: &str = "Secret";
    const PLURAL: &str = "secrets";
    const METADATA_ONLY: bool = true;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = IgnoredAny;
}

/// helm's record of a revision, with its payload.
#[derive(Clone)]
pub(super) struct Record;

impl Kind for Record {
    const GROUP: &str = "";
    const KIND: &str = "Secret";
    const PLURAL: &str = "secrets";
    type Spec = IgnoredAny;
    type Status = IgnoredAny;
    type Data = Payload;
}

/// `data` of a record's Secret.
#[derive(Clone, Default, Deserialize)]
pub(super) struct Payload {
    #[serde(default)]
    pub(super) release: ByteString,
}

/// Metadata without the fields that nobody reads.
fn lean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let lean = Lean::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: lean.name,
        namespace: lean.namespace,
        uid: lean.uid,
        resource_version: lean.resource_version,
        generation: lean.generation,
        creation_timestamp: lean.creation_timestamp,
        deletion_timestamp: lean.deletion_timestamp,
        labels: lean.labels,
        annotations: Some(lean.annotations.0).filter(|annotations| !annotations.is_empty()),
        owner_references: lean.owner_references,
        ..ObjectMeta::default()
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Lean {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Annotations,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Default)]
struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Kept;

        impl<'de> Visitor<'de> for Kept {
            type Value = Annotations;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("annotations")
            }

            fn visit_unit<E>(self) -> Result<Annotations, E> {
                Ok(Annotations::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Annotations, A::Error> {
                let mut kept = BTreeMap::new();
                while let Some(key) = entries.next_key::<String>()? {
                    if key.starts_with(KEPT_ANNOTATIONS) {
                        kept.insert(key, entries.next_value()?);
                    } else {
                        entries.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Annotations(kept))
            }
        }

        deserializer.deserialize_any(Kept)
    }
}

#[cfg(test)]
mod tests;
