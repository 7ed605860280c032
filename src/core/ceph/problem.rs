//! Errors in a Secret that describes a Ceph. The messages never quote the Secret's values.

use std::collections::BTreeMap;

/// The reason why a Secret does not describe a Ceph cluster. It quotes no value of the Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {object}, key {key}: {error}")]
pub struct SecretError {
    /// The Secret with the error: `namespace/name`.
    pub object: String,
    /// The key of the Secret's data whose value is missing or malformed.
    pub key: String,
    /// The problem with the value, and the remedy.
    pub error: ValueError,
}

/// The problem with the value of a key in a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The Secret does not have the key.
    #[error("is missing; add it")]
    Missing,
    /// The value contains only spaces and newlines.
    #[error("is empty; fill it in, or remove the key where it is optional")]
    Empty,
    /// The value is not UTF-8 text.
    #[error("is not UTF-8 text; store the text itself (kubectl encodes it once, `data` is not encoded twice)")]
    NotText,
    /// The value is not a cephx key, because it is not base64.
    #[error(
        "is not a cephx key: not base64; store the one word that `ceph auth print-key` prints, without [client…] and `key =`"
    )]
    NotBase64,
    /// The value is not a cephx key, but base64 of other bytes.
    #[error(
        "is not a cephx key: it has the wrong length and may be truncated; store what `ceph auth print-key` prints"
    )]
    NotCephx,
    /// The value is not a UUID.
    #[error("is not a UUID; store what `ceph fsid` prints")]
    NotUuid,
    /// The address of a monitor is invalid. The number is its position in the value, from 1.
    #[error(
        "address {0} is invalid; write ip, ip:port, [ipv6]:port or [v2:ip:port/0,v1:ip:port/0], separated by commas"
    )]
    Address(usize),
    /// The value is not a valid name of a Ceph user.
    #[error("is not a Ceph user name; use letters, digits and . _ -")]
    UserName,
    /// The value is not a valid name of a Ceph pool.
    #[error("is not a Ceph pool name; use letters, digits and . _ -")]
    PoolName,
    /// The value does not have the form that Mirantis' layout requires.
    #[error("is not of the form client.<user>;<key>;<pool>:<role>:<device class>;…; write all of it")]
    Fields,
    /// A pool in Mirantis' layout does not have three valid fields. The number is its position in the value, from 1.
    #[error("pool {0} is not of the form <pool>:<role>:<device class>; correct it")]
    PoolFields(usize),
    /// Two services have the same user with different keys.
    #[error("differs from another service's key for the same user; a user has only one key: correct one of them")]
    OtherKey,
    /// The value is not the address of an HTTP server.
    #[error("is not a URL of the form http[s]://host[:port], without a path")]
    Url,
    /// The spec has an object store, but the Secret describes no gateways.
    #[error(
        "is missing, but features.storage.ceph.objectStore needs it; set the gateways' URL, or bootstrap-rgw.key for gateways of the chart ceph-rgw"
    )]
    NoGateway,
    /// The Secret has the key of no service.
    #[error("is missing, and so are the keys of all other services; set the key of at least one service")]
    NoUsers,
}

/// The data of a Secret, with its name for errors.
pub(super) struct SecretData<'a> {
    /// The Secret: `namespace/name`.
    pub object: &'a str,
    pub data: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> SecretData<'a> {
    pub fn problem(&self, key: &str, complaint: ValueError) -> SecretError {
        SecretError { object: self.object.to_owned(), key: key.to_owned(), error: complaint }
    }

    /// Returns the text of a key; `None` if the Secret does not have the key.
    ///
    /// Surrounding spaces and newlines are removed: a file that a person stores with `kubectl create secret
    /// --from-file` ends with a newline.
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
