//! Settings of a Ceph cluster, read from a Secret or from Rook, and the objects for the charts derived from them.
//!
//! Pure module (no I/O). Reading a Secret returns all settings or a [`SecretError`]. An error names the object and the
//! key, and never quotes the value, because a person may have pasted a secret under the wrong key.

mod declared;
mod example;
mod external;
mod gateway;
mod key;
mod mirantis;
mod monitors;
mod objects;
mod problem;
mod rook;
mod store;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;

pub use declared::{DeclaredCeph, NotReady, read_declared_ceph};
pub use example::{example, example_gateway};
pub use external::external;
pub use gateway::{Gateway, Url};
pub use key::CephxKey;
pub(crate) use mirantis::mirantis;
pub use monitors::Monitors;
pub use objects::{Kind, Object, chart_owned_secrets, desired_objects, mountable_objects};
pub use problem::{SecretError, ValueError};
pub use rook::{Cluster, ENDPOINTS, Manifest, RookSettings, consumers, contains};
pub use store::{Keystone, ObjectStore};
pub(crate) use variables::ceph_names_in;
pub use variables::{uses_ceph, variables};

use problem::SecretData;

/// The ConfigMap that every chart mounts `ceph.conf` from; upstream's default of `ceph_client.configmap`.
pub(crate) const CONFIG_MAP: &str = "ceph-etc";

/// The Secret from which the charts' Jobs and init containers mount `client.admin`'s key; upstream's default of
/// `ceph_client.user_secret_name`.
pub(crate) const ADMIN_SECRET: &str = "pvc-ceph-client-key";

/// A service that uses Ceph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// Images.
    Glance,
    /// Volumes. Libvirt attaches them with the same key.
    Cinder,
    /// Backups of volumes.
    CinderBackup,
    /// Disks of instances.
    Nova,
    /// Shares.
    Manila,
    /// Metrics.
    Gnocchi,
}

impl Consumer {
    /// All consumers.
    pub const ALL: [Self; 6] =
        [Self::Glance, Self::Cinder, Self::CinderBackup, Self::Nova, Self::Manila, Self::Gnocchi];

    /// Returns the name in the keys of a Secret: `cinder-backup.key`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glance => "glance",
            Self::Cinder => "cinder",
            Self::CinderBackup => "cinder-backup",
            Self::Nova => "nova",
            Self::Manila => "manila",
            Self::Gnocchi => "gnocchi",
        }
    }

    /// Returns the name in expressions: `ceph.backup.pool`.
    pub fn variable(self) -> &'static str {
        match self {
            Self::CinderBackup => "backup",
            other => other.name(),
        }
    }

    /// Returns the role of its main pool in Mirantis' layout.
    fn role(self) -> &'static str {
        match self {
            Self::Glance => "images",
            Self::Cinder => "volumes",
            Self::CinderBackup => "backup",
            Self::Nova => "vms",
            Self::Manila => "shares",
            Self::Gnocchi => "metrics",
        }
    }

    /// Returns the default of its user: that of upstream's chart.
    pub fn user(self) -> &'static str {
        match self {
            Self::CinderBackup => "cinderbackup",
            other => other.name(),
        }
    }

    /// Returns the Secret that its chart mounts its key from: upstream's default (`secrets.rbd` of glance, cinder,
    /// manila and gnocchi). Nova's chart has no such Secret, so the name is the operator's own.
    pub fn keyring(self) -> &'static str {
        match self {
            Self::Glance => "images-rbd-keyring",
            Self::Cinder => "cinder-volume-rbd-keyring",
            Self::CinderBackup => "cinder-backup-rbd-keyring",
            Self::Manila => "manila-keyring",
            Self::Gnocchi => "gnocchi-rbd-keyring",
            Self::Nova => "nova-rbd-keyring",
        }
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name in Ceph.
    pub name: String,
    /// The role: `volumes`, `images`, `vms`, `backup`; `None` if the description does not contain it.
    pub role: Option<String>,
    /// The device class of its data; `None` if the description does not contain it.
    pub device_class: Option<String>,
}

/// A Ceph user and its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name, without `client.`.
    pub name: String,
    /// Its key.
    pub key: CephxKey,
    /// Its pools, the main one first.
    pub pools: Vec<Pool>,
}

/// The credentials and settings with which the charts create pools and users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The key of `client.admin`.
    pub key: CephxKey,
    /// The number of replicas in each consumer's pool.
    pub replicas: BTreeMap<Consumer, i64>,
}

/// The format in which a Secret or Rook describes a Ceph cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The documented layout of a Secret, see [`external()`].
    Documented,
    /// The layout of `openstack-ceph-keys`, see [`mirantis()`].
    Mirantis,
    /// Rook's own objects instead of one Secret, see [`RookSettings`].
    Rook,
}

