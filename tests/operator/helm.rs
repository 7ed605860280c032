//! helm, as the operator runs it and as someone else would.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::world::{World, patience};

/// A helm that writes down how it was called, and then is the real one: same process, same input.
pub struct Recorder {
    /// The program to give to the operator.
    pub program: PathBuf,
    log: PathBuf,
}

/// One helm process that the operator started.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub pid: i32,
    pub arguments: Vec<String>,
}

impl Run {
    /// `upgrade` or `uninstall`.
    pub fn verb(&self) -> &str {
        &self.arguments[0]
    }

    /// The release: what stands after `--`.
    pub fn release(&self) -> &str {
        let place = self.arguments.iter().position(|argument| argument == "--").unwrap();
        &self.arguments[place + 1]
    }

    /// Sends a signal, to the process itself.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid).unwrap(), signal).unwrap();
    }
}

impl Recorder {
    /// The one that lies in `folder`.
    pub fn existing(folder: &Path) -> Self {
        Self { program: folder.join("helm"), log: folder.join("helm.log") }
    }

    /// A recorder before `helm`, with its files in `folder`.
    pub fn new(helm: &Path, folder: &Path) -> Self {
        let Self { program, log } = Self::existing(folder);
        // One write a line: several helms write at once.
        let script = format!(
            "#!/bin/sh\nline=$(printf '\\037%s' \"$@\")\nprintf '%s%s\\n' $$ \"$line\" >>{log}\nenv >>{log}.environment\n\
             if [ \"$1\" = upgrade ] && [ -p {hold} ]; then read -r _ <{hold}; fi\nexec {helm} \"$@\"\n",
            log = log.display(),
            hold = hold(folder).display(),
            helm = helm.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { program, log }
    }

    /// Every upgrade and uninstall so far, oldest first.
    pub fn runs(&self) -> Vec<Run> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let runs = whole.lines().map(|line| {
            let mut words = line.split('\u{1f}').map(str::to_owned);
            Run { pid: words.next().unwrap().parse().unwrap(), arguments: words.collect() }
        });
        runs.filter(|run| matches!(run.verb(), "upgrade" | "uninstall")).collect()
    }
}

/// The pipe that upgrades wait for, where it is there.
fn hold(folder: &Path) -> PathBuf {
    folder.join("hold")
}

impl World {
    /// From now on an upgrade is a process that has done nothing yet, until [`World::let_helm_begin`].
    pub fn hold_helm(&self) {
        let made = Command::new("mkfifo").arg(hold(self.folder.path())).status().unwrap();
        assert!(made.success());
    }

    /// Lets the upgrade that is held, or the next one, begin, and holds none after it.
    pub async fn let_helm_begin(&self) {
        let hold = hold(self.folder.path());
        let begun = tokio::task::spawn_blocking(move || {
            // Opening it waits for whoever reads.
            std::fs::write(&hold, "\n").and_then(|()| std::fs::remove_file(&hold)).unwrap();
        });
        patience("an upgrade begins", begun).await.unwrap();
    }

    /// helm 4 in someone else's hands, in the story's namespace.
    pub fn helm(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.cluster().helm(4).unwrap());
        command.args(arguments).args(["--namespace", &self.namespace]).env("KUBECONFIG", self.cluster().kubeconfig());
        command.env("HOME", self.folder.path().join("home")).output().unwrap()
    }

    /// The same, which must succeed; what it prints.
    pub fn helm_prints(&self, arguments: &[&str]) -> String {
        let output = self.helm(arguments);
        assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The values that a release was last given, as helm tells them.
    pub fn helm_values(&self, release: &str) -> serde_json::Value {
        serde_json::from_str(&self.helm_prints(&["get", "values", release, "--output", "json"])).unwrap()
    }
}
