//! `osdpl operator`: the operator process in the cluster.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures::TryFutureExt as _;
use osdpl_values::CollectSorted;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::common::CatalogOption;
use super::connect::{create_clients, readable, remember_server};
use super::kubeconfig;
use osdpl_client::{HttpConfig, Permit, REQUEST_TIMEOUT, Scope, explain_as_operator};
use osdpl_core::catalog::Catalog;
use osdpl_core::scrub::Scrubber;
use osdpl_maintenance::{OpenStackClient, Operator as _, REQUEUE_DELAY};
use osdpl_operator::charts;
use osdpl_operator::cluster::{Cluster, stored_secrets};
use osdpl_operator::controller::{self, CatalogHandle, ChartSource, Context, Parts};
use osdpl_operator::helm::{self, Instance, Program, Runner};
use osdpl_operator::lease::{Clients, Elector, Leadership, Lost};
use osdpl_operator::probe_thread::ProbeThread;
use osdpl_operator::tasks::{NODE_GRACE, Options, Tasks};
use osdpl_operator::telemetry::{self, Metrics};
use osdpl_operator::web::{self, Health};
use probes::Probes;
use webhook::Webhook;

mod probes;
mod webhook;

/// The maximum time for which a stopping operator waits for its last reconcile passes, after its helm processes have
/// ended.
///
/// A stopping operator waits for helm (20 s), then for the passes, then for its servers, and finally releases the
/// Lease. In total, this takes less time than the `terminationGracePeriodSeconds` of the operator's chart, after which
/// the kubelet kills the process.
const LAST_PASSES: Duration = Duration::from_secs(10);