/// The settings of a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceph {
    /// The object that describes it: `namespace/name`.
    pub object: String,
    /// The format of the description.
    pub layout: Layout,
    /// The addresses of its monitors.
    pub monitors: Monitors,
    /// Its UUID in lower case; `None` if the description does not contain it.
    pub fsid: Option<String>,
    /// The users, by consumer.
    pub users: BTreeMap<Consumer, User>,
    /// `client.admin`, if the charts create pools and users themselves. `users` is empty then.
    pub admin: Option<Admin>,
}

impl Ceph {
    /// Returns `ceph.conf` for [`CONFIG_MAP`]. It contains no key.
    pub fn configuration(&self) -> String {
        let fsid = self.fsid.as_ref().map(|fsid| format!("fsid = {fsid}\n")).unwrap_or_default();
        format!("[global]\n{fsid}mon_host = {}\n", self.monitors)
    }

    /// Returns the description's object, for messages.
    pub fn source(&self) -> String {
        let kind = if self.layout == Layout::Rook { "Rook's ConfigMap" } else { "Secret" };
        format!("{kind} {}", self.object)
    }

    /// Returns every key.
    pub fn keys(&self) -> impl Iterator<Item = &CephxKey> {
        self.users.values().map(|user| &user.key).chain(self.admin.iter().map(|admin| &admin.key))
    }

    /// Whether a consumer has a user, or its chart creates one.
    pub(crate) fn has_user_for(&self, consumer: Consumer) -> bool {
        self.users.contains_key(&consumer) || self.admin.is_some()
    }

    /// Returns a consumer's user. Nova uses cinder's user if it has none of its own.
    pub fn user(&self, consumer: Consumer) -> Option<&User> {
        self.users.get(&consumer)
    }

    /// Returns the consumer whose key libvirt uses for volumes. The connection data from cinder names cinder's user.
    pub(crate) fn volume_consumer(&self) -> Option<Consumer> {
        [Consumer::Cinder, Consumer::Nova].into_iter().find(|consumer| self.users.contains_key(consumer))
    }

    /// Whether disks of instances have another user than volumes, so that libvirt needs two keys.
    pub(crate) fn has_own_nova(&self) -> bool {
        let name = |consumer| self.users.get(&consumer).map(|user| user.name.as_str());
        name(Consumer::Nova).is_some() && self.volume_consumer().and_then(name) != name(Consumer::Nova)
    }

    /// Returns the problem of a consumer without a user that a release needs.
    pub(crate) fn missing_user_error(&self, consumer: Consumer) -> SecretError {
        let key = match (self.layout, consumer) {
            (Layout::Documented, Consumer::Nova) => "nova.pool".to_owned(),
            (Layout::Documented, _) => format!("{}.key", consumer.name()),
            (Layout::Mirantis | Layout::Rook, _) => consumer.name().to_owned(),
        };
        SecretError { object: self.object.clone(), key, error: ValueError::Missing }
    }

    /// Checks that every user has only one key.
    fn consistent(self) -> Result<Self, SecretError> {
        for (consumer, user) in &self.users {
            let differs = |other: &&User| other.name == user.name && other.key != user.key;
            if self.users.values().any(|other| differs(&other)) {
                return Err(SecretError { error: ValueError::OtherKey, ..self.missing_user_error(*consumer) });
            }
        }
        Ok(self)
    }
}

impl User {
    /// Returns the pool for a consumer's own data: the first with its role, else the first.
    pub fn pool(&self, consumer: Consumer) -> &str {
        let fits = |pool: &&Pool| pool.role.as_deref() == Some(consumer.role());
        self.pools.iter().find(fits).or(self.pools.first()).map_or("", |pool| pool.name.as_str())
    }
}

/// Returns the fsid in a `ceph.conf`.
pub(crate) fn fsid_of(configuration: &str) -> Option<&str> {
    setting(configuration, "fsid")
}

/// Returns the value of an option in a `ceph.conf`, in any section. Ceph treats spaces and dashes in its name as
/// underscores.
pub fn setting<'a>(configuration: &'a str, option: &str) -> Option<&'a str> {
    let is_option = |name: &str| name.trim().replace([' ', '-'], "_") == option;
    let settings = configuration.lines().filter_map(|line| line.split_once('='));
    settings.filter(|(name, _)| is_option(name)).map(|(_, value)| value.trim()).find(|value| !value.is_empty())
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Names of users and pools are used in ini files and shell scripts of the charts, so fewer characters are allowed than
/// in Ceph.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}
