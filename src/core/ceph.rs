//! Reads from a Secret or from Rook's objects how a cloud accesses a Ceph cluster: monitors, users, cephx keys and
//! pools. Builds the `ConfigMap` and the Secrets from which the charts' pods mount these settings.
//!
//! Pure module (no I/O). A function that reads a Secret returns either all settings or a [`SecretError`]. The error
//! names the Secret and the key in its data. The error never quotes the value under this key, because a person may have
//! pasted a password or a cephx key there by mistake.

mod declared;
mod example;
mod external;
mod gateway;
mod key;
mod mirantis;
mod monitors;
mod not_ready;
mod objects;
mod problem;
mod rook;
mod store;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;

pub use declared::{DeclaredCeph, read_declared_ceph};
pub use example::{example, example_gateway};
pub use external::external;
pub use gateway::{Gateway, Url};
pub use key::CephxKey;
pub(crate) use mirantis::mirantis;
pub use monitors::Monitors;
pub use not_ready::NotReady;
pub use objects::{Kind, Object, chart_owned_secrets, desired_objects, mountable_objects};
pub use problem::{SecretError, ValueError};
pub use rook::{Cluster, ENDPOINTS, Manifest, RookSettings, consumers, contains};
pub use store::{Keystone, ObjectStore};
pub(crate) use variables::ceph_names_in;
pub use variables::{uses_ceph, variables};

use problem::SecretData;

/// The name of the `ConfigMap` from which every chart mounts `ceph.conf`. The name is the charts' default of the value
/// `ceph_client.configmap`.
pub(crate) const CONFIG_MAP: &str = "ceph-etc";

/// The name of the Secret from which the charts' Jobs and init containers mount the cephx key of `client.admin`. The
/// name is the charts' default of the value `ceph_client.user_secret_name`.
pub(crate) const ADMIN_SECRET: &str = "pvc-ceph-client-key";

/// A consumer: an OpenStack service that stores data in Ceph. It has a Ceph user and a pool there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// Glance, which stores images.
    Glance,
    /// Cinder, which stores volumes. Libvirt uses Cinder's cephx key to attach volumes to instances.
    Cinder,
    /// Cinder's backup service, which stores backups of volumes.
    CinderBackup,
    /// Nova, which stores disks of instances.
    Nova,
    /// Manila, which stores shared file systems.
    Manila,
    /// Gnocchi, which stores metrics.
    Gnocchi,
}

impl Consumer {
    /// All consumers, in the order in which messages list them.
    pub const ALL: [Self; 6] =
        [Self::Glance, Self::Cinder, Self::CinderBackup, Self::Nova, Self::Manila, Self::Gnocchi];

    /// Returns the consumer's name. In a Secret with the settings of Ceph, the keys for the consumer begin with this
    /// name: `cinder-backup.key` for `cinder-backup`.
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

    /// Returns the consumer's name in expressions: `backup` in `ceph.backup.pool`.
    pub fn variable(self) -> &'static str {
        match self {
            Self::CinderBackup => "backup",
            other => other.name(),
        }
    }

    /// Returns the word with which a Secret in Mirantis' layout marks the consumer's pool: the role of the pool.
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

    /// Returns the name that upstream's charts give to the consumer's Ceph user by default. A Secret that describes
    /// Ceph can set another name.
    pub fn user(self) -> &'static str {
        match self {
            Self::CinderBackup => "cinderbackup",
            other => other.name(),
        }
    }

    /// Returns the name of the Secret from which the charts' pods mount the cephx key of the consumer's Ceph user.
    ///
    /// The names for glance, cinder, manila and gnocchi are upstream's defaults (`secrets.rbd`). Nova's chart has no
    /// such default, because it does not mount a Secret with a Ceph key by itself. osdpl adds the mount in Nova's
    /// values, and chose the name.
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

/// A pool of a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name of the pool in Ceph.
    pub name: String,
    /// The role of the pool, such as `volumes`, `images`, `vms` or `backup`. Only a Secret in Mirantis' layout contains
    /// roles; otherwise `None`.
    pub role: Option<String>,
    /// The device class of the pool's data, such as `ssd`. Only a Secret in Mirantis' layout contains device classes;
    /// otherwise `None`.
    pub device_class: Option<String>,
}

