//! Kubernetes objects reduced to the few fields that osdpl uses.
//!
//! A pod is some 10 KB of JSON, of which osdpl uses 300 bytes. The parser skips all other fields without allocating
//! memory for them: above all, the metadata field `managedFields` and the annotations of other tools, which make up
//! most of the metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use osdpl_core::api::NODE_LABELS;
use osdpl_core::health::storage;

mod kinds;

pub(super) use kinds::{
    Claim, Class, ControllerRevision, CronJob, DaemonSet, Deployment, Job, Node, Pod, Record, RecordHead, Service,
    StatefulSet,
};

/// The prefixes of the annotations that the parser keeps: helm's annotations with the name and namespace of an object's
/// release, the annotation of the default StorageClass, and the operator's own annotation on nodes.
const KEPT_ANNOTATIONS: [&str; 3] = ["meta.helm.sh/", storage::DEFAULT_CLASS, NODE_LABELS];

/// A Kubernetes kind, with the types into which the operator parses the kind's spec, status and data.
pub(super) trait Kind: Clone + Send + Sync + 'static {
    /// The type in `k8s_openapi`, which defines the group, version and names of the kind.
    type Full: k8s_openapi::Resource;
    const GROUP: &str = <Self::Full as k8s_openapi::Resource>::GROUP;
    const VERSION: &str = <Self::Full as k8s_openapi::Resource>::VERSION;
    const KIND: &str = <Self::Full as k8s_openapi::Resource>::KIND;
    const PLURAL: &str = <Self::Full as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    /// Whether the objects of the kind have no namespace.
    const CLUSTER_WIDE: bool = false;
    /// Whether the watch requests only the metadata of objects from the API server.
    const METADATA_ONLY: bool = false;
    type Spec: Part;
    type Status: Part;
    type Data: Part;
}

/// The traits that a type must have to be the spec, status or data of a [`Partial`] object.
pub(super) trait Part: Clone + Default + DeserializeOwned + Send + Sync + 'static {}

impl<T: Clone + Default + DeserializeOwned + Send + Sync + 'static> Part for T {}

/// A Kubernetes object reduced to the fields that osdpl uses.
#[derive(Clone, Deserialize)]
#[serde(bound = "")]
pub(super) struct Partial<K: Kind> {
    #[serde(default, deserialize_with = "reduce_metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: K::Spec,
    #[serde(default)]
    pub(super) status: K::Status,
    #[serde(default)]
    pub(super) data: K::Data,
    /// The provisioner of a StorageClass. This kind has no spec: the field is at the top level of the object.
    #[serde(default)]
    pub(super) provisioner: String,
    /// The revision number of a `ControllerRevision`. This kind has no spec: the field is at the top level of the
    /// object.
    #[serde(default)]
    pub(super) revision: i64,
}

/// Prints only the object's kind, namespace and name, to keep a Secret's data out of logs.
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

/// Parses the metadata fields that osdpl uses, and skips all other fields.
fn reduce_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let reduced = ReducedMetadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: reduced.name,
        namespace: reduced.namespace,
        uid: reduced.uid,
        resource_version: reduced.resource_version,
        generation: reduced.generation,
        creation_timestamp: reduced.creation_timestamp,
        deletion_timestamp: reduced.deletion_timestamp,
        labels: reduced.labels,
        annotations: Some(reduced.annotations.0).filter(|annotations| !annotations.is_empty()),
        owner_references: reduced.owner_references,
        ..ObjectMeta::default()
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReducedMetadata {
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
                    if KEPT_ANNOTATIONS.iter().any(|kept| key.starts_with(kept)) {
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
