//! Who this operator process is, and whether the one that left a pending record is dead.
//!
//! The fence before a stuck record is unlocked: *prove that no helm is alive*. An identity changes with every process start,
//! not per pod, because a container that restarts in the same pod has left its children's records behind as well.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Error;
use osdpl_core::release::Attempt;

mod process;

/// The environment variable that marks our children with their maker's identity.
pub const VARIABLE: &str = "OSDPL_INSTANCE";

/// The longest pod token that fits an attempt label; a uid without dashes is exactly that long.
const TOKEN_MAX: usize = 32;

/// The identity of one run of the operator's program; a part of every attempt label.
///
/// `p<pod token>.<nonce>` in a pod, `h<host and boot>.<pid>.<start time>` elsewhere; at most 40 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(String);

/// What can be said of the process that made an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is this process: the Runner's own table knows whether a child runs.
    Own,
    /// It is gone, and its children with it: what it left may be taken over.
    Dead,
    /// It, or a child of its, is alive: hands off.
    Alive,
    /// It ran in another pod: dead when the API server has no pod whose [`pod_token`] is this, or when that pod has ended.
    Pod(String),
    /// Not ours, or from another machine: only waiting helps.
    Unknown,
}

/// What [`Verdict::Pod`] is compared with: a pod's uid, in the form it has in an instance.
pub fn pod_token(uid: &str) -> String {
    let short = uid.replace('-', "").to_ascii_lowercase();
    let fits = !short.is_empty() && short.len() <= TOKEN_MAX && short.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits { short } else { digest(uid, TOKEN_MAX) }
}

impl Instance {
    /// The identity of this very process; `pod_uid` is the downward API's `metadata.uid`, if there is one.
    ///
    /// # Errors
    /// When `/proc` does not tell who we are.
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

    /// As in an attempt.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// This process's `number`th attempt, to make `revision`.
    pub fn attempt(&self, number: u32, revision: u32) -> Attempt {
        Attempt::trusted(&self.0, number, revision)
    }

    /// Whether the process of another attempt's [`Attempt::instance`] is dead.
    pub fn judge(&self, other: &str) -> Verdict {
        self.judge_in(other, Path::new("/proc"))
    }

    fn judge_in(&self, other: &str, proc: &Path) -> Verdict {
        if other == self.0 {
            return Verdict::Own;
        }
        // A helm that got SIGTERM when its operator died still writes its record: it outlives its maker by a moment.
        if process::has_child_of(proc, other) {
            return Verdict::Alive;
        }
        match (split(&self.0), split(other)) {
            (Some(('p', mine, _)), Some(('p', token, _))) if mine == token => Verdict::Dead,
            (_, Some(('p', token, _))) => Verdict::Pod(token.to_owned()),
            (_, Some(('h', host, rest))) => judge_local(host, rest, proc),
            (_, _) => Verdict::Unknown,
        }
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Kind, pod or host, and the rest.
fn split(instance: &str) -> Option<(char, &str, &str)> {
    let kind = instance.chars().next().filter(char::is_ascii_lowercase)?;
    let (owner, rest) = instance[1..].split_once('.')?;
    Some((kind, owner, rest))
}

fn judge_local(host: &str, rest: &str, proc: &Path) -> Verdict {
    let Some((Ok(pid), started)) = rest.split_once('.').map(|(pid, started)| (pid.parse(), started)) else {
        return Verdict::Unknown;
    };
    match process::host(proc) {
        Ok(ours) if digest(&ours, 10) == host => {}
        Ok(_) | Err(_) => return Verdict::Unknown,
    }
    match process::started(proc, pid) {
        Ok(Some(now)) if now.to_string() == started => Verdict::Alive,
        // The number is another process's by now, or nobody's.
        Ok(_) => Verdict::Dead,
        Err(_) => Verdict::Unknown,
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