/// The Ceph user with which a consumer accesses its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name of the user, without `client.`.
    pub name: String,
    /// The user's secret key.
    pub key: CephxKey,
    /// The Ceph pools to which the user has access, the main pool first. [`User::pool`] chooses the first pool whose
    /// role fits a consumer or, if no role fits, the main pool.
    pub pools: Vec<Pool>,
}

/// The settings with which the charts create pools and users themselves: the secret key of `client.admin`, and the
/// number of replicas in each pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The secret key of `client.admin`.
    pub key: CephxKey,
    /// The number of copies of the data in each consumer's pool.
    pub replicas: BTreeMap<Consumer, i64>,
}

/// The kind of objects from which osdpl reads the settings of a Ceph cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A Secret in osdpl's documented layout, see [`external()`].
    Documented,
    /// A Secret in the layout of Mirantis' `openstack-ceph-keys`, see [`mirantis()`].
    Mirantis,
    /// Several objects that Rook creates. [`RookSettings`] reads them.
    Rook,
    /// No object: the settings are placeholders, see [`example()`].
    Placeholder,
}

/// The settings with which the cloud's services access a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceph {
    /// The `namespace/name` of the object that contains the settings: a Secret, or Rook's `ConfigMap` that lists the
    /// monitors.
    pub object: String,
    /// The kind of the objects from which osdpl read these settings.
    pub layout: Layout,
    /// The addresses of the Ceph cluster's monitors.
    pub monitors: Monitors,
    /// The UUID (`fsid`) of the Ceph cluster in lower case; `None` for Mirantis' layout, which does not contain the
    /// UUID.
    pub fsid: Option<String>,
    /// The Ceph users, by consumer.
    pub users: BTreeMap<Consumer, User>,
    /// The settings with which the charts create pools and users themselves; `None` if the charts do not create them.
    /// If the field is set, `users` is empty.
    pub admin: Option<Admin>,
}

impl Ceph {
    /// Returns the text of `ceph.conf` for the `ConfigMap` [`CONFIG_MAP`]. The text contains no cephx key.
    pub fn configuration(&self) -> String {
        let fsid = self.fsid.as_ref().map(|fsid| format!("fsid = {fsid}\n")).unwrap_or_default();
        format!("[global]\n{fsid}mon_host = {}\n", self.monitors)
    }

    /// Returns the name by which messages refer to the source of the settings: the kind and name of an object.
    pub fn source(&self) -> String {
        match self.layout {
            Layout::Documented | Layout::Mirantis => format!("Secret {}", self.object),
            Layout::Rook => format!("Rook's ConfigMap {}", self.object),
            Layout::Placeholder => "a placeholder".to_owned(),
        }
    }

    /// Returns the secret keys of all users, including `client.admin`.
    pub fn keys(&self) -> impl Iterator<Item = &CephxKey> {
        self.users.values().map(|user| &user.key).chain(self.admin.iter().map(|admin| &admin.key))
    }

    /// Whether the consumer has a Ceph user, or its chart creates one. The charts create the users themselves if they
    /// have the cephx key of `client.admin`.
    pub(crate) fn has_user_for(&self, consumer: Consumer) -> bool {
        self.users.contains_key(&consumer) || self.admin.is_some()
    }

    /// Returns the Ceph user of a consumer; `None` if the settings contain no user for this consumer. If Nova shares
    /// Cinder's user, the settings contain a user for Nova, too: with the name and key of Cinder's user.
    pub fn user(&self, consumer: Consumer) -> Option<&User> {
        self.users.get(&consumer)
    }

    /// Returns the consumer whose Ceph key libvirt uses to attach volumes: Cinder or, if Cinder has no Ceph user, Nova;
    /// `None` if neither of the two has a user.
    ///
    /// osdpl prefers Cinder's key, because the connection data that Nova receives for a volume names Cinder's user.
    pub(crate) fn volume_consumer(&self) -> Option<Consumer> {
        [Consumer::Cinder, Consumer::Nova].into_iter().find(|consumer| self.users.contains_key(consumer))
    }

