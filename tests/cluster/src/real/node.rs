//! Starts and stops a node. All processes of a node are descendants of one process, which `unshare` runs in new
//! namespaces. A node adds only control groups to the machine, which `Node::stop` removes, and links to the switches
//! (module `network`), which disappear when the node ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::network::Network;
use super::number::Number;
use super::run::{folder, output};
use super::{cgroup, credentials, init, settings};
use crate::folder::{Folder, tail, write_private};
use crate::process::Process;
use crate::{Programs, client};

/// The maximum time until the API server and the node's containerd respond.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The input of the node's first process, which reads it from `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub number: Number,
    /// The node's folder on the machine.
    pub folder: PathBuf,
    /// The folder with the volumes of pods, which is the same on all nodes.
    pub volumes: PathBuf,
    /// The folders of the layers of the node's root, with the newest one first.
    pub layers: Vec<PathBuf>,
}

impl Plan {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", path.display()))
    }
}

/// The processes of a running node.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// `unshare`, the parent of the node's first process. The kernel kills the first process when `unshare` exits.
    outer: Process,
    /// The node's first process.
    init: Process,
}

/// A node.
pub(super) struct Node {
    pub number: Number,
    /// The folder with the node's files.
    pub cluster: Folder,
    /// The folder of the first node. It also contains the certificates of all nodes, and the volumes of all pods.
    pub first: Folder,
    network: Network,
}

impl Node {
    /// Returns a node. `real` is the folder that contains the folders of all nodes. Starts nothing.
    pub fn new(real: &Path, number: Number) -> anyhow::Result<Self> {
        let folder = |number: Number| Folder::new(&real.join(number.folder()));
        let (cluster, first) = (folder(number)?, folder(Number::FIRST)?);
        Ok(Self { number, cluster, first, network: Network::new(real) })
    }

    /// Returns all nodes that can exist.
    pub fn all(real: &Path) -> anyhow::Result<Vec<Self>> {
        Number::all().map(|number| Self::new(real, number)).collect()
    }

    /// Whether the node has been started, and has not been removed since.
    pub fn exists(&self) -> bool {
        self.plan().exists()
    }

    fn plan(&self) -> PathBuf {
        self.cluster.path().join("plan.json")
    }

    fn state(&self) -> Option<State> {
        serde_json::from_slice(&std::fs::read(self.cluster.state()).ok()?).ok()
    }

    /// Whether the node is running.
    pub fn is_running(&self) -> bool {
        self.state().is_some_and(|state| state.init.is_alive())
    }

