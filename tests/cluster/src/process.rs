//! Processes by identity: a process id alone may long belong to someone else.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};

/// One process: its id and when it started, which together are never reused while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id; also the id of its process group, since every program leads its own.
    pub pid: i32,
    /// Start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub started: u64,
}

impl Process {
    /// Looks a running process up; `None` when it is gone.
    pub fn find(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self { pid, started: started(pid)? })
    }

    /// Whether this very process still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Sends a signal to the process and its group, if it is still the same one.
    pub fn signal_group(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            // The group may be empty by now: that is what was wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Sends a signal to the process alone, if it is still the same one.
    pub fn signal(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it is gone, for processes that are not our children. `false` when it outlives `patience`.
    pub fn wait_until_gone(&self, patience: Duration) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return true };
        // Opened before it is looked who that is: so it is this very process whose end is awaited.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return !self.is_alive() };
        if !self.is_alive() {
            return true;
        }
        let deadline = Instant::now() + patience;
        loop {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                ended => return ended.is_ok_and(|ended| ended > 0),
            }
        }
    }
}

/// Start time of a process that is neither gone nor a zombie.
fn started(pid: i32) -> Option<u64> {
    start_time(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The fields after the command, which is in parentheses and may hold anything.
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
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0";
        assert_eq!(start_time(stat), Some(987_654));
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let stat = "42 (a) Z 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0";
        assert_eq!(start_time(stat), None);
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_another_process() {
        let me = Process::find(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(!Process { started: me.started + 1, ..me }.is_alive());
    }

    #[test]
    fn the_end_of_a_process_is_awaited_also_of_one_that_nobody_has_waited_for() {
        // It ends with its input.
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(!process.wait_until_gone(Duration::ZERO));
        drop(child.stdin.take());
        assert!(process.wait_until_gone(Duration::from_mins(1)));
        child.wait().unwrap();
        assert!(process.wait_until_gone(Duration::ZERO));
        let other = Process { started: process.started + 1, ..Process::find(std::process::id()).unwrap() };
        assert!(other.wait_until_gone(Duration::ZERO), "a namesake is not waited for");
    }
}