/// The maximum time for which a stopping operator waits until its servers (probes, metrics, webhook) have answered the
/// requests that they have received.
const SERVER_STOP: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The maximum number of concurrent helm processes; each may take 150 MB while it renders.
    #[arg(long, env = "OSDPL_SLOTS", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=64))]
    slots: u16,
    /// The helm program; default: `helm` on PATH.
    #[arg(long, env = "OSDPL_HELM", value_name = "FILE")]
    helm: Option<PathBuf>,
    /// The source of charts: a folder of archives or chart directories, or a repository's URL.
    #[arg(long, env = "OSDPL_CHARTS", default_value = charts::UPSTREAM)]
    charts: String,
    /// Accept `http://` addresses in `--charts` and in the lock. Anyone on the network can then replace the charts that
    /// have no digest in the lock.
    #[arg(long, env = "OSDPL_ALLOW_HTTP_CHARTS")]
    allow_http_charts: bool,
    /// The folder in which the operator caches charts, and in which helm stores its files.
    #[arg(long, env = "OSDPL_CACHE", default_value = "/var/cache/osdpl", value_name = "DIR")]
    cache: PathBuf,
    /// The operator's namespace. Of several operators in the same namespace, only one is active: the holder of the
    /// Lease `osdpl`. The others wait for the Lease.
    #[arg(long, env = "POD_NAMESPACE")]
    namespace: String,
    /// The address on which the operator serves probes.
    #[arg(long, env = "OSDPL_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// The address on which the operator serves metrics; default: the address of the probes.
    #[arg(long, env = "OSDPL_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
    /// The namespaces of the cloud, separated by commas, if the operator has rights only in these namespaces. Without
    /// this option, the operator uses all namespaces.
    #[arg(long, env = "OSDPL_NAMESPACES", value_name = "NAMESPACES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Seconds that a node may be `NotReady` before the cloud's health reports the node.
    #[arg(long, env = "OSDPL_NODE_GRACE", value_name = "SECONDS", default_value_t = NODE_GRACE.as_secs())]
    node_grace: u64,
    /// Seconds after which the operator stops a reconcile pass and starts another one. A pass takes so long only if the
    /// API server does not respond.
    #[arg(long, env = "OSDPL_PASS_TIMEOUT", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pass_timeout: u64,
    /// Seconds between two checks of a node's maintenance. The checks find changes that no watch reports, such as
    /// changes in Nova.
    #[arg(long, env = "OSDPL_MAINTENANCE_POLL", value_name = "SECONDS", default_value_t = REQUEUE_DELAY.as_secs(), hide = true, value_parser = clap::value_parser!(u64).range(1..))]
    maintenance_poll: u64,
    #[command(flatten)]
    probes: Probes,
    #[command(flatten)]
    webhook: Webhook,
    /// Write log messages as plain lines instead of JSON.
    #[arg(long)]
    plain_logs: bool,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        telemetry::init_logging(!self.plain_logs);
        explain_as_operator();
        // Install the signal handlers first. The operator is PID 1 in its container, and the kernel ignores a signal to
        // PID 1 if there is no handler. So an early SIGTERM would be lost.
        let mut signals = Signals::listen()?;
        let (source, probe_thread) = (self.source()?, ProbeThread::start()?);
        let (probes, scrapes) = self.listeners(&probe_thread)?;
        let handle = CatalogHandle::new(self.catalog.load()?, self.catalog.catalog.clone());
        let catalog = handle.catalog();
        let lock = self.lock(&catalog)?;
        let (stop, leadership) = (CancellationToken::new(), Leadership::default());
        let pod = std::env::var("POD_NAME").ok();
        let instance = Instance::of_this_process(std::env::var("POD_UID").ok().as_deref())?;
        let name = pod.as_deref().unwrap_or(instance.as_str());
        let Clients { lease, reads: client, writes, evictions } = self.clients(&leadership, name).await?;
        let program = self.program().await?;
        tracing::info!(helm = %program.version(), path = %program.path().display(), %instance, "starting");
        let store = self.store(source, lock, &program);
        let runner = self.runner(program, &instance)?;
        let health = self.health(&runner, &leadership);
        let (metrics, pass_timeout) = (health.metrics.clone(), health.pass_timeout);
        // Serve the probes before the first request to the API server. If the API server is slow to respond, the
        // kubelet would otherwise kill the container, because nothing answers the probes.
        let web = probe_thread.runtime().spawn(web::serve(probes, scrapes, health, stop.clone()));
        let mut elector = Elector::new(lease, &self.namespace, instance.clone(), pod.as_deref(), leadership.clone());
        let (trigger, scope) = (Arc::new(Notify::new()), self.scope());
        let secrets = tokio::select! {
            secrets = read_before_start(&mut elector, &client, &scope, pass_timeout) => secrets?,
            () = signals.next() => return Ok(ExitCode::SUCCESS),
        };
        let (scrubber, scrubbing) = watch::channel(Arc::new(Scrubber::new(&secrets)));
        let http_config = self.probes.http_config(leadership.clone())?;
        let options = self.options(&catalog, instance, &http_config, &probe_thread, scrubbing);
        let tasks = Tasks::spawn(&client, &options, &trigger);
        let charts = ChartSource::new(store, &trigger);
        let checking = tokio::spawn(check_charts(charts.check_trigger()));
        let cluster = Cluster::new(writes.clone()).with_eviction_client(evictions).with_scope(scope.clone());
        let parts = Parts {
            cluster,
            catalog: handle,
            tasks,
            runner: runner.clone(),
            leadership: leadership.clone(),
            charts,
            scrubber,
            metrics,
            secrets,
            pass_timeout,
        };
        let context = Arc::new(Context::new(parts, &trigger));
        // A standby, which does not hold the Lease, also serves the webhook, and the webhook queries Nova. So the
        // webhook's HTTP client must send requests even while this process does not hold the Lease.
        let always = OpenStackClient::new(HttpConfig { permit: Permit::default(), ..http_config.clone() });
        let webhook = self.webhook.serve(&context, &always, &stop).await?;
        let maintenance = self.maintain(context.clone(), writes, http_config, leadership, stop.clone());
        let reconciling = tokio::spawn(controller::run(context.clone(), trigger, stop.clone()));
        let running = Running { reconciling, maintenance, checking, runner, stop };
        running.until_stopped(signals.next(), elector, context).await?;
        until_served(web, webhook).await?;
        Ok(ExitCode::SUCCESS)
    }

    /// Opens the ports for probes and metrics.
    fn listeners(&self, thread: &ProbeThread) -> anyhow::Result<(TcpListener, Option<TcpListener>)> {
        let metrics = self.metrics_listen.map(|address| web::listen(address, thread)).transpose()?;
        Ok((web::listen(self.listen, thread)?, metrics))
    }

    /// Starts the task that carries out the maintenance of nodes. The task first waits until this process is the active
    /// operator.
    fn maintain(
        &self,
        context: Arc<Context>,
        writes: kube::Client,
        http_config: HttpConfig,
        leadership: Leadership,
        stop: CancellationToken,
    ) -> JoinHandle<()> {
        let (openstack, interval) = (OpenStackClient::new(http_config), Duration::from_secs(self.maintenance_poll));
        let task = osdpl_maintenance::run(writes, context, openstack, interval, stop.clone());
        tokio::spawn(when_active(leadership, stop, task))
    }

    /// Returns the state from which the servers answer the kubelet's probes and report the metrics.
    fn health(&self, runner: &Runner, leadership: &Leadership) -> Health {
        Health {
            metrics: Metrics::default(),
            runner: runner.clone(),
            leadership: leadership.clone(),
            pass_timeout: Duration::from_secs(self.pass_timeout),
        }
    }

    /// Returns the namespaces in which the operator has rights.
    fn scope(&self) -> Scope {
        let names: BTreeSet<&String> = self.namespaces.iter().filter(|name| !name.is_empty()).collect_set();
        if names.is_empty() { Scope::All } else { Scope::Namespaces(names.into_iter().cloned().collect()) }
    }

    /// Returns the options of the tasks that watch the cluster and probe the APIs of OpenStack services.
    fn options(
        &self,
        catalog: &Catalog,
        instance: Instance,
        http_config: &HttpConfig,
        probe_thread: &ProbeThread,
        scrubber: watch::Receiver<Arc<Scrubber>>,
    ) -> Options {
        Options {
            scope: self.scope(),
            liveness: Arc::new(move |other: &str| instance.liveness(other)),
            unreadable_kinds: BTreeSet::new(),
            scrubber,
            node_grace: Duration::from_secs(self.node_grace),
            probing: self.probes.probing(http_config, probe_thread),
            // Before the operator deletes a cloud, it waits until Nova has no instances. Without a client for Nova,
            // this wait would never end.
            nova: Some(http_config.clone()),
            tolerated_changes: Some(Arc::new(catalog.tolerated.clone())),
        }
    }

    /// Returns the clients that send requests to the API server. `name` identifies this process in the audit log of the
    /// API server.
    async fn clients(&self, leadership: &Leadership, name: &str) -> anyhow::Result<Clients> {
        const FAILURE: &str = "no cluster to connect to";
        let config = kubeconfig::infer().await.context(FAILURE)?;
        remember_server(&config, "KUBECONFIG, or the pod's own cluster");
        let (leadership, name) = (leadership.clone(), name.to_owned());
        let create = move |config| Clients::new(config, &leadership, &name);
        create_clients(config, REQUEST_TIMEOUT, create).await.context(FAILURE)
    }

    async fn program(&self) -> anyhow::Result<Program> {
        let home = self.cache.join("helm");
        let program = Program::find(self.helm.clone(), home.clone()).await?;
        let environment =
            helm::kubeconfig::Environment::from_environment(std::env::var_os("KUBECONFIG").map(PathBuf::from));
        let mount = std::path::Path::new(helm::kubeconfig::SERVICE_ACCOUNT);
        let kubeconfig = helm::kubeconfig::find_kubeconfig(&environment, mount, &home)?;
        Ok(program.with_kubeconfig(kubeconfig))
    }

    fn runner(&self, program: Program, instance: &Instance) -> anyhow::Result<Runner> {
        let config = helm::Config { slots: self.slots.into(), ..helm::Config::default() };
        Ok(Runner::new(program, config, instance.clone())?)
    }

    /// Returns the folder or repository from which the operator gets charts.
    fn source(&self) -> Result<charts::Source, charts::InvalidSource> {
        let source: charts::Source = self.charts.parse()?;
        if !self.allow_http_charts {
            source.check_encrypted()?;
        }
        Ok(source)
    }

    /// Returns the lock (the versions and digests of the charts) that is part of the operator's catalogue.
    fn lock(&self, catalog: &Catalog) -> Result<charts::Lock, charts::InvalidLock> {
        let lock = charts::Lock::of_catalogue(&catalog.lock)?;
        if !self.allow_http_charts {
            lock.check_encrypted("values/lock.yaml")?;
        }
        Ok(lock)
    }

    fn store(&self, source: charts::Source, lock: charts::Lock, program: &Program) -> charts::Store {
        let program = program.clone();
        let puller = helm::pull::Puller::new(move |slot| program.command(slot));
        let store = charts::Store::new(self.cache.join("charts"), source, lock, Arc::new(puller));
        match store.prune() {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => tracing::info!(?removed, "removed unused archives from the cache"),
            Err(error) => tracing::warn!(%error, "could not remove old archives from the cache"),
        }
        store
    }
}

