//! Prepares a cloud in a new namespace for one installation. Plain helm and the operator install the same charts, with
//! the same values and dependencies, which the operator's code computes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cluster::Cluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::{Desired, Facts, Provider, resolve, select};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::readiness::ReadinessWatch;

/// The namespace in which the benchmark installs the operator's chart, and the name of the helm release, which is also
/// the name of the operator's service account.
pub const SYSTEM: (&str, &str) = ("osdpl-system", "osdpl");

/// The group, version and kind of each cluster-scoped object that charts install.
const CLUSTER_SCOPED: [(&str, &str, &str); 3] = [
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
];

/// The cluster, the programs and the files that all installations share.
pub struct World {
    /// An API client with all rights.
    pub client: Client,
    /// A kubeconfig with all rights.
    pub kubeconfig: PathBuf,
    /// A kubeconfig of the operator's service account, with the rights that the operator's chart grants.
    pub operator_kubeconfig: PathBuf,
    /// The path of the program helm 4.
    pub helm: PathBuf,
    /// The path of the program `osdpl`.
    pub osdpl: PathBuf,
    /// The folder of the chart archives, which the operator and plain helm both use.
    pub charts: PathBuf,
    /// The folder of the catalogue that the operator uses; `None` for the built-in catalogue.
    pub catalog: Option<PathBuf>,
    /// The `OpenStackDeployment` from which the benchmark makes the resource of each cloud, as JSON.
    pub sample: Value,
    /// The folder for temporary files, helm's files and the operator's cache.
    pub scratch: tempfile::TempDir,
}

impl World {
    /// Packages the charts of the cloud. Then installs the operator's chart, which gives the operator's service account
    /// its rights.
    pub async fn new(cluster: &Cluster, osdpl: &Path, charts: &Path, sample: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(sample).with_context(|| sample.display().to_string())?;
        let sample = osdpl_values::yaml::parse::<Value>(&sample.display().to_string(), &text)?;
        let scratch = tempfile::tempdir()?;
        let mut world = Self {
            client: cluster.client(),
            kubeconfig: cluster.kubeconfig().to_owned(),
            operator_kubeconfig: PathBuf::new(),
            helm: cluster.helm(4)?.to_owned(),
            osdpl: std::path::absolute(osdpl)?,
            charts: scratch.path().join("packed"),
            catalog: None,
            sample,
            scratch,
        };
        world.pack(charts).await?;
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/osdpl");
        world
            .helm(
                // Grant the operator rights in all namespaces, because the benchmarks create clouds in several
                // namespaces.
                [
                    "upgrade",
                    "--install",
                    SYSTEM.1,
                    "--create-namespace",
                    "-n",
                    SYSTEM.0,
                    "--set",
                    "rbac.clusterWide=true",
                ]
                .map(Into::into)
                .into_iter()
                .chain([chart.into_os_string()]),
            )
            .await?;
        world.operator_kubeconfig = cluster.kubeconfig_for(SYSTEM.0, SYSTEM.1).await?;
        Ok(world)
    }

    /// Packages the charts before the measurements, so that all methods install the same archives.
    async fn pack(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.charts)?;
        for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "tgz") {
                std::fs::copy(&path, self.charts.join(entry.file_name()))?;
            } else if path.join("shape.yaml").is_file() {
                self.helm(["package".into(), path.into_os_string(), "-d".into(), self.charts.clone().into_os_string()])
                    .await?;
            }
        }
        Ok(())
    }

    /// Runs helm with all rights. helm stores its cache, configuration and data in the scratch folder.
    pub async fn helm(&self, arguments: impl IntoIterator<Item = std::ffi::OsString>) -> anyhow::Result<()> {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let output = self.command().args(&arguments).output().await?;
        if !output.status.success() {
            bail!("helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Returns a command that runs helm with all rights. The caller adds the arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.helm);
        let home = |part: &str| self.scratch.path().join(part);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HELM_CACHE_HOME", home("cache"))
            .env("HELM_CONFIG_HOME", home("config"));
        command.env("HELM_DATA_HOME", home("data")).kill_on_drop(true);
        command
    }

    /// Returns the path of a chart's archive in `charts`.
    fn archive(&self, chart: &str) -> anyhow::Result<PathBuf> {
        let names = std::fs::read_dir(&self.charts)?.flatten().map(|entry| entry.path());
        let is_archive = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix(chart)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        names.into_iter().find(is_archive).with_context(|| format!("no archive of chart {chart}"))
    }
}

/// The chart, the values and the dependencies with which plain helm installs one release.
pub struct Release {
    /// The chart's archive.
    pub chart: PathBuf,
    /// The file with the release's values.
    pub values: PathBuf,
    /// The names of the releases that this release depends on.
    pub needs: BTreeSet<String>,
}

/// A cloud that the benchmark installs with plain helm or with the operator.
pub struct Cloud<'a> {
    /// The cluster, the programs and the files that all installations share.
    pub world: &'a World,
    /// The namespace of all releases of the cloud.
    pub namespace: String,
    /// The releases that plain helm installs, by name; empty if only the operator installs the cloud.
    pub releases: BTreeMap<String, Release>,
    /// The resource from which the operator installs the cloud.
    pub deployment: OpenStackDeployment,
    /// The watch that shows whether all workloads and Jobs of the cloud are up.
    pub readiness: ReadinessWatch,
}

