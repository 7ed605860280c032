//! Starting and ending a supervisor from outside.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;

use crate::Error;
use crate::folder::{Folder, tail};
use crate::spec::{Spec, State};
use crate::supervisor::Report;

/// How long the programs may take to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// A supervisor whose life hangs on this value's.
pub(crate) struct Attached(pub Child);

impl Drop for Attached {
    fn drop(&mut self) {
        // Closing the pipe is the sign to end; waiting leaves nothing behind when the caller goes on.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Starts a supervisor and waits until its cluster is up. Blocks for seconds.
pub(crate) fn start(folder: &Folder, spec: &Spec) -> Result<Child, Error> {
    folder.create()?;
    spec.write(folder)?;
    let log_path = folder.log("supervisor");
    let log = std::fs::File::create(&log_path).map_err(Error::file("create", &log_path))?;
    let failed = |reason: String| Error::Boot { component: "the supervisor".into(), reason, tail: tail(&log_path, 15) };
    let mut command = Command::new(program()?);
    command.arg("supervise").arg(folder.path());
    command.stdin(if spec.attached { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().map_err(|error| failed(error.to_string()))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // An unreadable report counts as none.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    match serde_json::from_str(&line) {
        Ok(Report::Ready) => Ok(child),
        Ok(Report::Failed(reason)) => {
            let _ = child.wait();
            Err(Error::Supervisor { reason })
        }
        Err(_) => {
            let _ = child.kill();
            let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(failed(format!("it ended with {status}")))
        }
    }
}

/// Ends the cluster of a folder, if one runs, and removes what it left. Returns whether one ran.
pub(crate) fn end(folder: &Folder) -> Result<bool, Error> {
    let state = match State::read(folder) {
        Err(Error::NotRunning { .. }) => None,
        read => Some(read?),
    };
    let ran = state.as_ref().is_some_and(|state| state.supervisor.is_alive());
    if let Some(state) = state {
        state.supervisor.signal(Signal::TERM);
        if !state.supervisor.wait_until_gone(PATIENCE) {
            state.supervisor.signal(Signal::KILL);
        }
        // The kernel kills them with their supervisor; this is for one that was killed while they were frozen.
        for process in state.components.values() {
            process.signal_group(Signal::KILL);
            process.wait_until_gone(PATIENCE);
        }
    }
    folder.wipe()?;
    Ok(ran)
}

/// The `cluster` program: this one, or the one that cargo puts beside tests. Cargo builds no programs of a
/// dependency, so it is asked to, once a process; up to date that takes a fraction of a second, and it
/// rules out a supervisor older than the library that talks to it.
fn program() -> Result<PathBuf, Error> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = PROGRAM.get_or_init(|| {
        let me = std::env::current_exe().map_err(|error| error.to_string())?;
        if me.file_stem().is_some_and(|name| name == "cluster") { Ok(me) } else { build(&me) }
    });
    found.clone().map_err(|reason| Error::Boot {
        component: "the program `cluster`".into(),
        reason,
        tail: String::new(),
    })
}

/// Builds `cluster` into the folder (`target/debug`) from which `me` runs. The operator's package is named too
/// so that both are built with the same features of their dependencies, that is: only once.
fn build(me: &std::path::Path) -> Result<PathBuf, String> {
    let profile =
        me.ancestors().find(|folder| folder.join("deps").is_dir()).ok_or("not below cargo's target folder")?;
    let target = profile.parent().ok_or("not below cargo's target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What cargo tells tests of their package would make build scripts run again, for this build and then for the next test run.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && !matches!(text.as_ref(), "CARGO_HOME" | "CARGO_TARGET_DIR") {
            command.env_remove(&name);
        }
    }
    command.args(["build", "--quiet", "--package=osdpl", "--package=cluster", "--bin=cluster", "--target-dir"]);
    command.arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cargo does not run: {error}"))?;
    if output.status.success() {
        Ok(profile.join("cluster"))
    } else {
        Err(format!("cargo cannot build it: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
