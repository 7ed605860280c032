//! Reads the fields of volume claims and StorageClasses that osdpl needs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::RELEASE_GROUP;
use crate::observed::{Claim, ClaimPhase, Class};
use crate::release::{self, ReleaseKey};

/// The annotation with which an administrator marks the default StorageClass (Kubernetes: `pkg/apis/storage/util`).
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The fields of a volume claim's `spec` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    storage_class_name: Option<String>,
    resources: Resources,
}

impl Spec {
    /// Returns the requested size as written in the claim.
    pub(super) fn size(&self) -> &str {
        &self.resources.requests.storage
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Requests,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    storage: String,
}

/// The fields of a volume claim's `status` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    phase: String,
}

/// Returns the fields of a volume claim that osdpl needs; `None` for a bound claim that belongs to no helm release.
pub fn claim(metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<Claim> {
    let namespace = metadata.namespace.clone()?;
    let labelled = || Some(ReleaseKey::new(&namespace, metadata.labels.as_ref()?.get(RELEASE_GROUP)?));
    let release = release::helm_owner(metadata).or_else(labelled);
    let phase = match status.phase.as_str() {
        "Bound" => ClaimPhase::Bound,
        "Lost" => ClaimPhase::Lost,
        _ => ClaimPhase::Pending,
    };
    if release.is_none() && phase == ClaimPhase::Bound {
        return None;
    }
    let (class, size) = (spec.storage_class_name.clone(), spec.size().to_owned());
    Some(Claim { name: metadata.name.clone()?, namespace, release, class, size, phase })
}

/// Returns the name and provisioner of a StorageClass, and whether it is the default StorageClass; `None` if `metadata`
/// contains no name.
pub fn class(metadata: &ObjectMeta, provisioner: &str) -> Option<Class> {
    let marked = metadata.annotations.as_ref().and_then(|annotations| annotations.get(DEFAULT_CLASS));
    let is_default = marked.is_some_and(|value| value == "true");
    Some(Class { name: metadata.name.clone()?, provisioner: provisioner.to_owned(), is_default })
}
