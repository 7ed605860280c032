//! Runs the operator as a process on this machine, with the rights that the operator's chart grants.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use osdpl_core::api::{OpenStackDeployment, condition};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::cloud::{Cloud, SYSTEM, World};
use crate::cpu::Cpu;
use crate::report::Cost;

/// A running operator. Dropping it stops the operator and its helm processes.
pub struct Operator {
    _child: Child,
    address: SocketAddr,
    /// The operator's process ID.
    pub pid: u32,
}

impl Operator {
    /// Starts the operator and waits until it has read the cluster's state.
    pub async fn start(world: &World) -> anyhow::Result<Self> {
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = std::fs::File::options().create(true).append(true).open(world.scratch.path().join("operator.log"))?;
        let mut command = Command::new(&world.osdpl);
        command
            .args(["operator", "--namespace", SYSTEM.0])
            .arg("--charts")
            .arg(&world.charts)
            .arg("--helm")
            .arg(&world.helm);
        command.arg("--cache").arg(world.scratch.path().join("operator")).arg("--listen").arg(address.to_string());
        if let Some(catalog) = &world.catalog {
            command.arg("--catalog").arg(catalog);
        }
        // Set the same variables as the Deployment of the operator's chart, because they affect how much memory the
        // operator uses.
        command.env("MALLOC_ARENA_MAX", "1").env("MALLOC_TRIM_THRESHOLD_", "65536");
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        command.env("KUBECONFIG", &world.operator_kubeconfig).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = command.kill_on_drop(true).spawn()?;
        let pid = child.id().context("the operator has ended already")?;
        let operator = |child| Self { _child: child, address, pid };
        // Poll the readiness probe as a kubelet does: only this probe shows when the operator is ready. The benchmark
        // measures nothing before that time.
        for _ in 0..300 {
            if get(address, "/readyz").await.is_ok() {
                return Ok(operator(child));
            }
            if let Some(status) = child.try_wait()? {
                bail!("the operator ended with {status}: {}", tail(world));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the operator does not become ready: {}", tail(world))
    }

    /// Returns the number of helm processes that the operator has started so far.
    pub async fn helm_started(&self) -> anyhow::Result<u64> {
        let text = get(self.address, "/metrics").await?;
        let counts = text.lines().filter(|line| line.starts_with("osdpl_helm_starts_total{"));
        Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }
}

/// Installs a cloud with the operator, and returns the time and CPU time of the installation.
pub async fn install(cloud: &Cloud<'_>) -> anyhow::Result<Cost> {
    let operator = Operator::start(cloud.world).await?;
    let (before, began) = (Cpu::of(operator.pid)?, Instant::now());
    apply(cloud).await?;
    until_ready(cloud).await?;
    let wall = began.elapsed();
    let cpu = Cpu::of(operator.pid)?.since(before);
    Ok(Cost { wall, helm: cpu.children, operator: cpu.own })
}

/// Applies the cloud's `OpenStackDeployment`, as `kubectl apply --server-side` does.
pub async fn apply(cloud: &Cloud<'_>) -> anyhow::Result<()> {
    let name = cloud.deployment.name_any();
    cloud.api().patch(&name, &PatchParams::apply("bench").force(), &Patch::Apply(&cloud.deployment)).await?;
    Ok(())
}

/// Waits until the cloud's resource is Ready for its newest generation, and all workloads and Jobs are up.
///
/// The measurement of plain helm also ends only when all workloads and Jobs are up, so the two times are comparable.
pub async fn until_ready(cloud: &Cloud<'_>) -> anyhow::Result<()> {
    let name = cloud.deployment.name_any();
    let ready = await_condition(cloud.api(), &name, |resource: Option<&OpenStackDeployment>| {
        let Some((resource, status)) = resource.and_then(|resource| Some((resource, resource.status.as_ref()?))) else {
            return false;
        };
        status.observed_generation == resource.metadata.generation
            && status
                .conditions
                .iter()
                .any(|condition| condition.type_ == condition::READY && condition.status == "True")
    });
    let done = tokio::time::timeout(Duration::from_mins(15), ready).await;
    done.with_context(|| format!("the cloud is not Ready after 15 minutes: {}", tail(cloud.world)))??;
    cloud.readiness.clone().all_up().await
}

fn tail(world: &World) -> String {
    let text = std::fs::read_to_string(world.scratch.path().join("operator.log")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// Requests `path` from the operator's HTTP server, and returns the body of the response. Returns an error if the
/// status is not 200.
async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").context("the response has no body")?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{path}: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
