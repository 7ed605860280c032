//! Measures the operator on an installed cloud: its memory, its work in an idle minute, and its reaction to the change
//! of one key.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cluster::Cluster;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cloud::{Cloud, SYSTEM};
use crate::cpu;
use crate::operator::{self, Operator};

/// The number of times that the benchmark changes one key of the values.
const CHANGES: u32 = 5;

/// The measurements of the operator on an installed cloud.
pub struct Steady {
    /// The operator's resident memory 60 s after the installation, in KiB.
    pub resident: u64,
    /// The operator's peak resident memory in KiB.
    pub peak: u64,
    /// The number of helm processes that the operator started in the idle minute.
    pub idle_helm: u64,
    /// The number of API writes by the operator and its helm processes in the idle minute, except for writes of the
    /// Lease, which the operator renews every two seconds.
    pub idle_writes: u64,
    /// For each change of one key, the time from just before the benchmark sent the change until a helm process ran.
    pub delays: Vec<Duration>,
    /// For each change of one key, the number of helm processes that the operator started.
    pub change_helm: Vec<u64>,
}

/// Installs the cloud with the operator. Then measures the operator's memory, its helm processes and API writes during
/// one idle minute, and its reaction to changes of one key of the values. At the start of the idle minute, applies the
/// unchanged resource again.
pub async fn measure(cloud: &Cloud<'_>, cluster: &Cluster) -> anyhow::Result<Steady> {
    let operator = Operator::start(cloud.world).await?;
    operator::apply(cloud).await?;
    operator::until_ready(cloud).await?;
    println!(
        "the cloud is installed; waiting 60 s to measure the memory, then 60 s idle, then {CHANGES} changes of one key"
    );
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (resident, peak) = (cpu::resident(operator.pid)?, cpu::peak(operator.pid)?);
    let (helm, writes) = (operator.helm_started().await?, writes(cluster)?);
    operator::apply(cloud).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (idle_helm, idle_writes) = (operator.helm_started().await? - helm, self::writes(cluster)? - writes);
    let (mut delays, mut change_helm) = (Vec::new(), Vec::new());
    for number in 1..=CHANGES {
        let before = operator.helm_started().await?;
        delays.push(change(cloud, &operator, number).await?);
        operator::until_ready(cloud).await?;
        change_helm.push(operator.helm_started().await? - before);
    }
    Ok(Steady { resident, peak, idle_helm, idle_writes, delays, change_helm })
}

/// Changes one key of glance's values, and returns the time until the operator has started helm.
async fn change(cloud: &Cloud<'_>, operator: &Operator, number: u32) -> anyhow::Result<Duration> {
    let values = json!({"conf": {"glance": {"DEFAULT": {"workers": number}}}});
    let spec = json!({"spec": {"services": {"glance": {"releases": {"glance": {"values": values}}}}}});
    let began = Instant::now();
    let sent = async {
        cloud.api().patch(&cloud.deployment.name_any(), &PatchParams::default(), &Patch::Merge(spec)).await?;
        anyhow::Ok(())
    };
    let started = async {
        while began.elapsed() < Duration::from_mins(1) {
            let children = cpu::children(operator.pid);
            if children.iter().any(|(_, words)| words.iter().any(|word| word == "upgrade")) {
                return Ok(began.elapsed());
            }
            // Poll until helm's process exists. The alternatives are worse: only root gets events about the children of
            // other processes, and a wrapper around helm would slow down the operator.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bail!("the operator started no helm process within a minute")
    };
    let ((), delay) = tokio::try_join!(sent, started).context("changing one key")?;
    Ok(delay)
}

/// Returns the number of API writes by the operator and its helm processes so far, except for writes of the Lease.
///
/// The operator and its helm processes use one service account, by which the function finds their writes.
fn writes(cluster: &Cluster) -> anyhow::Result<u64> {
    let (namespace, account) = SYSTEM;
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let count = cluster
        .audit(Timestamp::UNIX_EPOCH)?
        .iter()
        .filter(|entry| entry.user == user && entry.is_write() && entry.resource != "leases")
        .count();
    Ok(count.try_into()?)
}
