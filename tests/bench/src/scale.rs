//! `make bench-scale`: measures the operator's memory, latency and idle load with a large cloud.
//!
//! The cloud has the releases of the sample, and additional small releases up to a total of [`RELEASES`]. The cluster
//! has so many nodes that about half of all pods belong to the sample's `DaemonSets`, which run a pod on every node.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cluster::{Cluster, Node, Options, Program, Rule};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use osdpl_core::api::{ComponentHealth, OpenStackDeployment};
use serde_json::json;
use tokio::sync::Notify;

use crate::cloud::{Cloud, World};
use crate::cpu::{self, Cpu};
use crate::operator::{self, Operator};
use crate::readiness::ReadinessWatch;

/// The number of simulated nodes.
const NODES: usize = 300;

/// The number of the cloud's releases, including the releases of the sample.
const RELEASES: usize = 60;

/// The number of the cloud's pods, including the sample's pods, but without the pods of Jobs.
const PODS: usize = 5_000;

/// The approximate number of the sample's pods in a cluster of [`NODES`] nodes.
const PODS_OF_THE_SAMPLE: usize = 7 * NODES + 30;

/// The number of the sample's releases.
const RELEASES_OF_THE_SAMPLE: usize = 13;

/// The number of pods that the benchmark makes unready, one after the other.
const EVENTS: usize = 5;

/// The measurements of the operator on a large cloud.
pub struct Scale {
    /// The number of the cloud's releases.
    pub releases: usize,
    /// The number of all pods in the cluster, including the pods of Jobs.
    pub pods: usize,
    /// The operator's resident memory a minute after the installation, in KiB.
    pub resident: u64,
    /// The operator's peak resident memory in KiB.
    pub peak: u64,
    /// The operator's CPU time in an idle minute, as a fraction of one core.
    pub idle: f64,
    /// For each pod that became unready, the time until the resource's status reported it.
    pub delays: Vec<Duration>,
}

/// Installs a large cloud with the operator. Then measures memory, idle load, and the delay of status updates.
pub async fn measure(osdpl: &Path, charts: &Path, sample: &Path) -> anyhow::Result<Scale> {
    println!("bench: {RELEASES} releases, {PODS} pods, {NODES} simulated nodes; this takes some minutes");
    let mut options = Options::default().with_programs(&[Program::Helm4]);
    options.nodes = Node::all_in_one(NODES);
    let cluster = Cluster::start(options).await?;
    let files = tempfile::tempdir()?;
    let names: Vec<String> =
        (1..=RELEASES - RELEASES_OF_THE_SAMPLE).map(|number| format!("cache-{number:02}")).collect();
    let catalog = catalog(files.path(), &names)?;
    let charts = self::charts(charts, files.path(), &names)?;
    let mut world = World::new(&cluster, osdpl, &charts, sample).await?;
    world.catalog = Some(catalog);
    let cloud = cloud(&world, &names).await?;
    let operator = Operator::start(&world).await?;
    let began = Instant::now();
    operator::apply(&cloud).await?;
    operator::until_ready(&cloud).await?;
    let install = began.elapsed();
    println!(
        "Ready after {:.0} s. The operator is now idle for two minutes; then {EVENTS} pods become unready",
        install.as_secs_f64()
    );
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (resident, peak, before) = (cpu::resident(operator.pid)?, cpu::peak(operator.pid)?, Cpu::of(operator.pid)?);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let idle = Cpu::of(operator.pid)?.since(before).own.as_secs_f64() / 60.0;
    let mut delays = Vec::new();
    for name in names.iter().take(EVENTS) {
        delays.push(Box::pin(delay(&cloud, &cluster, name)).await.with_context(|| name.clone())?);
    }
    let pods = Api::<Pod>::all(cluster.client()).list_metadata(&ListParams::default()).await?.items.len();
    let releases = cloud.api().get(&cloud.deployment.name_any()).await?.status.unwrap_or_default().children.len();
    Ok(Scale { releases, pods, resident, peak, idle, delays })
}