/// The tasks and helm processes that must end before the operator releases the Lease.
struct Running {
    reconciling: JoinHandle<()>,
    maintenance: JoinHandle<()>,
    checking: JoinHandle<()>,
    runner: Runner,
    stop: CancellationToken,
}

impl Running {
    /// Takes part in the election of the active operator until a signal has stopped this process. Then releases the
    /// Lease.
    ///
    /// # Errors
    /// Returns an error if the operator has lost the Lease, or if a pass panicked. The process must then exit, so that
    /// its helm processes end, too.
    async fn until_stopped(
        self,
        stop_signal: impl Future<Output = ()>,
        elector: Elector,
        context: Arc<Context>,
    ) -> anyhow::Result<()> {
        let release = CancellationToken::new();
        let mut election = tokio::spawn(elect(elector, context, release.clone()));
        tokio::select! {
            elected = &mut election => return Ok(elected??),
            stopped = self.stop_at(stop_signal) => stopped?,
        }
        release.cancel();
        Ok(election.await??)
    }

    /// Waits for the signal to stop, then ends helm and waits for the last passes, at most for [`LAST_PASSES`].
    async fn stop_at(mut self, stop_signal: impl Future<Output = ()>) -> anyhow::Result<()> {
        let stopped = wait_for_stop(&mut self.reconciling, stop_signal).await;
        tracing::info!("stopping: the operator ends the helm processes, and waits for the last pass");
        self.stop.cancel();
        self.runner.shutdown().await;
        self.checking.abort();
        stopped?;
        let last_passes = async { self.reconciling.await.and(self.maintenance.await) };
        if let Ok(ended) = tokio::time::timeout(LAST_PASSES, last_passes).await {
            ended?;
        } else {
            // The last pass could still be running, but it can't write any more: before this process releases the
            // Lease, its client for writes begins to refuse all requests.
            tracing::warn!(
                "the operator ends during a pass: the API server did not respond within {} s; check the API server",
                LAST_PASSES.as_secs()
            );
        }
        Ok(())
    }
}

