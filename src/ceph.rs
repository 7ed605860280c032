//! What is known of a Ceph cluster, read out of a Secret, and what the charts consume, made of it.
//!
//! Pure room: text in, text out. Nothing half-right leaves it: a Secret is read whole or is a [`Problem`], which names object and key and never
//! quotes what stands there, because a key pasted in the wrong place must not show either.

mod external;
mod key;
mod mirantis;
mod monitors;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use external::external;
pub use key::CephxKey;
pub use mirantis::mirantis;
pub use monitors::Monitors;

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

    /// Its user where none is named: the default of upstream's chart.
    pub fn user(self) -> &'static str {
        match self {
            Self::CinderBackup => "cinderbackup",
            other => other.name(),
        }
    }

    /// The Secret that upstream's chart mounts its key from (`secrets.rbd` of glance, cinder, manila and gnocchi). None for nova, whose chart
    /// knows no such Secret.
    pub fn keyring(self) -> Option<&'static str> {
        match self {
            Self::Glance => Some("images-rbd-keyring"),
            Self::Cinder => Some("cinder-volume-rbd-keyring"),
            Self::CinderBackup => Some("cinder-backup-rbd-keyring"),
            Self::Manila => Some("manila-keyring"),
            Self::Gnocchi => Some("gnocchi-rbd-keyring"),
            Self::Nova => None,
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

/// A Ceph cluster as the cloud must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceph {
    /// Where its monitors listen.
    pub monitors: Monitors,
    /// Its identity, a UUID in lower case; none where the source does not say.
    pub fsid: Option<String>,
    /// Who may speak to it.
    pub users: BTreeMap<Consumer, User>,
}

impl Ceph {
    /// `ceph.conf` for [`CONFIG_MAP`]; it holds no key.
    pub fn configuration(&self) -> String {
        let fsid = self.fsid.as_ref().map(|fsid| format!("fsid = {fsid}\n")).unwrap_or_default();
        format!("[global]\n{fsid}mon_host = {}\n", self.monitors)
    }

    /// The Secrets that the charts mount, by name, each with the value of its one key `key`: the bare cephx key.
    pub fn keyrings(&self) -> BTreeMap<&'static str, &CephxKey> {
        self.users.iter().filter_map(|(consumer, user)| Some((consumer.keyring()?, &user.key))).collect()
    }
}

/// Why a Secret is no description of a Ceph cluster. It never holds what stands in the Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {object}, key {key}: {complaint}")]
pub struct Problem {
    /// The Secret: `namespace/name`.
    pub object: String,
    /// The key in its data.
    pub key: String,
    /// What is wrong and what to do.
    pub complaint: Complaint,
}

/// What can be wrong with the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// The key is not there.
    #[error("is missing; add it")]
    Missing,
    /// Nothing but spaces and newlines.
    #[error("is empty; fill it in, or remove the key where it is optional")]
    Empty,
    /// Not text.
    #[error("is no UTF-8 text; store the text itself (kubectl encodes it once, `data` is not encoded twice)")]
    NotText,
    /// No base64.
    #[error(
        "is no cephx key: not base64; store the one word that `ceph auth print-key` prints, without [client…] and `key =`"
    )]
    NotBase64,
    /// Base64 of something else.
    #[error("is no cephx key: its length does not fit, as if it was cut off; store what `ceph auth print-key` prints")]
    NotCephx,
    /// No UUID.
    #[error("is no UUID; store what `ceph fsid` prints")]
    NotUuid,
    /// An address that can't be read.
    #[error(
        "address {0} can't be read; write ip, ip:port, [ipv6]:port or [v2:ip:port/0,v1:ip:port/0], separated by commas"
    )]
    Address(usize),
    /// A name that Ceph does not accept.
    #[error("is no user of Ceph; write its name of letters, digits and . _ -")]
    UserName,
    /// A pool's name that can't stand in values.
    #[error("is no pool of Ceph; write its name of letters, digits and . _ -")]
    PoolName,
    /// Too few fields in Mirantis' form.
    #[error("is not of the form client.<user>;<key>;<pool>:<role>:<device class>;…; write all of it")]
    Fields,
    /// A pool in Mirantis' form.
    #[error("pool {0} is not of the form <pool>:<role>:<device class>")]
    PoolFields(usize),
    /// Nobody may speak to Ceph.
    #[error("is missing, and so is every other service's; give at least one service's key")]
    NoUsers,
}

/// The data of a Secret, read key by key.
struct Source<'a> {
    object: &'a str,
    data: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> Source<'a> {
    fn problem(&self, key: &str, complaint: Complaint) -> Problem {
        Problem { object: self.object.to_owned(), key: key.to_owned(), complaint }
    }

    /// The text of a key without the spaces and newlines around it, which `kubectl create secret --from-file` brings along.
    fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        let Some(bytes) = self.data.get(key) else { return Ok(None) };
        let text = std::str::from_utf8(bytes).map_err(|_| self.problem(key, Complaint::NotText))?.trim();
        if text.is_empty() { Err(self.problem(key, Complaint::Empty)) } else { Ok(Some(text)) }
    }

    fn required(&self, key: &str) -> Result<&'a str, Problem> {
        self.text(key)?.ok_or_else(|| self.problem(key, Complaint::Missing))
    }

    fn parsed<T>(&self, key: &str, result: Result<T, Complaint>) -> Result<T, Problem> {
        result.map_err(|complaint| self.problem(key, complaint))
    }
}

/// Names of users and pools go into ini files and shell scripts of the charts, so less is allowed than Ceph itself would take.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}
