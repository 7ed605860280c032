//! `client.admin`'s key for charts that create pools and users themselves.

use std::collections::BTreeMap;

use super::{CephxKey, Consumer};

/// The Secret from which the charts' Jobs and init containers mount `client.admin`'s key; upstream's default of
/// `ceph_client.user_secret_name`.
pub const ADMIN_SECRET: &str = "pvc-ceph-client-key";

/// The credentials and settings with which the charts create pools and users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The key of `client.admin`.
    pub key: CephxKey,
    /// The number of replicas in each consumer's pool.
    pub replicas: BTreeMap<Consumer, i64>,
}
