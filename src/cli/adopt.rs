//! `osdpl adopt`: writes an `OpenStackDeployment` that describes an existing cloud, and asks the operator to adopt the
//! cloud's releases.

mod ceph;
mod discover;
mod effects;
mod file;
mod report;
mod request;
mod warnings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use kube::Client;

use super::chart_options::ChartOptions;
use super::common::CatalogOption;
use super::connect::ClusterOption;
use super::manifests::Renderer;
use super::output::{self, Format};
use discover::HelmReleases;
use effects::EffectsQuery;
use file::DescriptionFile;
use osdpl_core::adopt::{
    CloudInventory, IdentifiedReleases, find_default_credentials, identify_releases, main_namespace,
};
use osdpl_core::catalog::Catalog;
use osdpl_core::placeholder;
use osdpl_operator::cluster::Reader;
use report::{AdoptReport, Observations};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The releases to adopt, by their names in the catalogue. An OpenStackDeployment in the cluster must contain these
    /// releases. Without names and without --all, the command only describes the cloud.
    releases: Vec<String>,
    /// Adopt all installed releases of the OpenStackDeployment.
    #[arg(long, conflicts_with = "releases")]
    all: bool,
    /// The namespace of the releases and of the OpenStackDeployment. Default: osdpl searches all namespaces for
    /// releases, and the OpenStackDeployment gets the namespace that contains most of the cloud's releases.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Search all namespaces, which is the default.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// The name of the OpenStackDeployment. Default: `cloud` if the command describes a cloud; the name of the only
    /// OpenStackDeployment in the cluster if the command adopts releases.
    #[arg(long)]
    name: Option<String>,
    /// Write the OpenStackDeployment and its Secrets to this file, which only the file's owner can read.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print not only the OpenStackDeployment, but also its Secrets, which contain passwords.
    #[arg(long, conflicts_with = "out")]
    show_secrets: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterOption,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    chart_options: ChartOptions,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        if self.all || !self.releases.is_empty() {
            return self.request_adoption().await;
        }
        let client = self.cluster.client().await?;
        let cluster = Reader::new(client.clone());
        let helm = discover::find_releases(&cluster, self.namespace.as_deref()).await?;
        let catalog = self.catalog.load()?;
        let namespace = self.namespace.clone().or_else(|| main_namespace(&helm.found, &catalog));
        let Some(namespace) = namespace else { bail!("{}", self.describe_missing(&helm)) };
        let known = self.identify(&helm, &catalog)?;
        let name = self.name.clone().unwrap_or_else(|| "cloud".into());
        let placeholders = |selection: &_| placeholder::facts(&catalog, selection);
        let ceph = ceph::detect(&client, &known, &namespace, &name).await.context("looking for the cloud's Ceph")?;
        let storage = ceph.as_ref().and_then(|ceph| ceph.storage.as_ref());
        let cloud = CloudInventory::new(&namespace, &name, &known, &catalog, &placeholders).with_storage(storage);
        let described = cloud.describe();
        let owners = discover::other_owners(&cluster, &known).await?;
        let charts = match self.chart_options.source() {
            Some(_) => {
                discover::differing_charts(&self.chart_options.open().await?, &known, &described.spec, &catalog).await
            }
            None => BTreeMap::new(),
        };
        let effects = EffectsQuery {
            cluster: &cluster,
            catalog: &catalog,
            known: &known,
            described: &described,
            charts: &charts,
            renderer: self.renderer(&client).await,
        };
        let effects = effects.all().await?;
        let file = DescriptionFile {
            name: &name,
            namespace: &namespace,
            described: &described,
            note: ceph.as_ref().map(|ceph| &*ceph.note),
        };
        let observations = Observations {
            owners,
            charts,
            effects,
            has_charts: self.chart_options.source().is_some(),
            shipped: warnings::password_warnings(
                &find_default_credentials(&known, &catalog),
                &described.spec,
                &catalog,
            ),
            ceph: ceph.as_ref().map(|ceph| ceph.note.clone()),
        };
        self.print(&file, &AdoptReport::new(&known, &described, observations))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Separates the releases that use a chart of the catalogue from all other releases.
    ///
    /// # Errors
    /// Returns an error if no release uses a chart of the catalogue.
    fn identify<'a>(&self, helm: &'a HelmReleases, catalog: &Catalog) -> anyhow::Result<IdentifiedReleases<'a>> {
        let mut known = identify_releases(&helm.found, catalog);
        if known.releases.is_empty() {
            bail!("{}", self.describe_missing(helm));
        }
        known.unknown.extend(helm.others.clone());
        Ok(known)
    }

    /// Returns the error message for a cluster (or a namespace) in which no helm release can be adopted.
    fn describe_missing(&self, helm: &HelmReleases) -> String {
        let scope =
            self.namespace.as_ref().map_or_else(|| "this cluster".to_owned(), |name| format!("namespace {name}"));
        let hint = if self.namespace.is_some() { "; leave out -n to search every namespace" } else { "" };
        if helm.others.is_empty() {
            return format!(
                "no release in {scope} uses a chart of the catalogue (`osdpl catalog`); check with `helm list -A`{hint}"
            );
        }
        let others: Vec<String> = helm.others.iter().map(|(key, why)| format!("  {key}: {why}")).collect();
        format!("no release in {scope} can be adopted{hint}:\n{}", others.join("\n"))
    }

    /// Returns the renderer that renders the manifests of releases, or the reason why there is none. Without a
    /// renderer, the command compares only the values of releases, not their manifests.
    async fn renderer(&self, client: &Client) -> Result<Renderer, String> {
        if self.chart_options.source().is_none() {
            return Err("no charts are given (--charts)".into());
        }
        let renderer = Renderer::open(&self.chart_options).await.map_err(|error| format!("{error:#}"))?;
        renderer.for_cluster(client).await.map_err(|error| format!("{error:#}"))
    }

    fn print(&self, file: &DescriptionFile<'_>, report: &AdoptReport) -> anyhow::Result<()> {
        if let Some(path) = &self.out {
            file.save(path).with_context(|| format!("writing {}", path.display()))?;
        }
        match (self.output, &self.out) {
            (Format::Json, _) => output::line(serde_json::to_string_pretty(report)?),
            (Format::Text, Some(path)) => output::print(report.table(Some(path))),
            (Format::Text, None) => {
                eprint!("{}", report.table(None));
                output::print(file.text(self.show_secrets)?);
            }
        }
        Ok(())
    }
}
