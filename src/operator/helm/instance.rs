//! Gives each operator process an identity, and determines whether another operator process runs on this machine.
//!
//! The identity names a process and not a pod: if a container restarts in its pod, the Lease and pending records can
//! still name the previous operator process in the same pod.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Error;
use osdpl_core::observed::Liveness;
use osdpl_core::release::Attempt;

pub(super) mod process;

/// The environment variable of helm processes that contains the identity of their operator process.
pub(crate) const INSTANCE_VARIABLE: &str = "OSDPL_INSTANCE";

/// The maximum length, in characters, of a pod token (the short form of the pod's uid). With a longer token, the
/// attempt label could exceed Kubernetes' limit. A uid without dashes has exactly this length.
const TOKEN_MAX: usize = 32;

/// The identity of an operator process (not an OpenStack instance). Each attempt label contains it.
///
/// In a pod, the identity is `p<pod token>.<digest>`, with a digest of the host, process id and start time. Outside of
/// a pod, it is `h<digest of the host>.<process id>.<start time>`. Here, the host means the current boot of the machine
/// and the pid namespace of the process. The identity has at most 40 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(String);

/// The state of another operator process, as far as this process can find it out on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// The process ran on this machine, or in this pod. It has ended, and so have its helm processes.
    Ended,
    /// The process or one of its helm processes runs on this machine.
    Running,
    /// The process ran on another machine or in another pod, or its identity is malformed, so this process can't find
    /// out whether it has ended.
    Elsewhere,
}

/// Returns the pod token in an [`Instance`]: the pod's uid without dashes, or a digest of an unusual uid.
fn pod_token(uid: &str) -> String {
    let short = uid.replace('-', "").to_ascii_lowercase();
    let fits = !short.is_empty() && short.len() <= TOKEN_MAX && short.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits { short } else { digest(uid, TOKEN_MAX) }
}

impl Instance {
    /// Returns the identity of this process. `pod_uid` is the pod's uid from the downward API; `None` outside of a pod.
    ///
    /// # Errors
    /// Returns an error if `/proc` does not identify this process.
    pub fn of_this_process(pod_uid: Option<&str>) -> Result<Self, Error> {
        Self::of(std::process::id(), pod_uid, Path::new("/proc"))
    }

    fn of(pid: u32, pod_uid: Option<&str>, proc: &Path) -> Result<Self, Error> {
        let host = process::host(proc)?;
        let started = process::started(proc, pid)?.ok_or_else(|| Error::Proc {
            path: PathBuf::from(format!("/proc/{pid}/stat")),
            why: std::io::ErrorKind::NotFound.into(),
        })?;
        Ok(Self(identity(&host, pid, started, pod_uid.map(pod_token).as_deref())))
    }

    /// Returns the identity as attempt labels contain it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the `Attempt` for a run of helm by this process. `number` counts the runs of helm since this process
    /// started. `revision` is the revision that an upgrade makes, or the newest revision before an uninstall.
    pub fn attempt(&self, number: u32, revision: u32) -> Attempt {
        Attempt::trusted(&self.0, number, revision)
    }

    /// Returns whether the operator process with the identity `other`, or one of its helm processes, runs on this
    /// machine.
    pub(crate) fn state_of(&self, other: &str) -> ProcessState {
        self.state_in(other, Path::new("/proc"))
    }

    /// Tells whether the operator process that made an attempt could still be running helm. `other` is the identity of
    /// that operator process, as [`Attempt::instance`] returns it.
    ///
    /// The result is reliable only while this process holds the Lease: then the helm processes of all earlier holders
    /// have ended (see [`lease`](crate::lease)). But `other` may be an operator that uses another Lease. So the
    /// function searches this machine for helm processes of `other`.
    pub fn liveness(&self, other: &str) -> Liveness {
        if other == self.0 {
            Liveness::Us
        } else if process::helm_processes(Path::new("/proc"), other).is_empty() {
            Liveness::Dead
        } else {
            Liveness::Alive
        }
    }

    fn state_in(&self, other: &str, proc: &Path) -> ProcessState {
        // A helm process can outlive its operator briefly: when the operator ends, helm gets SIGTERM, but still writes
        // its record.
        if !process::helm_processes(proc, other).is_empty() {
            return ProcessState::Running;
        }
        let (Some((kind, owner, _)), Ok(host)) = (split(other), process::host(proc)) else {
            return ProcessState::Elsewhere;
        };
        let pod = match (kind, split(&self.0)) {
            // `other` ran in this pod. If it ran in an earlier container, the search below does not find it. That is
            // right, because all processes of that container have ended.
            ('p', Some(('p', own, _))) if own == owner => Some(owner),
            ('h', _) if digest(&host, 10) == owner => None,
            _ => return ProcessState::Elsewhere,
        };
        let is_other = |pid: u32| {
            let started = process::started(proc, pid).ok().flatten();
            started.is_some_and(|started| identity(&host, pid, started, pod) == other)
        };
        if process::all(proc).any(is_other) { ProcessState::Running } else { ProcessState::Ended }
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Splits the identity of an operator process into its kind (`p` in a pod, `h` outside of a pod), the token of the pod
/// or host, and the rest. Returns `None` if the string does not have this form.
fn split(instance: &str) -> Option<(char, &str, &str)> {
    let kind = instance.chars().next().filter(char::is_ascii_lowercase)?;
    let (owner, rest) = instance[1..].split_once('.')?;
    Some((kind, owner, rest))
}

/// Returns the identity of an operator process; `pod` is the token of its pod, or `None` outside of a pod.
fn identity(host: &str, pid: u32, started: u64, pod: Option<&str>) -> String {
    match pod {
        Some(token) => format!("p{token}.{}", digest(&format!("{host} {pid} {started}"), 6)),
        None => format!("h{}.{pid}.{started}", digest(host, 10)),
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
