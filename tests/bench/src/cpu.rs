//! Reads the CPU time and memory of processes from `/proc` (`proc_pid_stat(5)`, `proc_pid_status(5)`).

use std::time::Duration;

use anyhow::Context as _;

/// The kernel's unit of CPU time in `/proc`: `USER_HZ` is 100 per second on every architecture that Rust supports.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time of a process: the sum of user and system time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// The CPU time of the process itself, without its children.
    pub own: Duration,
    /// The CPU time of the children that have exited and that the process has waited for, including their children.
    pub children: Duration,
}

impl Cpu {
    /// Returns the CPU time of a process so far.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        // The program's name (field 2) may contain spaces, so count the fields after the name. `utime` is field 14 of
        // the line, and so the 12th field after the name.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| -> anyhow::Result<u64> {
            fields
                .get(index)
                .and_then(|field| field.parse().ok())
                .with_context(|| format!("{path} has no field {index}"))
        };
        let time = |ticks: u64| -> anyhow::Result<Duration> { Ok(TICK * u32::try_from(ticks)?) };
        Ok(Self { own: time(ticks(11)? + ticks(12)?)?, children: time(ticks(13)? + ticks(14)?)? })
    }

    /// Returns the CPU time that the process used between the measurement `earlier` and this measurement.
    pub fn since(self, earlier: Self) -> Self {
        Self { own: self.own.saturating_sub(earlier.own), children: self.children.saturating_sub(earlier.children) }
    }
}

/// Returns the resident memory of a process in KiB.
pub fn resident(pid: u32) -> anyhow::Result<u64> {
    field(pid, "VmRSS:")
}

/// Returns the peak resident memory of a process in KiB.
pub fn peak(pid: u32) -> anyhow::Result<u64> {
    field(pid, "VmHWM:")
}

fn field(pid: u32, name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name} in /proc"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Returns the process ID and the command line of each child of a process.
pub fn children(pid: u32) -> Vec<(u32, Vec<String>)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let numbers: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.into_iter().map(|child| (child, command_line(child))).collect()
}

fn command_line(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
