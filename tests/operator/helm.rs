//! Records the helm processes that osdpl starts, and runs helm as a user would.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::world::{World, with_timeout};

/// A script that osdpl runs instead of helm. The script records its arguments, its environment and the files in
/// [`FILES`], and then executes the real helm in the same process.
pub struct Recorder {
    /// The path of the wrapper script, which osdpl gets as `--helm`.
    pub program: PathBuf,
    log: PathBuf,
}

/// The folders in a test's folder in which osdpl may write files for helm: the cache, the folders for temporary files,
/// and the operator's working directory. osdpl passes values to helm only on stdin, so no file may contain a secret.
const FILES: [&str; 4] = ["cache", "temporary", "commands-temporary", "operator-work"];

/// The process ID and the arguments of one helm process that the operator started.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub pid: i32,
    pub arguments: Vec<String>,
}

impl Run {
    /// Returns helm's subcommand, such as `upgrade` or `uninstall`.
    pub fn verb(&self) -> &str {
        &self.arguments[0]
    }

    /// Returns the name of the release, which is the argument after `--` in helm's command line.
    pub fn release(&self) -> &str {
        let separator = self.arguments.iter().position(|argument| argument == "--").unwrap();
        &self.arguments[separator + 1]
    }

    /// Sends a signal to the helm process, but not to its children.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid).unwrap(), signal).unwrap();
    }
}

impl Recorder {
    /// Returns the recorder whose wrapper script and log are in `folder`. Does not create these files.
    pub fn existing(folder: &Path) -> Self {
        Self { program: folder.join("helm"), log: folder.join("helm.log") }
    }

    /// Writes a wrapper script for the program `helm` into `folder`. Returns the recorder of this script.
    pub fn new(helm: &Path, folder: &Path) -> Self {
        let Self { program, log } = Self::existing(folder);
        // Several helm processes append to the log concurrently, so the script writes each line with a single `printf`.
        // To detect overlapping helm processes, the script locks a file for the release. helm inherits this lock, and
        // holds it until its process has ended. The script copies the contents of files that osdpl may have written for
        // helm, because osdpl may delete them before the end of the test. It leaves out charts, and helm's cache of the
        // API server's kinds (.kube), which is large. It does so before it records the process, because tests send
        // signals to recorded processes.
        let script = format!(
            r#"#!/bin/sh
find {files} -name .kube -prune -o -type f ! -name '*.tgz' -exec cat {{}} + >>{log}.files 2>/dev/null
line=$(printf '\037%s' "$@")
printf '%s%s\n' $$ "$line" >>{log}
env >>{log}.environment
case $1 in
upgrade | uninstall)
    for argument; do
        case $last in
        --namespace) namespace=$argument ;;
        --) release=$argument ;;
        esac
        last=$argument
    done
    exec 9>>"{log}.$namespace.$release.lock"
    flock --nonblock 9 || printf '%s %s/%s\n' $$ "$namespace" "$release" >>{log}.overlaps
    ;;
esac
if [ "$1" = upgrade ] && [ -p {hold} ]; then read -r _ <{hold}; fi
if [ "$1" = template ] && [ -e {endless} ]; then exec sleep infinity; fi
exec {helm} "$@"
"#,
            files = FILES.map(|name| folder.join(name).display().to_string()).join(" "),
            log = log.display(),
            hold = pipe(folder).display(),
            endless = endless(folder).display(),
            helm = helm.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { program, log }
    }

    /// Returns every `helm upgrade` and `helm uninstall` that the operator has started, oldest first.
    pub fn runs(&self) -> Vec<Run> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let runs = complete.lines().map(|line| {
            let mut fields = line.split('\u{1f}').map(str::to_owned);
            Run { pid: fields.next().unwrap().parse().unwrap(), arguments: fields.collect() }
        });
        runs.filter(|run| matches!(run.verb(), "upgrade" | "uninstall")).collect()
    }

    /// Returns the list of helm processes that started while another helm process ran for the same release, and deletes
    /// the list. Call this function only in a test that expects such an overlap.
    pub fn take_overlaps(&self) -> Vec<String> {
        let path = self.log.with_extension("log.overlaps");
        let overlaps = std::fs::read_to_string(&path).unwrap_or_default();
        // Ignore errors: if no helm processes overlapped, there is no file.
        drop(std::fs::remove_file(path));
        overlaps.lines().map(str::to_owned).collect()
    }

    /// Checks that no two helm processes, even of two operators, changed the same release at the same time.
    pub fn check_no_overlap(&self) {
        let overlaps = std::fs::read_to_string(self.log.with_extension("log.overlaps")).unwrap_or_default();
        assert!(
            overlaps.is_empty(),
            "two helm processes must not run for the same release at the same time: {overlaps}"
        );
    }
}

/// Returns the path of the named pipe that blocks helm. While the pipe exists, `helm upgrade` waits until somebody
/// writes into the pipe.
fn pipe(folder: &Path) -> PathBuf {
    folder.join("hold")
}

/// Returns the path of a file. If the file exists, `helm template` never ends.
fn endless(folder: &Path) -> PathBuf {
    folder.join("endless")
}

impl World {
    /// Makes each `helm template` of the operator run for ever, as a template in the values can do.
    pub fn make_templates_endless(&self) {
        std::fs::write(endless(self.folder.path()), "").unwrap();
    }

    /// Blocks each `helm upgrade` of the operator at its start, until the test calls [`World::release_helm`].
    pub fn block_helm(&self) {
        let status = Command::new("mkfifo").arg(pipe(self.folder.path())).status().unwrap();
        assert!(status.success());
    }

    /// Lets the blocked `helm upgrade` continue. If no `helm upgrade` is blocked yet, waits for the next `helm
    /// upgrade`. Later upgrades are not blocked.
    pub async fn release_helm(&self) {
        let pipe = pipe(self.folder.path());
        let released = tokio::task::spawn_blocking(move || {
            // Opening the pipe blocks this thread until a `helm upgrade` opens it for reading.
            std::fs::write(&pipe, "\n").and_then(|()| std::fs::remove_file(&pipe)).unwrap();
        });
        with_timeout("an upgrade begins", released).await.unwrap();
    }

    /// Runs helm 4 in the test's namespace as a user with all rights.
    pub fn helm(&self, arguments: &[&str]) -> Output {
        self.run_helm_in(&self.namespace, arguments)
    }

    /// Runs helm 4 in this namespace as a user with all rights.
    pub fn run_helm_in(&self, namespace: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.cluster().helm(4).unwrap());
        command.args(arguments).args(["--namespace", namespace]).env("KUBECONFIG", self.cluster().kubeconfig());
        command.env("HOME", self.folder.path().join("home")).output().unwrap()
    }

    /// Runs helm 4 as a user, checks its success, and returns its output.
    pub fn helm_prints(&self, arguments: &[&str]) -> String {
        let output = self.helm(arguments);
        assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the values of a release's newest revision, without the chart's defaults.
    pub fn helm_values(&self, release: &str) -> serde_json::Value {
        serde_json::from_str(&self.helm_prints(&["get", "values", release, "--output", "json"])).unwrap()
    }
}
