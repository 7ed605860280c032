//! Reads information about processes from `/proc`.

#![allow(clippy::disallowed_methods, reason = "reads /proc")]

use std::io;
use std::path::Path;
use std::time::Duration;

use super::super::Error;

/// Returns a string that identifies the machine's current boot and the pid namespace of this process.
///
/// After a reboot, or in another pid namespace, another process can have the same process id.
pub(super) fn host(proc: &Path) -> Result<String, Error> {
    let read = |path: std::path::PathBuf| {
        std::fs::read_to_string(&path).map_err(|why| Error::Proc { path: path.clone(), why })
    };
    let boot = read(proc.join("sys/kernel/random/boot_id"))?;
    let link = proc.join("self/ns/pid");
    let space = std::fs::read_link(&link).map_err(|why| Error::Proc { path: link, why })?;
    Ok(format!("{} {}", boot.trim(), space.display()))
}

/// Returns when a process started, in clock ticks since boot; `None` if the process has ended, even if its parent has
/// not reaped it yet.
///
/// The time is field 22 of `/proc/<pid>/stat`. The function counts fields after the program's name, because the name
/// may contain spaces and brackets (`proc_pid_stat(5)`).
pub(super) fn started(proc: &Path, pid: u32) -> Result<Option<u64>, Error> {
    let path = proc.join(pid.to_string()).join("stat");
    let stat = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if is_gone(&error) => return Ok(None),
        Err(why) => return Err(Error::Proc { path, why }),
    };
    let mut fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace();
    let dead = matches!(fields.next(), None | Some("Z" | "X" | "x"));
    Ok(fields.nth(18).and_then(|ticks| ticks.parse().ok()).filter(|_| !dead))
}

/// Whether the error of a read in a process's folder in `/proc` means that this process has ended.
///
/// The read fails with ENOENT if the process ended before the read, and with ESRCH if the process ends during the read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Returns the time since the machine started. All processes of the machine see the same time. So the operator and the
/// guard process use it for deadlines.
pub(in crate::helm) fn uptime(proc: &Path) -> Result<Duration, Error> {
    let path = proc.join("uptime");
    let text = std::fs::read_to_string(&path).map_err(|why| Error::Proc { path: path.clone(), why })?;
    let seconds = text.split_whitespace().next().and_then(|seconds| seconds.parse().ok());
    let uptime = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    uptime.ok_or_else(|| Error::Proc { path, why: io::ErrorKind::InvalidData.into() })
}

/// Returns the ids of all processes that this process can see.
pub(super) fn all(proc: &Path) -> impl Iterator<Item = u32> + use<> {
    let processes = std::fs::read_dir(proc).into_iter().flatten().flatten();
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok())
}

/// Returns the ids of the helm processes that the operator process `instance` has started.
///
/// Each helm process has the identity of its operator process in an environment variable. The operator can't read the
/// environments of other users' processes, so the result leaves out such processes.
pub(in crate::helm) fn helm_processes(proc: &Path, instance: &str) -> Vec<u32> {
    let mark = format!("{}={instance}", super::INSTANCE_VARIABLE);
    let is_marked = |pid: &u32| {
        std::fs::read(proc.join(pid.to_string()).join("environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
    };
    all(proc).filter(is_marked).collect()
}
