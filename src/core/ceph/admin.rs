//! `client.admin`'s key in the charts' hands: they make pools and users themselves.

use std::collections::BTreeMap;

use super::{CephxKey, Consumer};

/// The Secret that the charts' Jobs and init containers mount `client.admin`'s key from; upstream's default of `ceph_client.user_secret_name`.
pub const ADMIN_SECRET: &str = "pvc-ceph-client-key";

/// What the charts make pools and users with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The key of `client.admin`.
    pub key: CephxKey,
    /// Copies of the data in each consumer's pool.
    pub replicas: BTreeMap<Consumer, i64>,
}
