//! Starts and stops the operator's process, and reads its metrics and log.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::helm::Recorder;
use crate::pool::SYSTEM;
use crate::proxy::Proxy;
use crate::sweep::kill::children;
use crate::world::{World, with_timeout};

/// The time after which a test stops waiting for the operator's response to a request.
const SILENCE: Duration = Duration::from_secs(10);

/// The interval at which the tests check the operator's liveness probe, in place of a kubelet.
pub const PROBE_PERIOD: Duration = Duration::from_millis(200);

/// The settings with which a test starts an operator: the helm version, the charts and the arguments.
pub struct Setup<'a> {
    world: &'a World,
    program: PathBuf,
    helm: u8,
    charts: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    /// The name and the uid of the operator's pod; `None` if the operator runs outside of a pod.
    pod: Option<(&'a str, &'a str)>,
    kubeconfig: PathBuf,
    /// The command that runs the operator's program; empty if the test starts the program directly.
    wrapper: &'static [&'static str],
}

/// The command that runs a program in a new PID namespace. If `unshare` is killed, the program is killed, too
/// (`--kill-child`).
const OWN_NAMESPACE: [&str; 7] =
    ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A running process of the operator. Dropping this value kills the process. The operator's helm processes then get
/// SIGTERM from the kernel.
pub struct Operator {
    child: Child,
    /// The address at which the operator serves its probes.
    address: SocketAddr,
    /// The address at which the operator serves its metrics.
    metrics_address: SocketAddr,
    /// Whether [`Self::check_liveness`] has connected to the operator at least once.
    has_listened: AtomicBool,
    /// The test's folder.
    folder: PathBuf,
}

/// Returns the path of the operator's program. The environment variable `OSDPL_PROGRAM` can set this path, for example
/// to an optimized program. Without the variable, it is the program that cargo built for the tests.
fn program() -> PathBuf {
    let given = std::env::var_os("OSDPL_PROGRAM").filter(|given| !given.is_empty());
    given.map_or_else(|| env!("CARGO_BIN_EXE_osdpl").into(), PathBuf::from)
}

impl World {
    /// Returns the setup of an operator with helm 4, the charts in `tests/charts` and the built-in catalogue.
    pub fn operator(&self) -> Setup<'_> {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts");
        let program = program();
        let kubeconfig = self.plane().operator.clone();
        let (arguments, environment) = (Vec::new(), Vec::new());
        Setup { world: self, program, helm: 4, charts, arguments, environment, pod: None, kubeconfig, wrapper: &[] }
    }

    /// Returns the log of all operators that this test has started, oldest first.
    pub fn operator_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("operator.log")).unwrap_or_default()
    }
}

impl<'a> Setup<'a> {
    /// Makes the test start this program, such as another version of osdpl.
    pub fn program(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Makes the operator run this major version of helm.
    pub fn helm(mut self, major: u8) -> Self {
        self.helm = major;
        self
    }

    /// Makes the operator behave as if it ran in a pod with this name; the name is also the pod's uid. Operators in
    /// other pods can't find out whether this operator's process has ended, so they wait until its Lease expires. The
    /// audit log contains the pod's name.
    pub fn pod(mut self, name: &'a str) -> Self {
        self.pod = Some((name, name));
        self
    }

    /// Makes the operator behave as if it ran in this pod, see [`Setup::pod`].
    pub fn in_pod(mut self, pod: &'a Pod) -> Self {
        self.pod = pod.metadata.name.as_deref().zip(pod.metadata.uid.as_deref());
        self
    }

    /// Makes the operator see no processes of other operators, like in a container. [`Operator::signal`] then sends
    /// signals to `unshare` instead of the operator's process.
    pub fn in_own_namespace(mut self) -> Self {
        self.wrapper = &OWN_NAMESPACE;
        self
    }

    /// Makes the operator use the charts in this folder.
    pub fn charts(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.charts);
        self
    }

    /// Makes the operator use the catalogue in this folder.
    pub fn catalog(self, folder: &Path) -> Self {
        self.arguments(&[OsString::from("--catalog"), folder.into()])
    }

    /// Makes the operator and its helm processes send all requests to this proxy of the API server.
    pub fn through(mut self, proxy: &Proxy) -> Self {
        proxy.kubeconfig.clone_into(&mut self.kubeconfig);
        self
    }

    /// Adds arguments to the command line of `osdpl operator`.
    pub fn arguments<T: Into<OsString> + Clone>(mut self, arguments: &[T]) -> Self {
        self.arguments.extend(arguments.iter().cloned().map(Into::into));
        self
    }

