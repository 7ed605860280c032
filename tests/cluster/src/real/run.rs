//! Runs programs, writes their output into logs, and reports the progress of steps.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::folder::tail;

/// The interval at which a long step reports its progress.
const TICK: Duration = Duration::from_secs(15);

static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Prints the description of a step, and the time since the first step.
pub(super) fn step(text: &str) {
    let seconds = BEGAN.get_or_init(Instant::now).elapsed().as_secs();
    eprintln!("[{seconds:>4} s] {text}");
}

/// Prints an indented line about the current step.
pub(super) fn note(text: &str) {
    eprintln!("         {text}");
}

/// Runs a command with `input` as its standard input. Writes the output of the command into `log`. While a long command
/// runs, prints the last line of the log every 15 s. If the command fails, the error contains the last lines of the
/// log.
pub(super) fn logged(command: &mut Command, what: &str, log: &Path, input: &str) -> anyhow::Result<()> {
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let errors = output.try_clone().with_context(|| format!("cannot open {}", log.display()))?;
    command.stdin(Stdio::piped()).stdout(output).stderr(errors);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program(command)))?;
    if let Some(mut pipe) = child.stdin.take() {
        // Ignore an error: the program has exited without reading its input, and has written the reason into the log.
        let _ = pipe.write_all(input.as_bytes());
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait()));
    let began = Instant::now();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => bail!("{what} failed: {status}; see {}\n{}", log.display(), tail(log, 20)),
            Ok(Err(error)) => return Err(error).with_context(|| format!("cannot wait for {what}")),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                let line: String = tail(log, 1).trim().chars().take(70).collect();
                note(&format!("… {what}, {} s: {line}", began.elapsed().as_secs()));
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => bail!("the thread that waits for {what} has ended"),
        }
    }
}

/// Runs a command and returns its standard output. If the command fails, the error contains its standard error.
pub(super) fn output(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let name = program(command);
    let output = crate::output_with_input(command, input).with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn program(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Creates a folder and its parents.
pub(super) fn folder(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
}

/// Writes a file, and creates its folder.
pub(super) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    path.parent().map_or(Ok(()), folder)?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
