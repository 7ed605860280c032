//! The operator's process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::helm::Recorder;
use crate::world::{World, patience};

/// How an operator is to be started.
pub struct Setup<'a> {
    world: &'a World,
    helm: u8,
    charts: PathBuf,
    arguments: Vec<OsString>,
}

/// A running operator; it ends, and its helms with it, when this is dropped.
pub struct Operator {
    child: Child,
    address: SocketAddr,
}

impl World {
    /// An operator with helm 4, the stand-in charts and the built-in catalogue, unless something else is said.
    pub fn operator(&self) -> Setup<'_> {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts");
        Setup { world: self, helm: 4, charts, arguments: Vec::new() }
    }

    /// The log of every operator of this story, one after the other.
    pub fn operator_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("operator.log")).unwrap_or_default()
    }
}

impl Setup<'_> {
    /// With helm 3 instead of 4.
    pub fn helm(mut self, major: u8) -> Self {
        self.helm = major;
        self
    }

    /// With charts from this folder.
    pub fn charts(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.charts);
        self
    }

    /// With the catalogue of this folder.
    pub fn catalog(self, folder: &Path) -> Self {
        self.arguments(&[OsString::from("--catalog"), folder.into()])
    }

    /// With more arguments.
    pub fn arguments<T: Into<OsString> + Clone>(mut self, arguments: &[T]) -> Self {
        self.arguments.extend(arguments.iter().cloned().map(Into::into));
        self
    }

    /// Starts it, and returns when it has seen what is in the cluster.
    pub async fn start(self) -> Operator {
        let Setup { world, helm, charts, arguments } = self;
        let folder = world.folder.path();
        let recorder = Recorder::new(world.cluster().helm(helm).unwrap(), folder);
        // Free when asked; nobody else on this machine picks ports by asking for this one.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = File::options().create(true).append(true).open(folder.join("operator.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.arg("operator").arg("--charts").arg(charts).arg("--helm").arg(recorder.program);
        command.arg("--cache").arg(world.cache()).arg("--listen").arg(address.to_string()).args(arguments);
        command.env("KUBECONFIG", &world.plane().operator).env_remove("RUST_LOG");
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut operator = Operator { child, address };
        patience("the operator is ready", operator.is_ready()).await;
        operator
    }
}

impl Operator {
    /// A probe is asked, as a kubelet does; there is nothing to wait on.
    async fn is_ready(&mut self) {
        while get(self.address, "/readyz").is_none() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the operator ended with {status}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What `/metrics` says.
    pub fn metrics(&self) -> String {
        get(self.address, "/metrics").unwrap()
    }

    /// The sum of a metric's samples whose line contains `label`.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.metrics();
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Returns when the operator has planned with everything at hand, charts included, and found this many releases ready.
    pub async fn finds_ready(&self, releases: u64) {
        let found = async {
            while self.metric("osdpl_releases_ready ", "") != releases {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        patience(&format!("the operator finds {releases} releases ready"), found).await;
    }

    /// Whether it runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGSTOP, and all of it stands still: it hears of nothing any more.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped).unwrap();
    }

    /// SIGKILL, and its end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and its end.
    pub async fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let end = tokio::task::spawn_blocking(move || self.child.wait().unwrap());
        patience("the operator has ended", end).await.unwrap()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The body of a plain HTTP answer, if it is 200.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}
