//! Starts and stops the node. All processes of the node are descendants of one process, which `unshare` runs in new
//! namespaces. The node adds only two things to the machine: one end of a network link to the node, and control groups.
//! The link disappears when the node ends, and `Node::stop` removes the control groups. The machine's mounts and
//! settings stay unchanged.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::run::{folder, output};
use super::settings::{self, CLIENTS, LINK_PREFIX, MACHINE_ADDRESS, NODE_ADDRESS};
use super::{cgroup, init};
use crate::folder::{Folder, tail, write_private};
use crate::process::Process;
use crate::{Programs, client, kubeconfig, pki};

/// The name of the machine's end of the network link (a veth pair) between the machine and the node.
const LINK: &str = "osdpl-real";
/// The maximum time until the node's API server responds.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The input of the node's first process, which reads it from `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The node's folder on the machine.
    pub folder: PathBuf,
    /// The folders of the layers of the node's root, with the newest one first.
    pub layers: Vec<PathBuf>,
}

/// The processes of a running node.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// `unshare`, the parent of the node's first process. The kernel kills the first process when `unshare` exits.
    outer: Process,
    /// The node's first process.
    init: Process,
}

/// A node whose files are in one folder.
pub(super) struct Node {
    pub cluster: Folder,
}

impl Node {
    /// Returns the node whose files are in the folder `path`. Starts nothing.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { cluster: Folder::new(path)? })
    }

    fn state(&self) -> Option<State> {
        serde_json::from_slice(&std::fs::read(self.cluster.state()).ok()?).ok()
    }

    /// Whether the node is running.
    pub fn is_running(&self) -> bool {
        self.state().is_some_and(|state| state.init.is_alive())
    }

    /// Starts the node and waits until its API server responds. `layers` are the folders of the layers that form the
    /// node's root file system, with the newest layer first.
    pub async fn start(&self, programs: &Programs, layers: Vec<PathBuf>) -> anyhow::Result<()> {
        self.prepare(programs)?;
        let at = self.cluster.path();
        let plan = Plan { folder: at.into(), layers };
        super::run::write(&at.join("plan.json"), &serde_json::json!(plan).to_string())?;
        let log = self.cluster.log("init");
        let file = std::fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args(["real", "enter"]).arg(at.join("plan.json"));
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
        connect(init.pid)?;
        let mut pipe = child.stdin.take().context("the node's first process has no standard input")?;
        pipe.write_all(b"connected\n").context("the node's first process has exited")?;
        self.wait_until_ready().await
    }

    /// Kills all processes of the node, and starts the node again with its data.
    pub async fn restart(&self) -> anyhow::Result<()> {
        let plan = self.cluster.path().join("plan.json");
        let text = std::fs::read(&plan).with_context(|| format!("cannot read {}", plan.display()))?;
        let plan: Plan = serde_json::from_slice(&text).context("cannot parse the node's plan")?;
        ensure!(self.stop()?, "the node is not running: start it with `make real`");
        // The node has its programs already.
        self.start(&Programs::default(), plan.layers).await
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
        settings::write(&self.cluster)?;
        if !self.cluster.kubeconfig().is_file() {
            let names = settings::server_names();
            let servers = [("apiserver", names.as_slice()), ("kubelet-server", &[NODE_ADDRESS, settings::NODE])];
            pki::write(&self.cluster, &servers, &CLIENTS)?;
            for (name, _, _) in CLIENTS {
                kubeconfig::write(&self.cluster, &self.cluster.kubeconfig_of(name), &settings::server(), name)?;
            }
            kubeconfig::write(&self.cluster, &self.cluster.kubeconfig(), &settings::server(), "admin")?;
        }
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
        let client = client::for_kubeconfig(&self.cluster.kubeconfig()).await?;
        let deadline = Instant::now() + TIMEOUT;
        while !client::is_ready(&client).await {
            if !self.is_running() {
                bail!("the node has exited\n{}", tail(&self.cluster.log("init"), 15));
            }
            if Instant::now() > deadline {
                bail!(
                    "the API server does not respond after {} s; see {}\n{}",
                    TIMEOUT.as_secs(),
                    self.cluster.log("kube-apiserver").display(),
                    tail(&self.cluster.log("kube-apiserver"), 10)
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Returns a command that runs `program` in the node's namespaces, with the node's programs in PATH.
    pub fn command(&self, program: &str) -> anyhow::Result<Command> {
        let state = self.state().filter(|state| state.init.is_alive());
        let state = state.context("the node is not running: start it with `make real`")?;
        let mut command = Command::new("nsenter");
        command.args(["--target", &state.init.pid.to_string()]);
        command.args(["--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd", "--", "env", "-i"]);
        command.arg(format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", self.cluster.bin().display())).arg(program);
        Ok(command)
    }

    /// Ends all processes of the node. Returns whether the node was running.
    pub fn stop(&self) -> anyhow::Result<bool> {
        let ran = self.is_running();
        if let Some(state) = self.state() {
            for process in [state.init, state.outer] {
                process.signal(Signal::KILL);
                if !process.wait_until_gone(Duration::from_secs(30)) {
                    bail!("process {} of the node does not exit", process.pid);
                }
            }
            std::fs::remove_file(self.cluster.state()).context("cannot remove the node's state")?;
        }
        cgroup::remove();
        Ok(ran)
    }
}

/// Connects the machine and the node with a network link. One end of the link is in the network namespace of the
/// process `init`.
fn connect(init: i32) -> anyhow::Result<()> {
    let ip = |arguments: &str| output(Command::new("ip").args(arguments.split(' ')), "").map(drop);
    let inside = |arguments: &str| {
        let mut command = Command::new("nsenter");
        command.args(["--target", &init.to_string(), "--net", "ip"]).args(arguments.split(' '));
        output(&mut command, "").map(drop)
    };
    // Remove the link of an earlier node, which has the same name. It still exists if the kernel has not removed the
    // earlier node's network namespace yet.
    let _ = ip(&format!("link del {LINK}"));
    ip(&format!("link add {LINK} type veth peer name eth0 netns {init}"))?;
    ip(&format!("address add {MACHINE_ADDRESS}{LINK_PREFIX} dev {LINK}"))?;
    ip(&format!("link set {LINK} up"))?;
    inside("link set lo up")?;
    inside(&format!("address add {NODE_ADDRESS}{LINK_PREFIX} dev eth0"))?;
    inside("link set eth0 up")?;
    // Some scripts, such as those of neutron's chart, look for the interface of the default route.
    inside(&format!("route add default via {MACHINE_ADDRESS}"))
}

/// Moves this process into the node's control groups, and replaces it with `unshare`, which starts the node's first
/// process in new namespaces.
pub(super) fn enter(plan: &Path) -> anyhow::Result<std::convert::Infallible> {
    // Leave the terminal's session, so that a signal of the terminal, such as Ctrl-C, does not end the node.
    rustix::process::setsid().context("cannot leave the terminal")?;
    cgroup::enter()?;
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "--"]);
    command.arg(std::env::current_exe().context("cannot find this program")?).args(["real", "init"]).arg(plan);
    Err(command.exec()).context("cannot run unshare")
}

/// Runs this process as the node's first process. `plan` is the path of `plan.json`.
pub(super) fn init(plan: &Path) -> anyhow::Result<std::convert::Infallible> {
    let text = std::fs::read(plan).with_context(|| format!("cannot read {}", plan.display()))?;
    init::run(&serde_json::from_slice(&text).context("cannot parse the node's plan")?)
}
