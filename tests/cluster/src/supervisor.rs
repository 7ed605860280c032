//! The supervisor process of a cluster. The supervisor starts the programs, responds to requests on its control socket,
//! and stops the programs after a signal or when its caller exits. If the supervisor is killed, the kernel kills the
//! programs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::Error;
use crate::folder::{Folder, SOCKET};
use crate::ports;
use crate::process::Process;
use crate::spec::{Spec, State};

mod boot;
mod children;
pub(crate) mod control;
mod seed;
mod volumes;

use children::Children;

/// The message with which the supervisor tells its caller whether the cluster has started. It is the only message, one
/// line of JSON on standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// The cluster has started, and pods can be created.
    Ready,
    /// The cluster did not start. The text is the error.
    Failed(String),
}

/// Starts the cluster whose settings are in `folder`, and runs it until a signal or the caller's exit stops it. Returns
/// the exit code of the supervisor.
pub async fn run(folder: &Folder) -> u8 {
    // Leave the caller's session, so that Ctrl-C in the caller's terminal does not stop the supervisor. Ignore an
    // error: it means that this process already leads its own process group, which Ctrl-C does not reach.
    let _ = rustix::process::setsid();
    match supervise(folder).await {
        Ok(()) => 0,
        Err(error) => {
            report(&Report::Failed(error.to_string()));
            1
        }
    }
}

async fn supervise(folder: &Folder) -> Result<(), Error> {
    let spec = Spec::read(folder)?;
    std::env::set_current_dir(folder.path()).map_err(Error::file("enter", folder.path()))?;
    let mut stop = StopSignal::new(spec.attached)?;
    let claim = ports::claim(std::process::id())?;
    let mut children = Children::new(folder.clone(), spec.clone(), claim.ports)?;
    let listener = UnixListener::bind(SOCKET).map_err(Error::file("listen on", &folder.socket()))?;

    let booted = tokio::select! {
        booted = boot::boot(&mut children) => booted,
        () = stop.wait() => Ok(()),
    };
    if booted.is_ok() && !stop.is_due {
        report(&Report::Ready);
        control::serve(listener, &mut children, &mut stop).await;
    }
    volumes::remove(folder).await;
    children.end().await;
    clean_up(folder, &spec);
    booted
}

fn clean_up(folder: &Folder, spec: &Spec) {
    // Ignore errors: usually, they mean that a file does not exist.
    let _ = std::fs::remove_file(folder.state());
    let _ = std::fs::remove_file(folder.socket());
    if spec.temporary {
        let _ = std::env::set_current_dir("/");
        let _ = std::fs::remove_dir_all(folder.path());
    }
}

fn report(report: &Report) {
    // Ignore an error: it means that the caller has exited and reads no report.
    let _ = writeln!(std::io::stdout(), "{}", serde_json::json!(report));
}

/// Tells the supervisor when to stop: when it receives SIGTERM, SIGINT or SIGHUP, or when its caller closes the pipe to
/// its standard input.
pub(crate) struct StopSignal {
    reasons: mpsc::Receiver<()>,
    is_due: bool,
}

impl StopSignal {
    fn new(attached: bool) -> Result<Self, Error> {
        let (sender, reasons) = mpsc::channel(1);
        for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
            let mut signals = signal(kind).map_err(Error::file("listen for", Path::new("signals")))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                signals.recv().await;
                let _ = sender.send(()).await;
            });
        }
        if attached {
            // Read standard input on a separate thread, because tokio cannot cancel a read of standard input.
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                let _ = sender.blocking_send(());
            });
        }
        Ok(Self { reasons, is_due: false })
    }

    /// Waits until the supervisor must stop. Later calls return at once.
    pub async fn wait(&mut self) {
        if !self.is_due {
            self.reasons.recv().await;
            self.is_due = true;
        }
    }
}

/// Asks the kernel to kill this process when the supervisor exits, and then replaces this process with the program.
/// Returns only if one of these steps fails. The supervisor starts every program through this function.
///
/// The kernel does not wait for the exit of the whole supervisor: it kills the process when the *thread* that started
/// the process exits. So the supervisor starts all processes on its main thread, which lives as long as the supervisor.
pub fn exec(parent: i32, program: &Path, arguments: &[String]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // Check that the supervisor is still running. If it exited before the call of `set_parent_process_death_signal`,
    // the kernel will never kill this process.
    if rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
        return std::io::Error::other("the supervisor has exited");
    }
    std::process::Command::new(program).args(arguments).exec()
}

/// Opens a log file for appending. Creates the file if it does not exist.
fn log_file(path: &Path) -> Result<File, Error> {
    OpenOptions::new().create(true).append(true).open(path).map_err(Error::file("open", path))
}

/// Returns the ID and start time of the supervisor itself, for the state file.
fn myself() -> Result<Process, Error> {
    let found = Process::find(std::process::id());
    found.ok_or_else(|| Error::Supervisor {
        reason: "the supervisor cannot read its own entry in /proc: mount /proc".into(),
    })
}

/// Returns the content of the state file: the supervisor, the ports and the running children.
fn state(children: &Children, ready: bool) -> Result<State, Error> {
    Ok(State { supervisor: myself()?, ports: children.ports, ready, components: children.processes() })
}