    /// Whether Nova has a Ceph user of its own, other than the user with which libvirt attaches volumes. If so, libvirt
    /// needs the cephx keys of both users.
    pub(crate) fn has_own_nova(&self) -> bool {
        let name = |consumer| self.users.get(&consumer).map(|user| user.name.as_str());
        name(Consumer::Nova).is_some() && self.volume_consumer().and_then(name) != name(Consumer::Nova)
    }

    /// Returns why the settings of Ceph contain no user for a consumer, and the remedy.
    pub(crate) fn missing_user_reason(&self, consumer: Consumer) -> String {
        match self.layout {
            Layout::Rook => format!(
                "the Ceph of Rook has no user for {0}, because osdpl requests users only for services of the cloud; enable the service of {0}, or remove the value that needs the user",
                consumer.name()
            ),
            Layout::Documented | Layout::Mirantis | Layout::Placeholder => {
                self.missing_user_error(consumer).to_string()
            }
        }
    }

    /// Returns the error that the Secret with the settings of Ceph contains no user for a consumer.
    pub(crate) fn missing_user_error(&self, consumer: Consumer) -> SecretError {
        let has_cinder = self.users.contains_key(&Consumer::Cinder);
        let (key, error) = match (self.layout, consumer) {
            (Layout::Documented, Consumer::Nova) => ("nova.pool".to_owned(), ValueError::Missing),
            // In Mirantis' layout, Cinder's backup service uses Cinder's user.
            (Layout::Mirantis, Consumer::CinderBackup) if has_cinder => ("cinder".to_owned(), ValueError::NoBackupPool),
            (Layout::Mirantis, Consumer::CinderBackup) => ("cinder".to_owned(), ValueError::Missing),
            (Layout::Mirantis, Consumer::Gnocchi) => ("gnocchi".to_owned(), ValueError::NoKeyInLayout),
            _ => (self.secret_key(consumer), ValueError::Missing),
        };
        SecretError { object: self.object.clone(), key, error }
    }

    /// Returns the key of the Secret's data that contains the cephx key of a consumer's user.
    fn secret_key(&self, consumer: Consumer) -> String {
        match self.layout {
            Layout::Documented => format!("{}.key", consumer.name()),
            Layout::Mirantis | Layout::Rook | Layout::Placeholder => consumer.name().to_owned(),
        }
    }

    /// Returns the settings unchanged, or an error if they contain different cephx keys for two consumers with the same
    /// Ceph user.
    fn consistent(self) -> Result<Self, SecretError> {
        for (consumer, user) in &self.users {
            let differs = |other: &&User| other.name == user.name && other.key != user.key;
            if self.users.values().any(|other| differs(&other)) {
                let (object, key) = (self.object.clone(), self.secret_key(*consumer));
                return Err(SecretError { object, key, error: ValueError::OtherKey });
            }
        }
        Ok(self)
    }
}

impl User {
    /// Returns the name of the pool in which a consumer stores its data: the user's first pool whose role fits the
    /// consumer or, if no role fits, the user's first pool.
    pub fn pool(&self, consumer: Consumer) -> &str {
        let fits = |pool: &&Pool| pool.role.as_deref() == Some(consumer.role());
        self.pools.iter().find(fits).or(self.pools.first()).map_or("", |pool| pool.name.as_str())
    }
}

/// Returns the Ceph cluster's UUID (`fsid`) in the text of a `ceph.conf`; `None` if the text contains none.
pub(crate) fn fsid_of(configuration: &str) -> Option<&str> {
    setting(configuration, "fsid")
}

/// Returns the value of an option in the text of a `ceph.conf`, from any section.
///
/// Like Ceph, osdpl regards spaces and dashes in the file's option names as underscores. The argument `option` must be
/// written with underscores.
pub fn setting<'a>(configuration: &'a str, option: &str) -> Option<&'a str> {
    let is_option = |name: &str| name.trim().replace([' ', '-'], "_") == option;
    let settings = configuration.lines().filter_map(|line| line.split_once('='));
    settings.filter(|(name, _)| is_option(name)).map(|(_, value)| value.trim()).find(|value| !value.is_empty())
}

/// Whether a string is a UUID in the form that `ceph fsid` prints.
fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Whether osdpl accepts a string as the name of a Ceph user or pool.
///
/// The charts write these names to ini files and shell scripts, so osdpl accepts fewer characters than Ceph itself.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}
