//! Starts and stops the supervisor process of a cluster.

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

/// The maximum time that [`end`] waits for one process to exit: first for the supervisor, and then for each program.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A supervisor that stops when this value is dropped.
pub(crate) struct Attached(pub Child);

impl Drop for Attached {
    fn drop(&mut self) {
        // When the pipe closes, the supervisor stops all programs and then exits.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Starts a supervisor and waits until its cluster is up. Blocks the thread for some seconds.
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
        // Ignore a read error: `line` is then not valid JSON, and the match below returns an error for invalid JSON.
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
            Err(failed(format!("the supervisor ended with {status} and reported no reason")))
        }
    }
}

/// Stops the cluster of a folder if the cluster is running, and removes the folder's files. Returns whether the cluster
/// was running.
pub(crate) fn end(folder: &Folder) -> Result<bool, Error> {
    let state = match State::read(folder) {
        Err(Error::NotRunning { .. }) => None,
        read => Some(read?),
    };
    let ran = state.as_ref().is_some_and(|state| state.supervisor.is_alive());
    if let Some(state) = state {
        state.supervisor.signal(Signal::TERM);
        if !state.supervisor.wait_until_gone(TIMEOUT) {
            state.supervisor.signal(Signal::KILL);
        }
        // Make sure that every program exits: a supervisor that was killed has not stopped its programs.
        for process in state.components.values() {
            process.signal_group(Signal::KILL);
            process.wait_until_gone(TIMEOUT);
        }
    }
    folder.wipe()?;
    Ok(ran)
}

/// Returns the path of the program `cluster`. If this process runs another program, such as a test, the function first
/// builds `cluster` into cargo's target folder.
///
/// Cargo builds only the library of a dependency, not its programs. So if a test depends on this crate, `cargo test`
/// does not build `cluster`. This function runs `cargo build` once per process. The build also ensures that the
/// supervisor has the same version as this library. If `cluster` is up to date, `cargo build` takes a fraction of a
/// second.
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

/// Builds `cluster` into the folder of the running program `me`, such as `target/debug`. The cargo features with which
/// a dependency is built depend on the packages that the command line selects. So the function selects the operator's
/// package in addition to `cluster`. Then the dependencies have the same features as in `make test`, and cargo need not
/// build them again.
fn build(me: &std::path::Path) -> Result<PathBuf, String> {
    let profile = me
        .ancestors()
        .find(|folder| folder.join("deps").is_dir())
        .ok_or("this program is not in cargo's target folder")?;
    let target = profile.parent().ok_or("this program is not in cargo's target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Remove the variables that cargo sets for tests. With these variables, cargo would run build scripts again, both
    // in this build and before later tests.
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
        Err(format!("cargo build failed: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