    /// Sets a variable in the environment of the operator, but not in that of helm.
    pub fn environment(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Starts the operator, and waits until its readiness probe succeeds.
    pub async fn start(self) -> Operator {
        let mut operator = self.spawn();
        with_timeout("the operator is ready", operator.is_ready()).await;
        operator
    }

    /// Starts the operator, but does not wait until it is ready.
    pub fn spawn(self) -> Operator {
        let Setup { world, program, helm, charts, arguments, environment, pod, kubeconfig, wrapper } = self;
        let folder = world.folder.path();
        let recorder = Recorder::new(world.cluster().helm(helm).unwrap(), folder);
        // Open two listeners, so that the kernel chooses two free ports. Close the listeners at once, so that the
        // operator can listen on these ports.
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [address, metrics_address] = listeners.map(|listener| listener.local_addr().unwrap());
        let log = File::options().create(true).append(true).open(folder.join("operator.log")).unwrap();
        let words: Vec<_> = wrapper.iter().map(OsStr::new).chain([program.as_os_str()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("operator").arg("--charts").arg(charts).arg("--helm").arg(recorder.program);
        command.arg("--cache").arg(world.cache()).arg("--listen").arg(address.to_string()).args(arguments);
        command.env("KUBECONFIG", kubeconfig).env_remove("RUST_LOG");
        if let Some((name, uid)) = pod {
            command.env("POD_NAME", name).env("POD_UID", uid);
        }
        // Set the environment variables that the chart sets in the pod of the operator.
        command.env("OSDPL_METRICS_LISTEN", metrics_address.to_string());
        command.env("POD_NAMESPACE", SYSTEM.0).env("OSDPL_NAMESPACES", world.permitted()).envs(environment);
        let temporary = folder.join("temporary");
        // Create the operator's home and working directory in the test's folder, because the check for leaked secrets
        // reads all files in this folder.
        let (home, work) = (folder.join("operator-home"), folder.join("operator-work"));
        for folder in [&temporary, &home, &work] {
            std::fs::create_dir_all(folder).unwrap();
        }
        command.env("TMPDIR", temporary).env("HOME", home).current_dir(work);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let operator = Operator {
            child,
            address,
            metrics_address,
            has_listened: AtomicBool::new(false),
            folder: folder.to_owned(),
        };
        operator.record_process();
        operator
    }
}

impl Operator {
    /// Polls the readiness probe until it succeeds, because the operator sends no event when it is ready.
    async fn is_ready(&mut self) {
        while get(self.address, "/readyz").is_none() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the operator ended with {status}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Writes the command lines and the environments of the process and its descendants into a file, for the check for
    /// leaked secrets. The descendants are helm, the guard of helm and, below `unshare`, the operator itself.
    fn record_process(&self) {
        let mut pids = vec![self.pid()];
        while let Some(pid) = pids.pop() {
            pids.extend(children(pid));
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            append(&self.folder.join("operator.process"), &[read("cmdline"), read("environ")].concat());
        }
    }

    /// Writes the metrics into a file, for the check for leaked secrets. Writes no metrics if the process has ended or
    /// is frozen. Calls [`Self::record_process`] again, because `/proc` shows no environment while a program starts.
    fn record_metrics(&self) {
        self.record_process();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let is_frozen = stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('T'));
        if let Some(text) = (!is_frozen).then(|| get(self.metrics_address, "/metrics")).flatten() {
            append(&self.folder.join("operator.metrics"), text.as_bytes());
        }
    }

    /// Whether the process has exited.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Checks the liveness probe as a kubelet does, and returns whether the probe succeeded. Before the operator
    /// listens for the first time, returns `false`. If the operator has stopped listening, waits until its process has
    /// exited.
    ///
    /// # Panics
    /// If the probe fails, because a kubelet would then restart the operator, and the restart would end the operator's
    /// helm processes. Also panics if the operator has stopped listening, but its process does not exit.
    pub async fn check_liveness(&self) -> bool {
        let Ok(stream) = TcpStream::connect(self.address) else {
            if self.has_listened.load(Ordering::Relaxed) {
                self.until_exited().await;
            }
            return false;
        };
        self.has_listened.store(true, Ordering::Relaxed);
        let began = Instant::now();
        let answer = request(stream, self.address, "/livez");
        // An empty response means that the operator has just ended, because the kernel then closes the connection.
        let has_ended = answer.is_empty() && began.elapsed() < SILENCE;
        let is_live = answer.starts_with("HTTP/1.1 200");
        assert!(has_ended || is_live, "the liveness probe failed: {answer}");
        is_live
    }

    /// Waits until the process has exited, and keeps its exit status for [`Self::ended`].
    pub async fn until_exited(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let exited = async {
            while waitid(WaitId::Pid(Pid::from_child(&self.child)), options).unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        with_timeout("the operator has ended after it stopped serving probes", exited).await;
    }

    /// Runs the scenario, and checks meanwhile that the liveness probe never fails and the operator does not end.
    /// Returns the result of the scenario.
    pub async fn live_during<T>(&self, scenario: impl Future<Output = T>) -> T {
        tokio::select! {
            never = self.probe_forever() => match never {},
            result = scenario => result,
        }
    }

    async fn probe_forever(&self) -> Infallible {
        loop {
            assert!(self.check_liveness().await, "the operator must not end");
            tokio::time::sleep(PROBE_PERIOD).await;
        }
    }

    /// Sends a GET request for `path` to the server of the probes. Returns the whole response, with status line and
    /// headers.
    pub fn answer(&self, path: &str) -> String {
        request(TcpStream::connect(self.address).unwrap(), self.address, path)
    }

    /// Returns the body of the response to the readiness probe, which must succeed.
    pub fn readiness(&self) -> String {
        get(self.address, "/readyz").unwrap()
    }

    /// Whether the liveness probe succeeds.
    pub fn is_live(&self) -> bool {
        get(self.address, "/livez").is_some()
    }

    /// Returns the operator's metrics in the text format of Prometheus. An older version, which some tests start,
    /// serves the metrics on the port of the probes.
    pub fn metrics(&self) -> String {
        let with_probes = get(self.address, "/metrics");
        let Some(metrics) = get(self.metrics_address, "/metrics") else { return with_probes.unwrap() };
        assert_eq!(with_probes, None, "the port of the probes must not serve metrics");
        metrics
    }

    /// Returns the sum of the values on those lines of the operator's metrics that begin with `name` and contain
    /// `label`.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.metrics();
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Returns the time since the operator's last complete pass in seconds, according to its metrics.
    pub fn last_reconcile_age(&self) -> f64 {
        let text = self.metrics();
        let age = text.lines().find_map(|line| line.strip_prefix("osdpl_last_reconcile_age_seconds "));
        age.unwrap_or_else(|| panic!("the metric is missing: {text}")).parse().unwrap()
    }

    /// Waits until the operator's metrics report this number of ready releases. The operator does not update this
    /// number while it fetches charts, so this function also waits for the charts.
    pub async fn finds_ready(&self, releases: u64) {
        let found = async {
            while self.metric("osdpl_releases_ready ", "") != releases {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout(&format!("the operator finds {releases} releases ready"), found).await;
    }

    /// Returns the ID of the operator's process.
    pub fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// Checks that the kernel writes no core dump of the operator and of this child process.
    pub fn check_no_core_dumps(&self, child: i32) {
        for pid in [self.pid(), child] {
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let limit = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
            // The limit must be 1 byte. A limit of 0 would prevent core files, but the kernel could still pipe a core
            // dump to a program. With a limit of 1, the kernel does neither.
            assert_eq!(limit.split_whitespace().collect::<Vec<_>>(), ["1", "1", "bytes"], "process {pid}");
        }
    }

    /// Sends a signal to the operator's process.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the operator with SIGSTOP, and waits until all of its threads are stopped.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped).unwrap();
    }

    /// Kills the operator with SIGKILL, and waits until it has exited.
    pub fn kill(mut self) {
        self.record_metrics();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the operator with SIGTERM, waits until the process has exited, and returns the exit status of the process.
    pub async fn stop(self) -> ExitStatus {
        self.record_metrics();
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits until the process has exited, and returns its exit status.
    pub async fn ended(mut self) -> ExitStatus {
        let end = tokio::task::spawn_blocking(move || self.child.wait().unwrap());
        with_timeout("the operator has ended", end).await.unwrap()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.record_metrics();
        // Ignore errors: the process may have exited already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn append(path: &Path, bytes: &[u8]) {
    File::options().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Sends a GET request to the operator. Returns the body of the response, or `None` if the status is not 200.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let answer = request(TcpStream::connect(address).ok()?, address, path);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// Sends a GET request over a connection, and returns the response. The response is incomplete if the connection ends
/// early or the operator sends nothing for the time [`SILENCE`].
fn request(mut stream: TcpStream, address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let sent = write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    drop(sent.and_then(|()| stream.read_to_string(&mut answer)));
    answer
}
