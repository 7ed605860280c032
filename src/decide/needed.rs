//! Defines the objects that osdpl keeps for releases that it does not manage.

use std::collections::BTreeSet;

use osdpl_core::ceph::Object;
use osdpl_core::observed::ReleaseKey;

/// The objects that osdpl does not delete, because pods of releases that osdpl does not manage may need them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The releases that osdpl does not manage and whose pods may need objects that osdpl wrote.
    pub(crate) releases: BTreeSet<ReleaseKey>,
    /// Whether pods of `releases` may select nodes by role labels, so that osdpl must not remove these labels.
    pub(crate) labels: bool,
    /// The namespaces and names of the Services for external services that pods of `releases` may still use. The set
    /// includes external services that the spec no longer names.
    pub(crate) external: BTreeSet<ReleaseKey>,
    /// The objects for Ceph that pods of `releases` may have mounted. Callers must use only their kinds, namespaces and
    /// names, because their contents are incomplete.
    pub(crate) ceph: Vec<Object>,
    /// Whether `releases` may use the object store of Ceph.
    pub(crate) store: bool,
}
