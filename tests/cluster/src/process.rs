//! Identifies processes by their ID and start time. An ID alone is not enough, because the kernel may give the ID of an
//! exited process to a new one.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};

/// A process, identified by its ID and start time. Until the machine restarts, no other process has the same ID and the
/// same start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process ID. It is also the ID of the process group, because every program is the leader of its own group.
    pub pid: i32,
    /// The start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub started: u64,
}

impl Process {
    /// Returns the running process with this ID, or `None` if no such process is running.
    pub fn find(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self { pid, started: started(pid)? })
    }

    /// Whether this process is still running. A zombie is not running.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Sends a signal to the process and its group, unless the process has exited.
    pub fn signal_group(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            // Ignore an error: it means that all processes of the group have exited in the meantime.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Sends a signal to the process, but not to its group, unless the process has exited.
    pub fn signal(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the process has exited, and returns `false` if it is still running after `timeout`. The process need
    /// not be a child of the caller.
    pub fn wait_until_gone(&self, timeout: Duration) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return true };
        // Open `handle` before `is_alive` checks the start time. If `is_alive` then returns `true`, `handle` refers to
        // this process, and not to a later process with the same ID.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return !self.is_alive() };
        if !self.is_alive() {
            return true;
        }
        let deadline = Instant::now() + timeout;
        loop {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                ended => return ended.is_ok_and(|ended| ended > 0),
            }
        }
    }
}

/// Returns the start time of a process, or `None` if it has exited or is a zombie.
fn started(pid: i32) -> Option<u64> {
    start_time(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the start time in a line of `/proc/PID/stat`, or `None` for a zombie. The command in parentheses may contain
/// any character, so this function counts fields from the closing parenthesis.
fn start_time(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    if matches!(fields.first(), Some(&("Z" | "X"))) {
        return None;
    }
    fields.get(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn parses_commands_with_parentheses() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0";
        assert_eq!(start_time(stat), Some(987_654));
    }

    #[test]
    fn zombie_is_not_alive() {
        let stat = "42 (a) Z 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0";
        assert_eq!(start_time(stat), None);
    }

    #[test]
    fn start_time_identifies_a_process() {
        let me = Process::find(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(!Process { started: me.started + 1, ..me }.is_alive());
    }

    #[test]
    fn waits_for_a_process_that_is_not_reaped() {
        // `cat` runs until the test closes its standard input. Then it is a zombie until `child.wait()` reaps it.
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(!process.wait_until_gone(Duration::ZERO));
        drop(child.stdin.take());
        assert!(process.wait_until_gone(Duration::from_mins(1)));
        child.wait().unwrap();
        assert!(process.wait_until_gone(Duration::ZERO));
        let other = Process { started: process.started + 1, ..Process::find(std::process::id()).unwrap() };
        assert!(
            other.wait_until_gone(Duration::ZERO),
            "a process must count as gone if the process with its ID has another start time"
        );
    }
}
