//! `osdpl operator`: the process in the cluster.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::common::{CatalogOption, readable};
use super::connect::speaks_to;
use osdpl_core::catalog::Catalog;
use osdpl_core::scrub::Scrubber;
use osdpl_operator::charts;
use osdpl_operator::cluster::{Cluster, secrets_beforehand};
use osdpl_operator::controller::{self, Book, ChartSource, Context, Fence, Parts};
use osdpl_operator::helm::{self, Instance, Program, Runner};
use osdpl_operator::http::{Cloud, Reach};
use osdpl_operator::maintaining::{self, LOOK_AGAIN};
use osdpl_operator::tasks::{NODE_GRACE, Options, Scope, Tasks};
use osdpl_operator::telemetry::{self, Metrics};
use osdpl_operator::web;
use probes::Probes;
use webhook::Webhook;

mod probes;
mod webhook;

#[derive(Args)]
pub struct Arguments {
    /// How many helm processes may run at once; each may take 150 MB while it renders.
    #[arg(long, env = "OSDPL_SLOTS", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=64))]
    slots: u16,
    /// The helm program; the one on PATH where unset.
    #[arg(long, env = "OSDPL_HELM", value_name = "FILE")]
    helm: Option<PathBuf>,
    /// Where charts come from: a folder of archives or chart directories, or a repository's URL.
    #[arg(long, env = "OSDPL_CHARTS", default_value = charts::UPSTREAM)]
    charts: String,
    /// Where charts and helm's own files are kept.
    #[arg(long, env = "OSDPL_CACHE", default_value = "/var/cache/osdpl", value_name = "DIR")]
    cache: PathBuf,
    /// Where probes and metrics are served.
    #[arg(long, env = "OSDPL_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// How many seconds a node may be `NotReady` before it is named in the cloud's health.
    #[arg(long, env = "OSDPL_NODE_GRACE", value_name = "SECONDS", default_value_t = NODE_GRACE.as_secs())]
    node_grace: u64,
    /// How many seconds pass until a node's maintenance looks again at what nobody tells.
    #[arg(long, env = "OSDPL_MAINTENANCE_POLL", value_name = "SECONDS", default_value_t = LOOK_AGAIN.as_secs(), hide = true, value_parser = clap::value_parser!(u64).range(1..))]
    maintenance_poll: u64,
    #[command(flatten)]
    probes: Probes,
    #[command(flatten)]
    webhook: Webhook,
    /// Plain log lines instead of JSON.
    #[arg(long)]
    plain_logs: bool,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        telemetry::logs(!self.plain_logs);
        // Before anything else: as PID 1 a signal without a handler is lost, not deadly.
        let mut signals = Signals::listen()?;
        let listener = web::listen(self.listen).await?;
        let book = Book::new(self.catalog.load()?, self.catalog.catalog.clone());
        let catalog = book.whole();
        let stop = CancellationToken::new();
        let (client, asks_once) = clients().await.map_err(readable).context("no cluster to speak to")?;
        let instance = Instance::of_this_process(std::env::var("POD_UID").ok().as_deref())?;
        let program = self.program().await?;
        tracing::info!(helm = %program.version(), path = %program.path().display(), %instance, "starting");
        let store = self.store(&catalog, &program)?;
        let config = helm::Config { slots: self.slots.into(), ..helm::Config::default() };
        let runner = Runner::new(program, config, instance.clone())?;
        let fence = Fence::new(instance);
        fence.refresh(&client).await.map_err(readable).context("listing the operator's own pods")?;
        let poke = Arc::new(Notify::new());
        // The first logs are read before the first pass, and shown as they were scrubbed then.
        let secrets = secrets_beforehand(&client).await.context("finding out what must not show")?;
        let (scrubber, scrubbing) = watch::channel(Arc::new(Scrubber::new(&secrets)));
        let reach = self.probes.reach()?;
        let options = self.options((&catalog, &fence), &reach, scrubbing);
        let tasks = Tasks::spawn(&client, &options, &poke);
        let metrics = Metrics::default();
        let web = tokio::spawn(web::serve(listener, metrics.clone(), runner.clone(), stop.clone()));
        let charts = ChartSource::new(store, &poke);
        let refreshing = tokio::spawn(refresh(fence, client.clone(), charts.look()));
        let cluster = Cluster::new(client).asking_once(asks_once);
        let parts = Parts { cluster, book, tasks, runner: runner.clone(), charts, scrubber, metrics, secrets };
        let context = Arc::new(Context::new(parts, &poke));
        let webhook = self.webhook.serve(&context, &stop).await?;
        let again = Duration::from_secs(self.maintenance_poll);
        let maintaining = tokio::spawn(maintaining::run(Arc::clone(&context), Cloud::new(reach), again, stop.clone()));
        let mut work = tokio::spawn(controller::run(context, poke, stop.clone()));
        let told = until_told(&mut work, signals.next()).await;
        tracing::info!("stopping: helm is told to end, then the last pass");
        stop.cancel();
        runner.shutdown().await;
        refreshing.abort();
        told?;
        work.await?;
        maintaining.await?;
        web.await?.context("serving probes and metrics")?;
        webhook.await??;
        Ok(ExitCode::SUCCESS)
    }

    /// What is watched, and how.
    fn options(
        &self,
        (catalog, fence): (&Catalog, &Fence),
        reach: &Reach,
        scrubber: watch::Receiver<Arc<Scrubber>>,
    ) -> Options {
        let judge = fence.clone();
        Options {
            scope: Scope::All,
            owner: Arc::new(move |instance: &str| judge.owner(instance)),
            without: BTreeSet::new(),
            scrubber,
            node_grace: Duration::from_secs(self.node_grace),
            probing: self.probes.probing(reach),
            tolerated: Some(Arc::new(catalog.tolerated.clone())),
        }
    }

    async fn program(&self) -> anyhow::Result<Program> {
        let home = self.cache.join("helm");
        let program = Program::find(self.helm.clone(), home.clone()).await?;
        let surroundings =
            helm::kubeconfig::Surroundings::from_environment(std::env::var_os("KUBECONFIG").map(PathBuf::from));
        let mount = std::path::Path::new(helm::kubeconfig::SERVICE_ACCOUNT);
        let kubeconfig = helm::kubeconfig::kubeconfig(&surroundings, mount, &home)?;
        Ok(program.with_kubeconfig(kubeconfig))
    }

    fn store(&self, catalog: &Catalog, program: &Program) -> anyhow::Result<charts::Store> {
        let source: charts::Source = self.charts.parse()?;
        let lock = charts::Lock::of_catalogue(&catalog.lock)?;
        let program = program.clone();
        let puller = helm::pull::Puller::new(move |slot| program.command(slot));
        let store = charts::Store::new(self.cache.join("charts"), source, lock, Arc::new(puller));
        match store.prune() {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => tracing::info!(?removed, "archives that nothing names any more are removed from the cache"),
            Err(error) => tracing::warn!(%error, "old archives stay in the cache"),
        }
        Ok(store)
    }
}

