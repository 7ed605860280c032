//! Volume claims and storage classes.

use super::ReleaseKey;

/// A `PersistentVolumeClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The release that it belongs to: from the label `release_group` on claims of StatefulSets, from helm's
    /// annotations on claims of charts.
    pub release: Option<ReleaseKey>,
    /// The requested class: `None` is the default class, an empty text is no class.
    pub class: Option<String>,
    /// The requested size as written in the claim: `10Gi`.
    pub size: String,
    /// Its phase.
    pub phase: ClaimPhase,
}

/// The phase of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPhase {
    /// Waiting for a volume.
    Pending,
    /// Bound to a volume.
    Bound,
    /// Its volume and data are lost.
    Lost,
}

/// A `StorageClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The provisioner of its volumes.
    pub provisioner: String,
    /// Whether it is the default class.
    pub is_default: bool,
}