impl<'a> Cloud<'a> {
    /// Creates a namespace, and prepares the chart, the values and the dependencies of each release.
    pub async fn fresh(world: &'a World, namespace: &str) -> anyhow::Result<Self> {
        let mut resource = world.sample.clone();
        resource["metadata"]["namespace"] = json!(namespace);
        let folder = world.scratch.path().join(namespace);
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("resource.yaml");
        std::fs::write(&file, resource.to_string())?;
        let mut render = Command::new(&world.osdpl);
        let rendered =
            render.args(["render", "--placeholders", "--file"]).arg(&file).arg("--out").arg(&folder).output().await?;
        if !rendered.status.success() {
            bail!("osdpl render: {}", String::from_utf8_lossy(&rendered.stderr));
        }
        let deployment: OpenStackDeployment = serde_json::from_value(resource)?;
        let desired = desired(&deployment)?;
        let mut releases = BTreeMap::new();
        for (name, release) in desired.releases {
            let needs = release.needs.into_values().filter_map(|provider| match provider {
                Provider::Release(name) => Some(name),
                Provider::External(_) => None,
            });
            let values = folder.join(format!("{name}.yaml"));
            releases.insert(name, Release { chart: world.archive(&release.chart)?, values, needs: needs.collect() });
        }
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &object).await?;
        let readiness = ReadinessWatch::watch(&world.client, namespace);
        Ok(Self { world, namespace: namespace.to_owned(), releases, deployment, readiness })
    }

    /// Returns a client for the `OpenStackDeployment`s in the namespace of the cloud.
    pub fn api(&self) -> Api<OpenStackDeployment> {
        Api::namespaced(self.world.client.clone(), &self.namespace)
    }

    /// Returns the names of the releases, each after the releases that it depends on.
    pub fn in_order(&self) -> Vec<&str> {
        let mut order: Vec<&str> = Vec::new();
        while order.len() < self.releases.len() {
            let before = order.len();
            for (name, release) in &self.releases {
                if !order.contains(&name.as_str()) && release.needs.iter().all(|need| order.contains(&need.as_str())) {
                    order.push(name);
                }
            }
            assert!(order.len() > before, "the dependencies of the releases must not be cyclic");
        }
        order
    }

    /// Deletes the cloud's namespace, and the cluster-scoped objects of the cloud's charts. Does not uninstall the
    /// releases with helm, so that the next installation need not wait for helm's deletion hooks. First removes the
    /// finalizers of the cloud's resource, because no operator runs that could do so.
    pub async fn remove(self) -> anyhow::Result<()> {
        let client = &self.world.client;
        for resource in self.api().list(&ListParams::default()).await?.items {
            let loose = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            self.api().patch(&resource.name_any(), &PatchParams::default(), &loose).await?;
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        for (group, version, kind) in CLUSTER_SCOPED {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let is_of_cloud = |object: &DynamicObject| {
                object.annotations().get("meta.helm.sh/release-namespace") == Some(&self.namespace)
            };
            for object in api.list(&ListParams::default()).await?.items.into_iter().filter(is_of_cloud) {
                api.delete(&object.name_any(), &DeleteParams::default()).await?;
            }
        }
        await_condition(namespaces, &self.namespace, |found: Option<&Namespace>| found.is_none()).await?;
        Ok(())
    }
}

/// Returns the releases of the cloud, with their values and dependencies, as the operator's code computes them.
fn desired(deployment: &OpenStackDeployment) -> anyhow::Result<Desired> {
    let catalog = osdpl_core::files::load_catalog(None)?;
    let name = deployment.name_any();
    let selection = select(&name, &deployment.namespace().unwrap_or_default(), &deployment.spec, &catalog);
    if selection.is_refused() {
        bail!("the resource is refused: {:?}", selection.findings);
    }
    Ok(resolve(&deployment.spec, &catalog, &selection, &Facts::default()))
}
