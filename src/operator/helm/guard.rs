//! Kills the helm processes of an operator that hangs or has ended.
//!
//! An operator process that is frozen, or gets no processor time, can't stop its helm processes when it loses the
//! Lease. So the operator starts *itself* once more with a hidden subcommand, as the guard process. The operator sends
//! the guard a deadline, and moves the deadline with each renewal of the Lease. At the deadline, the guard kills all
//! helm processes of the operator, before another operator process can take the Lease. The guard continues to kill helm
//! processes that the operator starts, until the operator sends a later deadline.
//!
//! The guard also kills helm processes that outlive the operator: when the operator ends, helm gets SIGTERM from the
//! kernel (see [`exec`](super::exec)), but could ignore this signal.

#![allow(clippy::disallowed_methods, reason = "starts the guard process, and measures time in it")]

use std::io::{self, BufRead as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

use super::instance::process::{helm_processes, uptime};
use super::{Error, Instance, exec};

/// The hidden subcommand that calls [`guard_helm`]: `osdpl guard-helm <instance>`.
pub const SUBCOMMAND: &str = "guard-helm";

/// The time for which the guard waits for helm processes to end by themselves after their operator has ended.
/// Afterwards, it kills them.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The delay between two searches for helm processes.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);

const PROC: &str = "/proc";

/// The guard process of this operator process.
pub(crate) struct Guard {
    child: Child,
    deadlines: ChildStdin,
}

impl Guard {
    /// Starts the guard process.
    ///
    /// # Errors
    /// Returns an error if the process can't be started.
    pub(crate) fn start(instance: &Instance) -> io::Result<Self> {
        let mut command = Command::new(exec::SELF_PATH);
        command.arg(SUBCOMMAND).arg(instance.as_str()).env_clear();
        // A signal that the terminal sends to the operator's process group, such as Ctrl-C, must not end the guard.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        let deadlines = child.stdin.take().ok_or_else(|| io::Error::other("the guard process has no stdin"))?;
        Ok(Self { child, deadlines })
    }

    /// Sends the guard the new deadline: the time at which the guard kills helm, unless the operator sends a later
    /// deadline before then.
    ///
    /// # Errors
    /// Returns an error if the guard process has ended, or `/proc` is not readable.
    pub(crate) async fn extend(&mut self, until: Instant) -> Result<(), Error> {
        // Read the uptime first and the monotonic clock second. If this process freezes between the two reads, the
        // computed deadline is then too early and not too late.
        let uptime = uptime(Path::new(PROC))?;
        let deadline = uptime + until.saturating_duration_since(Instant::now());
        let line = format!("{}\n", deadline.as_millis());
        self.deadlines.write_all(line.as_bytes()).await.map_err(|why| Error::Guard { why })
    }

    /// Waits until the guard process has ended. It ends before the operator only if someone kills it, or if it can't
    /// read `/proc`.
    pub(crate) async fn ended(&mut self) {
        // Ignore an error: if the operator can't wait for the guard process, it must assume that the process has ended.
        let _ = self.child.wait().await;
    }
}

/// Kills all helm processes of the operator process `instance` when this operator process ends or its deadline passes.
///
/// The function reads the deadlines from stdin, as milliseconds since the machine started: each one replaces the one
/// before. The function returns when the operator has closed stdin and none of its helm processes is left.
///
/// # Errors
/// Returns an error if `/proc` is not readable.
pub fn guard_helm(instance: &str) -> Result<(), Error> {
    let (sender, deadlines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        // Stop if sending fails: the main thread has ended, so nobody needs the deadlines.
        lines.filter_map(|line| line.parse().ok()).all(|deadline: u64| sender.send(deadline).is_ok());
    });
    watch(Path::new(PROC), instance, &deadlines)
}

/// Does the work of [`guard_helm`] with the deadlines from a channel. The channel's sender is dropped when the operator
/// has ended.
fn watch(proc: &Path, instance: &str, deadlines: &Receiver<u64>) -> Result<(), Error> {
    let (mut remaining, mut has_passed) = (Duration::MAX, false);
    loop {
        match deadlines.recv_timeout(remaining) {
            // The deadline before this one may have passed although the operator was not frozen: if someone stopped the
            // guard, it reads the deadlines of that time late.
            Ok(deadline) => {
                remaining = Duration::from_millis(deadline).saturating_sub(uptime(proc)?);
                has_passed = remaining.is_zero();
                // Read the deadlines that are still in the pipe before killing helm.
                remaining = remaining.max(SEARCH_INTERVAL);
            }
            // A frozen operator can start helm again when it continues. So search for helm processes again and again.
            Err(RecvTimeoutError::Timeout) => {
                helm_processes(proc, instance).into_iter().for_each(kill);
                (remaining, has_passed) = (SEARCH_INTERVAL, true);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let end = Instant::now() + if has_passed { Duration::ZERO } else { GRACE };
    loop {
        let helm = helm_processes(proc, instance);
        if helm.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            helm.into_iter().for_each(kill);
        }
        std::thread::sleep(SEARCH_INTERVAL);
    }
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Ignore an error: it only means that the process has just ended.
    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
}

#[cfg(test)]
impl Guard {
    /// Returns a guard process that reads no deadlines, and whose pipe is full.
    pub(crate) async fn stopped() -> Self {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut deadlines = child.stdin.take().unwrap();
        while tokio::time::timeout(SEARCH_INTERVAL, deadlines.write_all(&[b'\n'; 4096])).await.is_ok() {}
        Self { child, deadlines }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::super::instance::INSTANCE_VARIABLE;
    use super::*;

    /// Starts a process that has the mark of helm processes of the operator process `instance`.
    fn start_helm(instance: &str) -> std::process::Child {
        std::process::Command::new("sleep").arg("600").env(INSTANCE_VARIABLE, instance).spawn().unwrap()
    }

    #[test]
    fn kills_helm_until_a_later_deadline() {
        let instance = format!("test-of-the-guard.{}", std::process::id());
        // `send` returns when the guard has received the deadline.
        let (sender, deadlines) = mpsc::sync_channel(0);
        let guarded = instance.clone();
        let guard = std::thread::spawn(move || watch(Path::new(PROC), &guarded, &deadlines));

        sender.send(0).unwrap();
        for _ in 0..2 {
            assert_eq!(start_helm(&instance).wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        }
        let later = uptime(Path::new(PROC)).unwrap() + Duration::from_mins(1);
        sender.send(u64::try_from(later.as_millis()).unwrap()).unwrap();
        let mut helm = start_helm(&instance);
        std::thread::sleep(SEARCH_INTERVAL * 3);
        let ended = helm.try_wait().unwrap();
        // The operator has ended, so the guard kills helm after a grace period.
        drop(sender);
        assert_eq!((ended, helm.wait().unwrap().signal()), (None, Some(Signal::KILL.as_raw())));
        guard.join().unwrap().unwrap();
    }
}