    /// Starts the node and waits until the API server and the node's containerd respond. `layers` are the folders of
    /// the layers that form the node's root file system, with the newest layer first.
    pub async fn start(&self, programs: &Programs, layers: Vec<PathBuf>) -> anyhow::Result<()> {
        self.network.create()?;
        self.prepare(programs)?;
        let volumes = self.first.path().join(init::VOLUMES);
        let plan = Plan { number: self.number, folder: self.cluster.path().into(), volumes, layers };
        super::run::write(&self.plan(), &serde_json::json!(plan).to_string())?;
        let log = self.cluster.log("init");
        let file = std::fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args(["real", "enter"]).arg(self.plan());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().context("cannot start the node")?;
        let mut line = String::new();
        if let Some(pipe) = child.stdout.take() {
            BufReader::new(pipe).read_line(&mut line).context("cannot read from the node's first process")?;
        }
        let find = |pid: u32| Process::find(pid);
        let (Some(outer), Some(init)) = (find(child.id()), line.trim().parse().ok().and_then(find)) else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the node's first process did not start\n{}", tail(&log, 15));
        };
        write_private(&self.cluster.state(), serde_json::json!(State { outer, init }).to_string())?;
        self.network.connect(self.number, init.pid)?;
        let mut pipe = child.stdin.take().context("the node's first process has no standard input")?;
        pipe.write_all(b"connected\n").context("the node's first process has exited")?;
        self.wait_until_ready().await
    }

    /// Starts a node again that was stopped, with its data.
    pub async fn start_again(&self) -> anyhow::Result<()> {
        ensure!(!self.is_running(), "{} is running already", self.number.name());
        ensure!(self.exists(), "{} does not exist: create it with `make real`", self.number.name());
        // The node has its programs already.
        self.start(&Programs::default(), Plan::read(&self.plan())?.layers).await
    }

    /// Creates the files that the node needs, unless an earlier start has created them.
    fn prepare(&self, programs: &Programs) -> anyhow::Result<()> {
        let at = self.cluster.path();
        for part in ["pki", "logs", "bin", "etcd", "upper", "work", "root"] {
            folder(&at.join(part))?;
        }
        // etcd warns if other users may read its data folder.
        crate::folder::private(&self.cluster.etcd())?;
        crate::folder::private(&self.cluster.path().join("pki"))?;
        settings::write(&self.cluster, self.number)?;
        credentials::create(&self.first)?;
        credentials::provide(&self.first, &self.cluster, self.number)?;
        for (program, path) in programs.iter() {
            let target = self.cluster.bin().join(program.executable());
            let _ = std::fs::remove_file(&target);
            // Use no symbolic link: the cache does not exist inside the node.
            if std::fs::hard_link(path, &target).is_err() {
                std::fs::copy(path, &target).with_context(|| format!("cannot copy {program}"))?;
            }
        }
        Ok(())
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        let client = client::for_kubeconfig(&self.first.kubeconfig()).await?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let log = if !client::is_ready(&client).await {
                self.first.log("kube-apiserver")
            } else if self.command("ctr").and_then(|mut ctr| output(ctr.arg("version"), "")).is_err() {
                self.cluster.log("containerd")
            } else {
                return Ok(());
            };
            if !self.is_running() {
                bail!("{} has exited\n{}", self.number.name(), tail(&self.cluster.log("init"), 15));
            }
            if Instant::now() > deadline {
                let (seconds, path) = (TIMEOUT.as_secs(), log.display());
                bail!("a program does not respond after {seconds} s; see {path}\n{}", tail(&log, 10));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns a command that runs `program` in the node's namespaces, with the node's programs in PATH.
    pub fn command(&self, program: &str) -> anyhow::Result<Command> {
        let state = self.state().filter(|state| state.init.is_alive());
        let state =
            state.with_context(|| format!("{} is not running: start it with `make real`", self.number.name()))?;
        let mut command = Command::new("nsenter");
        command.args(["--target", &state.init.pid.to_string()]);
        command.args(["--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd", "--", "env", "-i"]);
        command.arg(format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", self.cluster.bin().display())).arg(program);
        Ok(command)
    }

    /// Kills all processes of the node. Does not wait until they have exited.
    pub fn kill(&self) {
        for process in self.state().iter().flat_map(|state| [state.init, state.outer]) {
            process.signal(Signal::KILL);
        }
    }

    /// Ends all processes of the node. Returns whether the node was running.
    pub fn stop(&self) -> anyhow::Result<bool> {
        let ran = self.is_running();
        self.kill();
        if let Some(state) = self.state() {
            for process in [state.init, state.outer] {
                if !process.wait_until_gone(Duration::from_secs(30)) {
                    bail!("process {} of {} does not exit", process.pid, self.number.name());
                }
            }
            std::fs::remove_file(self.cluster.state()).context("cannot remove the node's state")?;
        }
        cgroup::remove(self.number);
        Ok(ran)
    }
}

/// Moves this process into the node's control groups, and replaces it with `unshare`, which starts the node's first
/// process in new namespaces.
pub(super) fn enter(path: &Path) -> anyhow::Result<std::convert::Infallible> {
    // Leave the terminal's session, so that a signal of the terminal, such as Ctrl-C, does not end the node.
    rustix::process::setsid().context("cannot leave the terminal")?;
    cgroup::enter(Plan::read(path)?.number)?;
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "--"]);
    command.arg(std::env::current_exe().context("cannot find this program")?).args(["real", "init"]).arg(path);
    Err(command.exec()).context("cannot run unshare")
}

/// Runs this process as the node's first process. `path` is the path of `plan.json`.
pub(super) fn init(path: &Path) -> anyhow::Result<std::convert::Infallible> {
    init::run(&Plan::read(path)?)
}
