//! Defines the reasons why the cloud can't use the Ceph cluster that the spec declares.

use super::SecretError;

/// The reason why the cloud can't use the Ceph cluster that the spec declares.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The Secret that describes the Ceph cluster does not exist, or osdpl can't read it.
    #[error("{0}")]
    Secret(String),
    /// The Secret that describes the Ceph cluster is incomplete or malformed.
    #[error(transparent)]
    Malformed(#[from] SecretError),
    /// A setting of Ceph in the spec is invalid.
    #[error("{0}")]
    Spec(String),
    /// Rook has not created an object that the cloud needs, or Rook reports a problem of the Ceph cluster.
    #[error("{0}")]
    Rook(String),
    /// osdpl must write an object that the cloud needs to use Ceph, but someone else has created an object with the
    /// same name. osdpl does not overwrite it.
    #[error(
        "osdpl must write {0}, but osdpl did not create the existing object; if nothing uses the object, delete it"
    )]
    Occupied(String),
    /// The spec declares another Ceph cluster than the one that contains the cloud's data.
    #[error(
        "the declared Ceph has the fsid {found}, but the cloud's images, volumes and instances are in the Ceph with the fsid {in_use} (ConfigMap {map}), so osdpl changes nothing; declare the Ceph with the cloud's data or, to give up this data, delete the ConfigMap"
    )]
    OtherCeph {
        /// The fsid of the Ceph cluster that the spec declares.
        found: String,
        /// The fsid of the Ceph cluster that contains the cloud's data.
        in_use: String,
        /// The `namespace/name` of the charts' `ConfigMap` that contains the fsid `in_use`.
        map: String,
    },
}
