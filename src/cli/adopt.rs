//! `osdpl adopt`: describe a cloud that runs already, and take its releases over.

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
use super::place::Place;
use effects::Question;
use look::Look;
use osdpl_core::adopt::{Cloud, Known, known, shipped};
use osdpl_core::catalog::Catalog;
use osdpl_core::placeholder;
use osdpl_operator::cluster::Reader;
use shown::{Seen, Shown};
use written::Written;

#[derive(Args)]
pub struct Arguments {
    /// Releases to take over, by the catalogue's names: the resource that describes them is in the cluster. Without any, the cloud is described.
    releases: Vec<String>,
    /// Take over every release that runs already.
    #[arg(long, conflicts_with = "releases")]
    all: bool,
    /// The namespace of the releases, and of the resource; where unset, all are searched, and the resource is beside most releases.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Search all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// The resource's name; `cloud`, or the one there is, where unset.
    #[arg(long)]
    name: Option<String>,
    /// Write the resource and its Secrets into this file, which only its owner may read.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the Secrets as well, where no file is named.
    #[arg(long, conflicts_with = "out")]
    show_secrets: bool,
    /// How to print what was found.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterOption,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    place: Place,
}

impl Arguments {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.all || !self.releases.is_empty() {
            return self.ask().await;
        }
        let client = self.cluster.client().await?;
        let cluster = Reader::new(client.clone());
        let look = look::look(&cluster, self.namespace.as_deref()).await?;
        let (home, catalog) = self.home(&client, &look).await?;
        let known = self.known(&look, &catalog)?;
        let name = self.name.clone().unwrap_or_else(|| "cloud".into());
        let invent = |selection: &_| placeholder::facts(&catalog, selection);
        let ceph = ceph::look(&client, &known, (&home, &name)).await.context("looking for the cloud's Ceph")?;
        let storage = ceph.as_ref().and_then(|ceph| ceph.storage.as_ref());
        let cloud = Cloud::new((&home, &name), &known, &catalog, &invent).with_storage(storage);
        let described = cloud.describe();
        let owners = look::owners(&cluster, &known).await?;
        let charts = match self.place.source() {
            Some(_) => look::charts(&self.place.open().await?, &known, &described.spec, &catalog).await,
            None => BTreeMap::new(),
        };
        let effects = Question {
            cluster: &cluster,
            catalog: &catalog,
            known: &known,
            described: &described,
            charts: &charts,
            renderer: self.renderer(&client).await,
        };
        let effects = effects.all().await?;
        let written = Written {
            name: &name,
            namespace: &home,
            described: &described,
            note: ceph.as_ref().map(|ceph| &*ceph.note),
        };
        let seen = Seen {
            owners,
            charts,
            effects,
            has_charts: self.place.source().is_some(),
            shipped: warnings::of(&shipped(&known, &catalog), &described.spec, &catalog),
            ceph: ceph.as_ref().map(|ceph| ceph.note.clone()),
        };
        let shown = Shown::new(&known, &described, seen);
        self.print(&written, &shown)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The namespace of the cloud that runs, and the catalogue there.
    async fn home(&self, client: &Client, look: &Look) -> anyhow::Result<(String, Catalog)> {
        let home = |catalog: &Catalog| self.namespace.clone().or_else(|| osdpl_core::adopt::home(&look.found, catalog));
        let Some(home) = home(&self.catalog.load()?) else { bail!("{}", self.nothing(look)) };
        let catalog = self.catalog.load_from(client, &home, None).await?;
        Ok((home, catalog))
    }

    /// What of its releases the catalogue knows, and what it does not.
    fn known<'a>(&self, look: &'a Look, catalog: &Catalog) -> anyhow::Result<Known<'a>> {
        let mut known = known(&look.found, catalog);
        if known.releases.is_empty() {
            bail!("{}", self.nothing(look));
        }
        known.strangers.extend(look.others.clone());
        Ok(known)
    }

    /// What is said where there is nothing to describe.
    fn nothing(&self, look: &Look) -> String {
        let place =
            self.namespace.as_ref().map_or_else(|| "this cluster".to_owned(), |name| format!("namespace {name}"));
        let elsewhere = if self.namespace.is_some() { "; without -n every namespace is searched" } else { "" };
        if look.others.is_empty() {
            return format!(
                "no release in {place} is of a chart that the catalogue knows (`osdpl catalog`); look with `helm list -A`{elsewhere}"
            );
        }
        let others: Vec<String> = look.others.iter().map(|(key, why)| format!("  {key}: {why}")).collect();
        format!("no release in {place} is left to take over{elsewhere}:\n{}", others.join("\n"))
    }

    /// What renders, or why nothing can: values are told all the same.
    async fn renderer(&self, client: &Client) -> Result<Renderer, String> {
        if self.place.source().is_none() {
            return Err("no charts are at hand (--charts)".into());
        }
        let renderer = Renderer::open(&self.place).await.map_err(|error| format!("{error:#}"))?;
        renderer.for_cluster(client).await.map_err(|error| format!("{error:#}"))
    }

    fn print(&self, written: &Written<'_>, shown: &Shown) -> anyhow::Result<()> {
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
