//! Identifies this operator process, and checks whether the operator process that left a pending record is alive.
//!
//! osdpl unlocks a pending record only if no helm process may still work on the release. The identity is the identity
//! of a process and not of a pod. If a container restarts in its pod, the previous process in the same pod may have
//! left pending records.

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

/// The identity of an operator process, which is part of each attempt label.
///
/// The text is `p<pod token>.<nonce>` in a pod and `h<host and boot>.<pid>.<start time>` elsewhere. It has at most 40
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(String);

/// Whether the operator process that made an attempt is alive, as far as this process can determine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// This operator process made the attempt. The Runner's table shows whether its helm process is running.
    Own,
    /// The operator process and all its helm processes have ended, so that osdpl may unlock its records.
    Dead,
    /// The operator process or one of its helm processes is alive, so that osdpl must not change its records.
    Alive,
    /// The operator process ran in the pod with this [`pod_token`]. The process is dead if the pod has finished or does
    /// not exist any more.
    Pod(String),
    /// The attempt does not name an operator process, or names one on another machine, so that osdpl can't determine
    /// whether the process is alive.
    Unknown,
}

/// Shortens a pod's uid to the form that [`Instance`] and [`InstanceState::Pod`] contain, so that callers can compare
/// uids.
pub(crate) fn pod_token(uid: &str) -> String {
    let short = uid.replace('-', "").to_ascii_lowercase();
    let fits = !short.is_empty() && short.len() <= TOKEN_MAX && short.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits { short } else { digest(uid, TOKEN_MAX) }
}

impl Instance {
    /// Returns the identity of this process. `pod_uid` is the pod's uid from the downward API; `None` outside of a pod.
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

    /// Returns the identity as text. Attempts contain the same text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the attempt with which this process creates `revision`; `number` counts the attempts of the process.
    pub fn attempt(&self, number: u32, revision: u32) -> Attempt {
        Attempt::trusted(&self.0, number, revision)
    }

    /// Returns whether the operator process with the identity `other`, from [`Attempt::instance`], is alive.
    pub fn liveness(&self, other: &str) -> InstanceState {
        self.liveness_in(other, Path::new("/proc"))
    }

    fn liveness_in(&self, other: &str, proc: &Path) -> InstanceState {
        if other == self.0 {
            return InstanceState::Own;
        }
        // A helm process can outlive its operator briefly: when the operator ends, helm gets SIGTERM, and then still
        // writes its record.
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

/// Splits the identity of an operator process into its kind (`p` or `h`), the pod or host, and the rest.
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
        // The process has ended: either no process has this id, or the id belongs to a newer process.
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