/// Waits for the word to stop, beside the work that goes on until then.
///
/// # Errors
/// When the work ends by itself: a panic in one pass ends all of them, and a process that answers probes and does nothing would go on for ever.
async fn until_told(work: &mut JoinHandle<()>, told: impl Future<Output = ()>) -> anyhow::Result<()> {
    tokio::select! {
        // What a panic says may hold anything; the hook has printed it already.
        _ = work => anyhow::bail!(
            "no pass is made any more: one of them panicked, and what that said stands above; the operator ends with it, to be started anew; report it"
        ),
        () = told => Ok(()),
    }
}

/// The client for everything, and one that takes "too many requests" for an answer.
async fn clients() -> Result<(kube::Client, kube::Client), kube::Error> {
    let mut config = kube::Config::infer().await.map_err(kube::Error::InferConfig)?;
    speaks_to(&config, "KUBECONFIG, or the pod's own cluster");
    let client = kube::Client::try_from(config.clone())?;
    config.default_retry = false;
    Ok((client, kube::Client::try_from(config)?))
}

/// Looks again from time to time at what no watch of ours tells: which pods of ours exist, and charts in a folder.
async fn refresh(fence: Fence, client: kube::Client, charts: Arc<Notify>) {
    let mut times = tokio::time::interval(Duration::from_secs(30));
    loop {
        times.tick().await;
        charts.notify_one();
        if let Err(error) = fence.refresh(&client).await {
            tracing::warn!(%error, "the operator's own pods can't be listed");
        }
    }
}

/// SIGTERM and SIGINT.
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

/// `osdpl exec-helm PARENT PROGRAM ARGUMENTS…`.
#[derive(clap::Parser)]
pub struct ExecArguments {
    parent: u32,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    argv: Vec<OsString>,
}

impl ExecArguments {
    pub fn run(self) -> anyhow::Result<ExitCode> {
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
    async fn the_operator_ends_with_its_passes_and_with_a_word_whatever_comes_first() {
        let mut panics = tokio::spawn(async { panic!("a pass") });
        let error = until_told(&mut panics, std::future::pending()).await.unwrap_err().to_string();
        assert!(error.starts_with("no pass is made any more: ") && !error.contains("a pass"), "{error}");
        let mut goes_on = tokio::spawn(std::future::pending());
        until_told(&mut goes_on, std::future::ready(())).await.unwrap();
        goes_on.abort();
    }
}
