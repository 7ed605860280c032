//! `osdpl plan`: what would be done now and why, against the cluster, or from a file alone.

pub(super) mod change;
mod offline;
mod shown;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;

use super::common::{CatalogOption, Document, Target, is_configured, readable};
use super::offline::{Offline, Refused, report, shaped};
use super::output;
use super::place::Place;
use super::said::Said;
use super::site::SiteOptions;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::Finding;
use osdpl_operator::controller::{ChartSource, preview};
use shown::{Look, Shown};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Judge this file's resource instead of the one in the cluster, as if it were applied; `-` for standard input.
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// Plan a new cloud from the file, without a cluster.
    #[arg(long, requires = "file")]
    offline: bool,
    /// Show the values that change, not their paths alone.
    #[arg(long)]
    values: bool,
    /// Show credentials among the values too.
    #[arg(long, requires = "values")]
    credentials: bool,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    site: SiteOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Arguments {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        let name = self.target.name.as_deref();
        let document = self.file.as_deref().map(|file| Document::named(file, name)).transpose();
        let document = document.inspect_err(|_| self.report())?;
        let document = document.map(|document| document.within(self.target.namespace.clone()));
        let shown = match (&document, &self.file) {
            (Some(document), Some(file)) if self.is_offline() => {
                let catalog = self.catalog.load_for(file, self.target.namespace.as_deref());
                let catalog = catalog.inspect_err(|_| self.report())?;
                self.alone(self.offline(document, &catalog).await, document)?
            }
            (document, _) => {
                if self.site.is_told() {
                    bail!(
                        "what the cluster has is told (--nodes, --storage-class, --pod-network, --service-network) where none is asked: leave it out, or plan with --offline"
                    );
                }
                self.cluster(document.as_ref()).await.or_else(|error| self.refused(error, document.as_ref()))?
            }
        };
        match self.output {
            Format::Table => output::print(shown.table()),
            Format::Json => output::line(serde_json::to_string_pretty(&shown)?),
        }
        Ok(if shown.refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// What the file alone means, with the charts that were named.
    async fn offline(&self, document: &Document, catalog: &Catalog) -> anyhow::Result<Offline> {
        let mut meant = Offline::meant(document, catalog, &self.site.site())?;
        if self.place.source().is_some() {
            let charts = ChartSource::new(self.place.open().await?, &Arc::default());
            let charts = charts.settled(&meant.deployment.spec, catalog, &meant.selection).await;
            meant = meant.with_charts(catalog, charts);
        }
        meant.told(document)
    }

    /// The plan of a new cloud.
    fn alone(&self, offline: anyhow::Result<Offline>, document: &Document) -> anyhow::Result<Shown> {
        match offline {
            Ok(Offline { deployment, desired, .. }) => {
                let findings = self.said(&desired.findings, document);
                Ok(Shown { findings, ..offline::new_cloud(&deployment, &desired) })
            }
            Err(error) => Ok(Shown { is_offline: true, ..self.refused(error, Some(document))? }),
        }
    }

    /// A file that is refused, which is said to programs as well; any other error.
    fn refused(&self, error: anyhow::Error, document: Option<&Document>) -> anyhow::Result<Shown> {
        let Refused(findings) = error.downcast()?;
        let Some(document) = document.filter(|_| self.output == Format::Json) else {
            return Err(Refused(findings).into());
        };
        let object = document.object();
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        Ok(Shown { name, namespace, refused: true, findings: self.said(&findings, document), ..Shown::default() })
    }

    /// Says to programs what is wrong with a file of which no plan can be made at all; people are told anyway.
    fn report(&self) {
        let Some(file) = self.file.as_deref().filter(|_| self.output == Format::Json) else { return };
        let Ok(Some(report)) = report(file, &self.catalog, self.target.namespace.as_deref()) else { return };
        let findings = report.findings.into_iter().map(Said::from).collect();
        let shown = Shown { is_offline: self.offline, refused: true, findings, ..Shown::default() };
        if let Ok(text) = serde_json::to_string_pretty(&shown) {
            output::line(text);
        }
    }

    /// What is said to programs; people were told.
    fn said(&self, findings: &[Finding], document: &Document) -> Vec<Said> {
        let told = findings.iter().filter(|_| self.output == Format::Json);
        told.map(|finding| Said::of(finding, Some(document))).collect()
    }

    /// Where no cluster is configured at all a file can only be meant alone; one that is configured in a wrong way, or silent, is an error.
    fn is_offline(&self) -> bool {
        if self.offline || self.target.cluster.is_named() {
            return self.offline;
        }
        let configured = is_configured();
        if !configured {
            eprintln!("no cluster is configured: this is the plan of a new cloud (--offline says so beforehand)");
        }
        !configured
    }

    async fn cluster(&self, document: Option<&Document>) -> anyhow::Result<Shown> {
        let client = self.target.cluster.client().await?;
        let (deployment, live, catalog) = match document {
            None => {
                let live = self.target.find(&client).await?;
                let catalog = self.catalog.load_from(&client, &live.namespace().unwrap_or_default(), None).await?;
                (live.clone(), Some(live), catalog)
            }
            Some(document) => {
                let catalog = self.catalog.load_from(&client, &document.namespace(), self.file.as_deref()).await?;
                let file = shaped(document, &catalog)?;
                let live = standing(&client, &file).await?;
                (applied(&file, live.as_ref()), live, catalog)
            }
        };
        let charts = match self.place.source() {
            Some(_) => Some(ChartSource::new(self.place.open().await?, &Arc::new(Notify::new()))),
            None => None,
        };
        let catalog = Arc::new(catalog);
        let preview = preview(&client, &catalog, &deployment, live.as_ref(), charts.as_ref()).await?;
        let look = Look { values: self.values, credentials: self.credentials };
        let mut shown = Shown::new(&deployment, live.as_ref(), &preview, document, look);
        match older(&client, live.as_ref()).await {
            Ok(rules) => shown.notes.extend(rules),
            Err(error) => shown.unknown.push(format!("whether another OpenStackDeployment rules: {error:#}")),
        }
        Ok(shown)
    }
}

/// The resource in the cluster that the file would change.
pub(super) async fn standing(
    client: &Client,
    file: &OpenStackDeployment,
) -> anyhow::Result<Option<OpenStackDeployment>> {
    let namespace = file.namespace().unwrap_or_default();
    let api: Api<OpenStackDeployment> = Api::namespaced(client.clone(), &namespace);
    let name = file.name_any();
    api.get_opt(&name)
        .await
        .map_err(readable)
        .with_context(|| format!("reading OpenStackDeployment {namespace}/{name}"))
}

/// The resource as it would be after `kubectl apply --server-side`: the file's spec, and its annotations beside those that are there.
pub(super) fn applied(file: &OpenStackDeployment, live: Option<&OpenStackDeployment>) -> OpenStackDeployment {
    let Some(live) = live else { return file.clone() };
    let mut applied = live.clone();
    applied.spec = file.spec.clone();
    if live.spec != file.spec {
        applied.metadata.generation = live.metadata.generation.map(|generation| generation + 1);
    }
    let annotations = applied.annotations_mut();
    annotations.extend(file.annotations().clone());
    // It speaks of the spec before.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    applied
}

/// That another resource rules instead of this one, so that nothing at all is done for it: there is one cloud per cluster, the oldest.
pub(super) async fn older(client: &Client, live: Option<&OpenStackDeployment>) -> anyhow::Result<Option<String>> {
    let all: Api<OpenStackDeployment> = Api::all(client.clone());
    let all = all.list(&kube::api::ListParams::default()).await.map_err(readable)?;
    let rules = osdpl_decide::older(&all.items, live);
    Ok(rules.map(|rules| format!("nothing is done for this one: {rules} is older, and there is one cloud per cluster")))
}
