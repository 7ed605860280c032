//! What is measured on a cloud that stands: memory, a minute of nothing, the change of one key.

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

/// How often one key is changed.
const CHANGES: u32 = 5;

/// What was measured.
pub struct Steady {
    /// Resident memory 60 s after the install, in KiB.
    pub resident: u64,
    /// The highest that it ever was, in KiB.
    pub peak: u64,
    /// helm processes started in the minute of nothing.
    pub idle_helm: u64,
    /// Writes of the operator or its helms in that minute.
    pub idle_writes: u64,
    /// From just before a change of one key was sent until a helm process was there.
    pub delays: Vec<Duration>,
    /// helm processes that each change took.
    pub change_helm: Vec<u64>,
}

/// Installs, then measures.
pub async fn measure(cloud: &Cloud<'_>, cluster: &Cluster) -> anyhow::Result<Steady> {
    let operator = Operator::start(cloud.world).await?;
    operator::apply(cloud).await?;
    operator::until_ready(cloud).await?;
    println!("the cloud stands; 60 s until its memory is read, 60 s of nothing, {CHANGES} changes of one key");
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

/// Changes one key of glance's values, and waits for helm.
async fn change(cloud: &Cloud<'_>, operator: &Operator, number: u32) -> anyhow::Result<Duration> {
    let values = json!({"conf": {"glance": {"DEFAULT": {"workers": number}}}});
    let spec = json!({"spec": {"services": {"glance": {"releases": {"glance": {"values": values}}}}}});
    let began = Instant::now();
    let sent = async {
        cloud.api().patch(&cloud.deployment.name_any(), &PatchParams::default(), &Patch::Merge(spec)).await?;
        anyhow::Ok(())
    };
    let seen = async {
        while began.elapsed() < Duration::from_mins(1) {
            let children = cpu::children(operator.pid);
            if children.iter().any(|(_, words)| words.iter().any(|word| word == "upgrade")) {
                return Ok(began.elapsed());
            }
            // The kernel tells of other processes' children only to root. This is as fine as what is measured, and costs the operator nothing, as a
            // helm that tells would.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bail!("no helm within a minute of a change of one key")
    };
    let ((), delay) = tokio::try_join!(sent, seen).context("changing one key")?;
    Ok(delay)
}

/// Writes by the operator's service account so far, its helms' included.
fn writes(cluster: &Cluster) -> anyhow::Result<u64> {
    let (namespace, account) = SYSTEM;
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let count =
        cluster.audit(Timestamp::UNIX_EPOCH)?.iter().filter(|entry| entry.user == user && entry.is_write()).count();
    Ok(count.try_into()?)
}
