//! Installs a cloud with plain helm, as users' scripts do.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::bail;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;

use crate::cloud::Cloud;
use crate::cpu::Cpu;
use crate::report::Cost;

/// Installs one release after another, each after the releases that it depends on.
pub async fn sequential(cloud: &Cloud<'_>) -> anyhow::Result<Cost> {
    measured(cloud, async {
        for name in cloud.in_order() {
            helm(cloud, name).await?;
        }
        Ok(())
    })
    .await
}

/// Installs all releases at once, without waiting for their dependencies.
pub async fn at_once(cloud: &Cloud<'_>) -> anyhow::Result<Cost> {
    measured(cloud, async {
        try_join_all(cloud.releases.keys().map(|name| helm(cloud, name))).await?;
        Ok(())
    })
    .await
}

/// Installs each release as soon as, for all releases that it depends on, helm has exited and the workloads are
/// available. Does not limit the number of concurrent helm processes.
pub async fn ordered(cloud: &Cloud<'_>) -> anyhow::Result<Cost> {
    measured(cloud, async {
        let (mut started, mut done) = (BTreeSet::new(), BTreeSet::new());
        let mut running = FuturesUnordered::new();
        loop {
            for (name, release) in &cloud.releases {
                if release.needs.is_subset(&done) && started.insert(name.clone()) {
                    running.push(async move {
                        helm(cloud, name).await?;
                        cloud.readiness.clone().available(name).await?;
                        anyhow::Ok(name.clone())
                    });
                }
            }
            match running.next().await {
                Some(name) => drop(done.insert(name?)),
                None => return Ok(()),
            }
        }
    })
    .await
}

async fn measured(cloud: &Cloud<'_>, install: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Cost> {
    let (before, began) = (Cpu::of(std::process::id())?, Instant::now());
    install.await?;
    cloud.readiness.clone().all_up().await?;
    let wall = began.elapsed();
    let helm = Cpu::of(std::process::id())?.since(before).children;
    Ok(Cost { wall, helm, operator: std::time::Duration::ZERO })
}

async fn helm(cloud: &Cloud<'_>, name: &str) -> anyhow::Result<()> {
    let release = &cloud.releases[name];
    let mut command = cloud.world.command();
    command.args(["upgrade", "--install", "--timeout", "30m", "--namespace", &cloud.namespace, "--values"]);
    let output = command.arg(&release.values).args(["--", name]).arg(&release.chart).output().await?;
    if !output.status.success() {
        bail!("helm upgrade --install {name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
