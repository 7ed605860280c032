//! What is wrong with a Secret, in words that never quote it.

use std::collections::BTreeMap;

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
    /// Two keys for one user.
    #[error("is another key than a second service has for the same user; a user has one key: correct one of them")]
    OtherKey,
    /// No address of an HTTP server.
    #[error("is no URL of the form http[s]://host[:port], without a path")]
    Url,
    /// Nothing is known of an object store that is wanted.
    #[error(
        "is missing, and features.storage.ceph.objectStore asks for it; give the gateways' URL, or bootstrap-rgw.key, with which the chart ceph-rgw runs gateways"
    )]
    NoGateway,
    /// Nobody may speak to Ceph.
    #[error("is missing, and so is every other service's; give at least one service's key")]
    NoUsers,
}

/// The data of a Secret, read key by key.
pub(super) struct Source<'a> {
    pub object: &'a str,
    pub data: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> Source<'a> {
    pub fn problem(&self, key: &str, complaint: Complaint) -> Problem {
        Problem { object: self.object.to_owned(), key: key.to_owned(), complaint }
    }

    /// The text of a key without the spaces and newlines around it, which `kubectl create secret --from-file` brings along.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        let Some(bytes) = self.data.get(key) else { return Ok(None) };
        let text = std::str::from_utf8(bytes).map_err(|_| self.problem(key, Complaint::NotText))?.trim();
        if text.is_empty() { Err(self.problem(key, Complaint::Empty)) } else { Ok(Some(text)) }
    }

    pub fn required(&self, key: &str) -> Result<&'a str, Problem> {
        self.text(key)?.ok_or_else(|| self.problem(key, Complaint::Missing))
    }

    pub fn parsed<T>(&self, key: &str, result: Result<T, Complaint>) -> Result<T, Problem> {
        result.map_err(|complaint| self.problem(key, complaint))
    }
}