/// Writes a copy of the shipped catalogue, with an additional service for each of `names`.
fn catalog(folder: &Path, names: &[String]) -> anyhow::Result<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = folder.join("catalog");
    std::fs::create_dir(&catalog)?;
    for part in ["values", "presets"] {
        copy(&root.join(part), &catalog.join(part))?;
    }
    for name in names {
        let service = json!({
            "service": name, "description": "A test service.", "group": "infra",
            "releases": {name: {"components": {format!("{name}/server"): "StatefulSet"}}},
        });
        std::fs::write(catalog.join(format!("values/services/{name}.yaml")), service.to_string())?;
    }
    Ok(catalog)
}

/// Writes a copy of the charts, with an additional renamed copy of memcached for each of `names`.
fn charts(from: &Path, folder: &Path, names: &[String]) -> anyhow::Result<std::path::PathBuf> {
    let charts = folder.join("charts");
    copy(from, &charts)?;
    for name in names {
        let chart = charts.join(name);
        copy(&charts.join("memcached"), &chart)
            .context("the charts must be the stand-ins of tests/charts, which include memcached")?;
        let file = chart.join("Chart.yaml");
        let text = std::fs::read_to_string(&file)?.replace("name: memcached", &format!("name: {name}"));
        std::fs::write(&file, text)?;
    }
    Ok(charts)
}

/// Copies a folder. Replaces each link with a copy of its target.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let status = Command::new("cp").args(["-RL", "--"]).arg(from).arg(to).status()?;
    if !status.success() {
        bail!("copying {}: {status}", from.display());
    }
    Ok(())
}

/// Returns a cloud with the sample's services and the additional small services. Each small service gets the same
/// number of pods, so that the cloud has about [`PODS`] pods.
async fn cloud<'a>(world: &'a World, names: &[String]) -> anyhow::Result<Cloud<'a>> {
    let namespace = "bench-scale";
    let replicas = (PODS - PODS_OF_THE_SAMPLE) / names.len();
    let mut resource = world.sample.clone();
    resource["metadata"]["namespace"] = json!(namespace);
    for name in names {
        let values = json!({"pod": {"replicas": {"server": replicas}}, "endpoints": {"oslo_cache": {"hosts": {"default": name}}}});
        resource["spec"]["services"][name] = json!({"enabled": true, "releases": {name: {"values": values}}});
    }
    let deployment: OpenStackDeployment = serde_json::from_value(resource)?;
    let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
    Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &object).await?;
    let readiness = ReadinessWatch::watch(&world.client, namespace);
    Ok(Cloud { world, namespace: namespace.into(), releases: BTreeMap::new(), deployment, readiness })
}

/// Makes a pod of a release unready, and returns the time until the resource's status reports that the pod is unready.
async fn delay(cloud: &Cloud<'_>, cluster: &Cluster, name: &str) -> anyhow::Result<Duration> {
    let pod = format!("{name}-memcached-0");
    let pods: Api<Pod> = Api::namespaced(cloud.world.client.clone(), &cloud.namespace);
    let down = Rule { behaviour: None, ready: Some(false), ..Rule::new(&cloud.namespace, &pod, "") };
    let resource = cloud.deployment.name_any();
    let (pod_watched, resource_watched) = (Notify::new(), Notify::new());
    let pod_changed = async {
        let is_down = |pod: Option<&Pod>| {
            pod_watched.notify_one();
            pod.is_some_and(|pod| !is_ready(pod))
        };
        await_condition(pods.clone(), &pod, is_down).await?;
        anyhow::Ok(Instant::now())
    };
    let status_changed = async {
        let is_unready = |resource: Option<&OpenStackDeployment>| {
            resource_watched.notify_one();
            let health = || Some(resource?.status.as_ref()?.health.get(name)?.get("server")?.status);
            health().is_some_and(|status| status != ComponentHealth::Ready)
        };
        await_condition(cloud.api(), &resource, is_unready).await?;
        anyhow::Ok(Instant::now())
    };
    let rule = async {
        // Make the pod unready only after the watch of the pod and the watch of the resource have delivered a first
        // event, so that neither watch misses the change.
        tokio::join!(pod_watched.notified(), resource_watched.notified());
        anyhow::Ok(cluster.behaviour("down", &down).await?)
    };
    let (pod_time, status_time, ()) = tokio::try_join!(pod_changed, status_changed, rule)?;
    cluster.remove_rule("down").await?;
    operator::until_ready(cloud).await?;
    Ok(status_time.saturating_duration_since(pod_time))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
