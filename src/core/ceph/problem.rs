//! Errors in a Secret that describes a Ceph cluster. The error messages never quote the Secret's values.

use std::collections::BTreeMap;

/// An error in a Secret that describes a Ceph cluster. The error names the key in the Secret's data, the problem and
/// the remedy, but quotes no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {object}, key {key}: {error}")]
pub struct SecretError {
    /// The `namespace/name` of the Secret with the error.
    pub object: String,
    /// The key in the Secret's data whose value is missing or malformed.
    pub key: String,
    /// The problem with the value, and the remedy.
    pub error: ValueError,
}

/// The problem with the value of a key in a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The Secret does not have the key.
    #[error("the key is missing; add it")]
    Missing,
    /// The value is empty, or contains only spaces and newlines.
    #[error("the value is empty; set a value, or remove the key if the key is optional")]
    Empty,
    /// The value is not UTF-8 text.
    #[error(
        "the value is not UTF-8 text; in `data`, encode the text with base64 once, or store it in `stringData` without encoding"
    )]
    NotText,
    /// The cephx key in the value is not base64.
    #[error(
        "the cephx key is not base64; copy only the word that `ceph auth print-key client.<user>` prints, without [client…] and `key =`"
    )]
    NotBase64,
    /// The cephx key in the value is base64, but the decoded bytes do not have the format of a cephx key.
    #[error(
        "the cephx key has the wrong format or length, so it may be truncated; copy all that `ceph auth print-key client.<user>` prints"
    )]
    NotCephx,
    /// The value is not a UUID.
    #[error("the value is not a UUID; store what `ceph fsid` prints")]
    NotUuid,
    /// The address of a monitor is invalid. The number is the position of this address in the value, counted from 1.
    #[error(
        "address {0} is invalid; write ip, ip:port, [ipv6]:port or [v2:ip:port/0,v1:ip:port/0], separated by commas"
    )]
    Address(usize),
    /// osdpl does not accept the name of the Ceph user.
    #[error(
        "osdpl does not accept the name of the Ceph user; use a name of letters, digits and . _ - that does not begin with -"
    )]
    UserName,
    /// osdpl does not accept the name of the pool.
    #[error(
        "osdpl does not accept the name of the pool; use a name of letters, digits and . _ - that does not begin with -"
    )]
    PoolName,
    /// The value does not have the form that Mirantis' layout requires.
    #[error("the value is not of the form client.<user>;<key>;<pool>:<role>:<device class>;…; write all fields")]
    Fields,
    /// In Mirantis' layout, the description of a pool in the value does not consist of three valid fields. The number is
    /// the position of this pool among the pools in the value, counted from 1.
    #[error("the pool at position {0} of the value is not of the form <pool>:<role>:<device class>; correct it")]
    PoolFields(usize),
    /// Two services have the same Ceph user, but the Secret contains different cephx keys for them.
    #[error(
        "the value differs from another service's key for the same user; a user has only one key: correct one of the two values"
    )]
    OtherKey,
    /// The value is not the address of an HTTP server.
    #[error("the value is not a URL of the form http[s]://host[:port], without a path")]
    Url,
    /// The spec has an object store, but the Secret contains neither the gateways' URL nor the cephx key for the chart
    /// ceph-rgw.
    #[error(
        "the key is missing, but features.storage.ceph.objectStore needs it; set it to the gateways' URL, or set bootstrap-rgw.key if the chart ceph-rgw runs the gateways"
    )]
    NoGateway,
    /// In Mirantis' layout, Cinder has no pool with the role `backup`, so Cinder's backup service has no pool.
    #[error("no pool in the value has the role backup, but Cinder's backup service needs one; add such a pool")]
    NoBackupPool,
    /// Mirantis' layout has no key for the service.
    #[error(
        "the layout of Mirantis has no key for this service; describe Ceph in osdpl's layout (the guide's page Ceph)"
    )]
    NoKeyInLayout,
    /// The Secret contains a cephx key for none of the services.
    #[error("the key is missing, and so are the keys of all other services; set the key of at least one service")]
    NoUsers,
}

/// The data of a Secret, with the name of the Secret for error messages.
pub(super) struct SecretData<'a> {
    /// The `namespace/name` of the Secret.
    pub object: &'a str,
    pub data: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> SecretData<'a> {
    pub(crate) fn problem(&self, key: &str, complaint: ValueError) -> SecretError {
        SecretError { object: self.object.to_owned(), key: key.to_owned(), error: complaint }
    }

    /// Returns the value of a key in the Secret as text; `None` if the Secret does not have the key.
    ///
    /// The method removes spaces and newlines at both ends, because a file from `kubectl create secret --from-file`
    /// usually ends with a newline.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, SecretError> {
        let Some(bytes) = self.data.get(key) else { return Ok(None) };
        let text = std::str::from_utf8(bytes).map_err(|_| self.problem(key, ValueError::NotText))?.trim();
        if text.is_empty() { Err(self.problem(key, ValueError::Empty)) } else { Ok(Some(text)) }
    }

    pub(crate) fn required(&self, key: &str) -> Result<&'a str, SecretError> {
        self.text(key)?.ok_or_else(|| self.problem(key, ValueError::Missing))
    }

    pub(crate) fn parsed<T>(&self, key: &str, result: Result<T, ValueError>) -> Result<T, SecretError> {
        result.map_err(|complaint| self.problem(key, complaint))
    }
}
