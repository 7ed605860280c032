//! Errors of a Secret, with messages that never quote its values.

use std::collections::BTreeMap;

/// The reason why a Secret does not describe a Ceph cluster. It never contains values of the Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {object}, key {key}: {error}")]
pub struct SecretError {
    /// The Secret: `namespace/name`.
    pub object: String,
    /// The key in its data.
    pub key: String,
    /// The problem and the remedy.
    pub error: ValueError,
}

/// A problem with the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The key does not exist.
    #[error("is missing; add it")]
    Missing,
    /// There are only spaces and newlines.
    #[error("is empty; fill it in, or remove the key where it is optional")]
    Empty,
    /// It is not UTF-8 text.
    #[error("is not UTF-8 text; store the text itself (kubectl encodes it once, `data` is not encoded twice)")]
    NotText,
    /// It is not base64.
    #[error(
        "is not a cephx key: not base64; store the one word that `ceph auth print-key` prints, without [client…] and `key =`"
    )]
    NotBase64,
    /// It is base64 of something else.
    #[error(
        "is not a cephx key: it has the wrong length and may be truncated; store what `ceph auth print-key` prints"
    )]
    NotCephx,
    /// It is not a UUID.
    #[error("is not a UUID; store what `ceph fsid` prints")]
    NotUuid,
    /// An address is invalid.
    #[error(
        "address {0} is invalid; write ip, ip:port, [ipv6]:port or [v2:ip:port/0,v1:ip:port/0], separated by commas"
    )]
    Address(usize),
    /// The user name is invalid.
    #[error("is not a Ceph user name; use letters, digits and . _ -")]
    UserName,
    /// The pool name has characters that are not allowed in values.
    #[error("is not a Ceph pool name; use letters, digits and . _ -")]
    PoolName,
    /// There are too few fields in Mirantis' layout.
    #[error("is not of the form client.<user>;<key>;<pool>:<role>:<device class>;…; write all of it")]
    Fields,
    /// A pool in Mirantis' layout is malformed.
    #[error("pool {0} is not of the form <pool>:<role>:<device class>")]
    PoolFields(usize),
    /// A user has two keys.
    #[error("differs from another service's key for the same user; a user has only one key: correct one of them")]
    OtherKey,
    /// It is not the address of an HTTP server.
    #[error("is not a URL of the form http[s]://host[:port], without a path")]
    Url,
    /// The spec has an object store, but its gateways are not described.
    #[error(
        "is missing, but features.storage.ceph.objectStore needs it; set the gateways' URL, or bootstrap-rgw.key for gateways of the chart ceph-rgw"
    )]
    NoGateway,
    /// There are no users.
    #[error("is missing, and so are the keys of all other services; set the key of at least one service")]
    NoUsers,
}

/// The data of a Secret.
pub(super) struct SecretData<'a> {
    pub object: &'a str,
    pub data: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> SecretData<'a> {
    pub fn problem(&self, key: &str, complaint: ValueError) -> SecretError {
        SecretError { object: self.object.to_owned(), key: key.to_owned(), error: complaint }
    }

    /// Returns the text of a key without surrounding spaces and newlines, which `kubectl create secret --from-file`
    /// adds.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, SecretError> {
        let Some(bytes) = self.data.get(key) else { return Ok(None) };
        let text = std::str::from_utf8(bytes).map_err(|_| self.problem(key, ValueError::NotText))?.trim();
        if text.is_empty() { Err(self.problem(key, ValueError::Empty)) } else { Ok(Some(text)) }
    }

    pub fn required(&self, key: &str) -> Result<&'a str, SecretError> {
        self.text(key)?.ok_or_else(|| self.problem(key, ValueError::Missing))
    }

    pub fn parsed<T>(&self, key: &str, result: Result<T, ValueError>) -> Result<T, SecretError> {
        result.map_err(|complaint| self.problem(key, complaint))
    }
}
