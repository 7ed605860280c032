//! What is known of a Ceph cluster, read out of a Secret, and what the charts consume, made of it.
//!
//! Pure room: text in, text out. Nothing half-right leaves it: a Secret is read whole or is a [`Problem`], which names object and key and never
//! quotes what stands there, because a key pasted in the wrong place must not show either.

mod admin;
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

pub use admin::{ADMIN_SECRET, Admin};
pub use declared::{Declared, Unready, declared};
pub use example::{example, example_gateway};
pub use external::external;
pub use gateway::{Gateway, Url};
pub use key::CephxKey;
pub use mirantis::mirantis;
pub use monitors::Monitors;
pub use objects::{Kind, Object, mounted, objects, taken_over};
pub use problem::{Complaint, Problem};
pub use rook::{Cluster, ENDPOINTS, Manifest, Rook, consumers, holds};
pub use store::{Keystone, Store, USER};
pub use variables::{is_of_ceph, named_in, variables};

use problem::Source;

/// The ConfigMap that every chart mounts `ceph.conf` from; upstream's default of `ceph_client.configmap`.
pub const CONFIG_MAP: &str = "ceph-etc";

/// Who speaks to Ceph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// Images.
    Glance,
    /// Volumes; libvirt attaches them with the same key.
    Cinder,
    /// Backups of volumes.
    CinderBackup,
    /// Instances' disks.
    Nova,
    /// Shares.
    Manila,
    /// Metrics.
    Gnocchi,
}

impl Consumer {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Glance, Self::Cinder, Self::CinderBackup, Self::Nova, Self::Manila, Self::Gnocchi];

    /// Its name in the keys of a Secret: `cinder-backup.key`.
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

    /// Its name in expressions: `ceph.backup.pool`.
    pub fn variable(self) -> &'static str {
        match self {
            Self::CinderBackup => "backup",
            other => other.name(),
        }
    }

    /// The role that Mirantis' layout gives to the pool that it keeps its data in.
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

    /// Its user where none is named: the default of upstream's chart.
    pub fn user(self) -> &'static str {
        match self {
            Self::CinderBackup => "cinderbackup",
            other => other.name(),
        }
    }

    /// The Secret that its chart mounts its key from: upstream's default (`secrets.rbd` of glance, cinder, manila and gnocchi). Nova's chart
    /// knows no such Secret: that name is ours.
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
    /// What it is for: `volumes`, `images`, `vms`, `backup`; none where the source does not say.
    pub role: Option<String>,
    /// The device class its data lies on; none where the source does not say.
    pub device_class: Option<String>,
}

/// A user of Ceph and what it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name, without `client.`.
    pub name: String,
    /// Its key.
    pub key: CephxKey,
    /// Its pools, the main one first.
    pub pools: Vec<Pool>,
}

/// How a Secret describes a Ceph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Ours, see [`external()`].
    Documented,
    /// That of `openstack-ceph-keys`, see [`mirantis()`].
    Mirantis,
    /// Not in one Secret: by Rook's own objects, see [`Rook`].
    Rook,
}

/// A Ceph cluster as the cloud must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceph {
    /// The Secret that describes it: `namespace/name`.
    pub object: String,
    /// How it does.
    pub layout: Layout,
    /// Where its monitors listen.
    pub monitors: Monitors,
    /// Its identity, a UUID in lower case; none where the source does not say.
    pub fsid: Option<String>,
    /// Who may speak to it.
    pub users: BTreeMap<Consumer, User>,
    /// `client.admin`, where the charts make pools and users themselves: there are no `users` then.
    pub admin: Option<Admin>,
}

impl Ceph {
    /// `ceph.conf` for [`CONFIG_MAP`]; it holds no key.
    pub fn configuration(&self) -> String {
        let fsid = self.fsid.as_ref().map(|fsid| format!("fsid = {fsid}\n")).unwrap_or_default();
        format!("[global]\n{fsid}mon_host = {}\n", self.monitors)
    }

    /// What describes it, for people.
    pub fn source(&self) -> String {
        let kind = if self.layout == Layout::Rook { "Rook's ConfigMap" } else { "Secret" };
        format!("{kind} {}", self.object)
    }

    /// Every key.
    pub fn keys(&self) -> impl Iterator<Item = &CephxKey> {
        self.users.values().map(|user| &user.key).chain(self.admin.iter().map(|admin| &admin.key))
    }

    /// Whether a consumer has a user, or its chart makes one.
    pub fn serves(&self, consumer: Consumer) -> bool {
        self.users.contains_key(&consumer) || self.admin.is_some()
    }

    /// A consumer's user. Nova is cinder's user where it has none of its own.
    pub fn user(&self, consumer: Consumer) -> Option<&User> {
        self.users.get(&consumer)
    }

    /// The consumer whose key libvirt keeps for volumes: what cinder hands out names cinder's user.
    pub fn volumes(&self) -> Option<Consumer> {
        [Consumer::Cinder, Consumer::Nova].into_iter().find(|consumer| self.users.contains_key(consumer))
    }

    /// Whether instances' disks are reached as another user than volumes, so that libvirt needs two keys.
    pub fn has_own_nova(&self) -> bool {
        let name = |consumer| self.users.get(&consumer).map(|user| user.name.as_str());
        name(Consumer::Nova).is_some() && self.volumes().and_then(name) != name(Consumer::Nova)
    }

    /// What to say where a release needs a consumer that the Secret does not speak of.
    pub fn missing(&self, consumer: Consumer) -> Problem {
        let key = match (self.layout, consumer) {
            (Layout::Documented, Consumer::Nova) => "nova.pool".to_owned(),
            (Layout::Documented, _) => format!("{}.key", consumer.name()),
            (Layout::Mirantis | Layout::Rook, _) => consumer.name().to_owned(),
        };
        Problem { object: self.object.clone(), key, complaint: Complaint::Missing }
    }

    /// One user has one key, whoever speaks as that user.
    fn consistent(self) -> Result<Self, Problem> {
        for (consumer, user) in &self.users {
            let differs = |other: &&User| other.name == user.name && other.key != user.key;
            if self.users.values().any(|other| differs(&other)) {
                return Err(Problem { complaint: Complaint::OtherKey, ..self.missing(*consumer) });
            }
        }
        Ok(self)
    }
}

impl User {
    /// The pool for a consumer's own data: the first whose role says so, else the first.
    pub fn pool(&self, consumer: Consumer) -> &str {
        let fits = |pool: &&Pool| pool.role.as_deref() == Some(consumer.role());
        self.pools.iter().find(fits).or(self.pools.first()).map_or("", |pool| pool.name.as_str())
    }
}

/// The Ceph that a `ceph.conf` is of.
pub fn fsid_of(configuration: &str) -> Option<&str> {
    setting(configuration, "fsid")
}

/// What a `ceph.conf` says of an option, in whatever section: Ceph takes spaces and dashes in its name for underscores.
pub fn setting<'a>(configuration: &'a str, option: &str) -> Option<&'a str> {
    let is = |name: &str| name.trim().replace([' ', '-'], "_") == option;
    let said = configuration.lines().filter_map(|line| line.split_once('='));
    said.filter(|(name, _)| is(name)).map(|(_, value)| value.trim()).find(|value| !value.is_empty())
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Names of users and pools go into ini files and shell scripts of the charts, so less is allowed than Ceph itself would take.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}
