//! `osdpl adopt`: describes an existing cloud, and adopts its releases.

mod ask;
mod ceph;
mod effects;
mod look;
mod shown;
mod warnings;
mod written;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use kube::Client;

use super::common::{CatalogOption, ClusterOption};
use super::manifests::Renderer;
use super::output::{self, Format};
use super::place::ChartsOption;
use effects::EffectsQuery;
use look::HelmReleases;
use osdpl_core::adopt::{CloudInventory, IdentifiedReleases, find_default_credentials, identify_releases};
use osdpl_core::catalog::Catalog;
use osdpl_core::placeholder;
use osdpl_operator::cluster::Reader;
use shown::{AdoptReport, Observations};
use written::DescriptionFile;

#[derive(Args)]
pub struct Arguments {
    /// Releases to adopt, by the catalogue's names; their resource must be in the cluster. Without any, the cloud is
    /// described.
    releases: Vec<String>,
    /// Adopt every release that exists.
    #[arg(long, conflicts_with = "releases")]
    all: bool,
    /// The namespace of the releases and of the resource; default: all are searched, and the resource is placed beside
    /// most releases.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Search all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// The resource's name; default: `cloud`, or the only one there is.
    #[arg(long)]
    name: Option<String>,
    /// Write the resource and its Secrets to this file, readable only by its owner.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also print the Secrets if no file is given.
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
    place: ChartsOption,
}

impl Arguments {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.all || !self.releases.is_empty() {
            return self.request_adoption().await;
        }
        let client = self.cluster.client().await?;
        let cluster = Reader::new(client.clone());
        let helm = look::find_releases(&cluster, self.namespace.as_deref()).await?;
        let (home, catalog) = self.home(&client, &helm).await?;
        let known = self.known(&helm, &catalog)?;
        let name = self.name.clone().unwrap_or_else(|| "cloud".into());
        let placeholders = |selection: &_| placeholder::facts(&catalog, selection);
        let ceph = ceph::detect(&client, &known, (&home, &name)).await.context("looking for the cloud's Ceph")?;
        let storage = ceph.as_ref().and_then(|ceph| ceph.storage.as_ref());
        let cloud = CloudInventory::new((&home, &name), &known, &catalog, &placeholders).with_storage(storage);
        let described = cloud.describe();
        let owners = look::owners(&cluster, &known).await?;
        let charts = match self.place.source() {
            Some(_) => look::charts(&self.place.open().await?, &known, &described.spec, &catalog).await,
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
        let written = DescriptionFile {
            name: &name,
            namespace: &home,
            described: &described,
            note: ceph.as_ref().map(|ceph| &*ceph.note),
        };
        let seen = Observations {
            owners,
            charts,
            effects,
            has_charts: self.place.source().is_some(),
            shipped: warnings::of(&find_default_credentials(&known, &catalog), &described.spec, &catalog),
            ceph: ceph.as_ref().map(|ceph| ceph.note.clone()),
        };
        let shown = AdoptReport::new(&known, &described, seen);
        self.print(&written, &shown)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the namespace of the existing cloud, and the catalogue there.
    async fn home(&self, client: &Client, helm: &HelmReleases) -> anyhow::Result<(String, Catalog)> {
        let home = |catalog: &Catalog| {
            self.namespace.clone().or_else(|| osdpl_core::adopt::main_namespace(&helm.found, catalog))
        };
        let Some(home) = home(&self.catalog.load()?) else { bail!("{}", self.describe_missing(helm)) };
        let catalog = self.catalog.load_from(client, &home, None).await?;
        Ok((home, catalog))
    }

    /// Returns the releases that the catalogue knows, and the others.
    fn known<'a>(&self, helm: &'a HelmReleases, catalog: &Catalog) -> anyhow::Result<IdentifiedReleases<'a>> {
        let mut known = identify_releases(&helm.found, catalog);
        if known.releases.is_empty() {
            bail!("{}", self.describe_missing(helm));
        }
        known.unknown.extend(helm.others.clone());
        Ok(known)
    }

    /// Returns the error if there is nothing to describe.
    fn describe_missing(&self, helm: &HelmReleases) -> String {
        let place =
            self.namespace.as_ref().map_or_else(|| "this cluster".to_owned(), |name| format!("namespace {name}"));
        let elsewhere = if self.namespace.is_some() { "; without -n every namespace is searched" } else { "" };
        if helm.others.is_empty() {
            return format!(
                "no release in {place} uses a chart of the catalogue (`osdpl catalog`); check with `helm list -A`{elsewhere}"
            );
        }
        let others: Vec<String> = helm.others.iter().map(|(key, why)| format!("  {key}: {why}")).collect();
        format!("no release in {place} can be adopted{elsewhere}:\n{}", others.join("\n"))
    }

    /// Returns the renderer, or why manifests can't be rendered: values are compared anyway.
    async fn renderer(&self, client: &Client) -> Result<Renderer, String> {
        if self.place.source().is_none() {
            return Err("no charts are given (--charts)".into());
        }
        let renderer = Renderer::open(&self.place).await.map_err(|error| format!("{error:#}"))?;
        renderer.for_cluster(client).await.map_err(|error| format!("{error:#}"))
    }

    fn print(&self, written: &DescriptionFile<'_>, shown: &AdoptReport) -> anyhow::Result<()> {
        if let Some(file) = &self.out {
            written.save(file).with_context(|| format!("writing {}", file.display()))?;
        }
        match (self.output, &self.out) {
            (Format::Json, _) => output::line(serde_json::to_string_pretty(shown)?),
            (Format::Text, Some(file)) => output::print(shown.table(Some(file))),
            (Format::Text, None) => {
                eprint!("{}", shown.table(None));
                output::print(written.text(self.show_secrets)?);
            }
        }
        Ok(())
    }
}
