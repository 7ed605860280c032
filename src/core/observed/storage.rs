//! Volume claims and the classes that they ask for.

use super::Key;

/// A `PersistentVolumeClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The release that it belongs to: what StatefulSets make has upstream's label `release_group`, what charts make helm's annotations.
    pub release: Option<Key>,
    /// The class that it asks for: `None` stands for the default one, the empty text for volumes without a class.
    pub class: Option<String>,
    /// How big a volume it asks for, as it stands in the claim: `10Gi`.
    pub size: String,
    /// How far it is.
    pub phase: ClaimPhase,
}

/// How far a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPhase {
    /// It waits for a volume.
    Pending,
    /// It has one.
    Bound,
    /// The volume that it had is gone, and the data with it.
    Lost,
}

/// A `StorageClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// What makes its volumes.
    pub provisioner: String,
    /// Whether claims that name no class get this one.
    pub is_default: bool,
}
