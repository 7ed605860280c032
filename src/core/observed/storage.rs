//! The observed volume claims and storage classes.

use super::ReleaseKey;

/// A `PersistentVolumeClaim` that belongs to a release or has no volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claim's namespace.
    pub namespace: String,
    /// The claim's name.
    pub name: String,
    /// The release that the claim belongs to. If a chart's manifest contains the claim, helm's annotations on the claim
    /// name the release. If a `StatefulSet` created the claim, the claim's label `release_group` names the release.
    pub release: Option<ReleaseKey>,
    /// The requested storage class. `None` requests the default class. An empty string requests a volume that
    /// belongs to no class.
    pub class: Option<String>,
    /// The requested size as written in the claim: `10Gi`.
    pub size: String,
    /// Whether the claim waits for a volume, has a volume, or has lost its volume.
    pub phase: ClaimPhase,
}

/// The phase of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPhase {
    /// The claim waits for a volume.
    Pending,
    /// The claim is bound to a volume.
    Bound,
    /// The volume of the claim is lost, and so is the data on it.
    Lost,
}

/// A `StorageClass` of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the `StorageClass`.
    pub name: String,
    /// The provisioner that creates the volumes of the class.
    pub provisioner: String,
    /// Whether Kubernetes uses this class for claims that request no class.
    pub is_default: bool,
}
