//! The identity of this operator process, and the liveness of the process that left a pending record.
//!
//! This is the check before a stuck record is unlocked: *no helm may be alive*. An identity changes with each process
//! start instead of each pod, because a container that restarts in the same pod leaves records of its helm processes as
//! well.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Error;
use osdpl_core::release::Attempt;

mod process;

/// The environment variable that marks helm processes with the identity of their operator.
pub const INSTANCE_VARIABLE: &str = "OSDPL_INSTANCE";

/// The longest pod token that fits into an attempt label. A uid without dashes has exactly this length.
const TOKEN_MAX: usize = 32;

/// The identity of one run of the operator. It is part of each attempt label.
///
/// `p<pod token>.<nonce>` in a pod, `h<host and boot>.<pid>.<start time>` elsewhere; at most 40 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(String);

/// The liveness of the process that made an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It is this process. The Runner's table shows whether its helm process is running.
    Own,
    /// It has ended with all its helm processes, so its records may be taken over.
    Dead,
    /// It or one of its helm processes is alive, so its records must not be changed.
    Alive,
    /// It ran in another pod: it is dead if that pod has ended, or the API server has no pod with this [`pod_token`].
    Pod(String),
    /// It is not an operator, or runs on another machine. Only waiting helps.
    Unknown,
}

/// Returns a pod's uid in the form it has in an instance, for comparison with [`InstanceState`].
pub(crate) fn pod_token(uid: &str) -> String {
    let short = uid.replace('-', "").to_ascii_lowercase();
    let fits = !short.is_empty() && short.len() <= TOKEN_MAX && short.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits { short } else { digest(uid, TOKEN_MAX) }
}

impl Instance {
    /// Returns the identity of this process. `pod_uid` is the downward API's `metadata.uid`, if any.
    ///
    /// # Errors
    /// If `/proc` does not identify this process.
    pub fn of_this_process(pod_uid: Option<&str>) -> Result<Self, Error> {
        Self::of(std::process::id(), pod_uid, Path::new("/proc"))
    }

    fn of(pid: u32, pod_uid: Option<&str>, proc: &Path) -> Result<Self, Error> {
        let host = process::host(proc)?;
        let started = process::started(proc, pid)?.ok_or_else(|| Error::Proc {
            path: PathBuf::from(format!("/proc/{pid}/stat")),
            why: std::io::ErrorKind::NotFound.into(),
        })?;
        Ok(Self(match pod_uid {
            Some(uid) => {
                let nonce = digest(&format!("{host} {pid} {started}"), 6);
                format!("p{}.{nonce}", pod_token(uid))
            }
            None => format!("h{}.{pid}.{started}", digest(&host, 10)),
        }))
    }

    /// Returns the identity as it is part of an attempt.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the label value for an attempt of this process to create `revision`.
    pub fn attempt(&self, number: u32, revision: u32) -> Attempt {
        Attempt::trusted(&self.0, number, revision)
    }

    /// Returns the liveness of the process of another attempt's [`Attempt::instance`].
    pub fn liveness(&self, other: &str) -> InstanceState {
        self.liveness_in(other, Path::new("/proc"))
    }

    fn liveness_in(&self, other: &str, proc: &Path) -> InstanceState {
        if other == self.0 {
            return InstanceState::Own;
        }
        // A helm that received SIGTERM when its operator ended still writes its record, and so outlives the operator.
        if process::has_child_of(proc, other) {
            return InstanceState::Alive;
        }
        match (split(&self.0), split(other)) {
            (Some(('p', own, _)), Some(('p', token, _))) if own == token => InstanceState::Dead,
            (_, Some(('p', token, _))) => InstanceState::Pod(token.to_owned()),
            (_, Some(('h', host, rest))) => local_liveness(host, rest, proc),
            (_, _) => InstanceState::Unknown,
        }
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Splits an instance into its kind, its pod or host, and the rest.
fn split(instance: &str) -> Option<(char, &str, &str)> {
    let kind = instance.chars().next().filter(char::is_ascii_lowercase)?;
    let (owner, rest) = instance[1..].split_once('.')?;
    Some((kind, owner, rest))
}

fn local_liveness(host: &str, rest: &str, proc: &Path) -> InstanceState {
    let Some((Ok(pid), started)) = rest.split_once('.').map(|(pid, started)| (pid.parse(), started)) else {
        return InstanceState::Unknown;
    };
    match process::host(proc) {
        Ok(ours) if digest(&ours, 10) == host => {}
        Ok(_) | Err(_) => return InstanceState::Unknown,
    }
    match process::started(proc, pid) {
        Ok(Some(current)) if current.to_string() == started => InstanceState::Alive,
        // The process id is free, or was reused by another process.
        Ok(_) => InstanceState::Dead,
        Err(_) => InstanceState::Unknown,
    }
}

fn digest(text: &str, length: usize) -> String {
    let bytes = Sha256::digest(text.as_bytes());
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(length).map(hexadecimal).collect()
}

fn hexadecimal(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests;