/// Takes part in the election of the active operator until `release` is cancelled. First waits until this process has
/// observed the whole cluster.
///
/// Without the wait, an operator process that can't list the cluster's objects could hold the Lease and do nothing,
/// although another process could run passes.
async fn elect(elector: Elector, context: Arc<Context>, release: CancellationToken) -> Result<(), Lost> {
    tokio::select! {
        () = context.ready() => {}
        () = release.cancelled() => {}
    }
    elector.run(release).await
}

/// Waits until the servers of the probes, the metrics and the webhook have ended, but at most for [`SERVER_STOP`]. So a
/// client that has sent only half a request can't keep the operator from ending.
async fn until_served(web: JoinHandle<()>, webhook: JoinHandle<()>) -> Result<(), JoinError> {
    let served = async { web.await.and(webhook.await) };
    let Ok(served) = tokio::time::timeout(SERVER_STOP, served).await else {
        tracing::info!("the operator ends while a client of its probes, metrics or webhook is connected");
        return Ok(());
    };
    served
}

/// Reads the operator's Lease into `elector`, and returns the secrets of all clouds in the cluster. The operator needs
/// the secrets before the first reconcile pass, because other tasks read pod logs and must scrub the secrets from them.
async fn read_before_start(
    elector: &mut Elector,
    client: &kube::Client,
    scope: &Scope,
    limit: Duration,
) -> anyhow::Result<BTreeSet<String>> {
    in_time(limit, elector.read_through(client).map_err(readable)).await.context("reading the operator's Lease")?;
    in_time(limit, stored_secrets(client, scope)).await.context("reading the secrets to scrub")
}

/// Waits for the response to a request that the operator sends when it starts. The caller ends the operator if the
/// request fails. Then the kubelet restarts it.
///
/// # Errors
/// Returns an error if the request fails, or the API server does not respond within `limit`.
async fn in_time<T, E>(limit: Duration, request: impl Future<Output = Result<T, E>>) -> anyhow::Result<T>
where
    E: Into<anyhow::Error>,
{
    match tokio::time::timeout(limit, request).await {
        Ok(response) => response.map_err(Into::into),
        Err(_) => anyhow::bail!("the API server did not respond within {} s", limit.as_secs()),
    }
}

/// Waits for the signal to stop while the controller reconciles.
///
/// # Errors
/// Returns an error if a pass panicked, which ends the controller. The process must then exit: without the controller,
/// it would answer probes, but reconcile nothing.
async fn wait_for_stop(reconciling: &mut JoinHandle<()>, stop_signal: impl Future<Output = ()>) -> anyhow::Result<()> {
    tokio::select! {
        // The panic hook has already printed the message of the panic. The error does not repeat this message, because
        // it could contain secrets.
        _ = reconciling => anyhow::bail!(
            "a reconcile pass panicked (see the message above), so the operator exits, and the kubelet restarts it; please report this panic"
        ),
        () = stop_signal => Ok(()),
    }
}

/// Waits until this process is the active operator, and then runs `task`. Returns early if `stop` is cancelled first.
async fn when_active(leadership: Leadership, stop: CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        () = leadership.acquired() => task.await,
        () = stop.cancelled() => {}
    }
}

/// Every 30 seconds, makes the next reconcile pass check whether the charts in a folder (`--charts`) have changed,
/// because no watch reports changed files.
async fn check_charts(charts: Arc<Notify>) {
    let mut interval = tokio::time::interval(Duration::from_secs(30));
    loop {
        interval.tick().await;
        charts.notify_one();
    }
}

/// The signals that stop the operator: SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The arguments of `osdpl exec-helm PARENT PROGRAM ARGUMENTS…`. PARENT is the operator's process ID; helm ends when
/// the operator ends.
#[derive(clap::Parser)]
pub(crate) struct ExecArguments {
    parent: u32,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    argv: Vec<OsString>,
}

/// The arguments of `osdpl guard-helm INSTANCE`. This command kills the helm processes of an operator process that
/// hangs or has ended. INSTANCE is the identity of the operator process.
#[derive(clap::Parser)]
pub(crate) struct GuardArguments {
    instance: String,
}

impl GuardArguments {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        helm::guard::guard_helm(&self.instance)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ExecArguments {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match helm::exec::exec_with_parent_death_signal(self.parent, &self.argv) {
            Ok(never) => match never {},
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stops_on_a_panic_or_a_signal() {
        let mut panics = tokio::spawn(async { panic!("hunter2") });
        let error = wait_for_stop(&mut panics, std::future::pending()).await.unwrap_err().to_string();
        assert!(error.starts_with("a reconcile pass panicked (") && !error.contains("hunter2"), "{error}");
        let mut running = tokio::spawn(std::future::pending());
        wait_for_stop(&mut running, std::future::ready(())).await.unwrap();
        running.abort();
    }
}
