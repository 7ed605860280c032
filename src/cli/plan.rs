//! `osdpl plan`: shows what would be done now and why, against the cluster, or from a file only.

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
use super::finding_output::FindingOutput;
use super::offline::{Offline, Refused, report, well_formed};
use super::output;
use super::place::ChartsOption;
use super::site::SiteOptions;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::finding::Finding;
use osdpl_operator::controller::{ChartSource, preview};
use shown::{DisplayOptions, PlanReport};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Plan for this file's resource instead of the cluster's, as if it were applied; `-` for standard input.
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// Plan a new cloud from the file, without a cluster.
    #[arg(long, requires = "file")]
    offline: bool,
    /// Show the changed values, not only their paths.
    #[arg(long)]
    values: bool,
    /// Show credentials among the values, too.
    #[arg(long, requires = "values")]
    credentials: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    place: ChartsOption,
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
                self.new_cloud_report(self.offline(document, &catalog).await, document)?
            }
            (document, _) => {
                if self.site.is_set() {
                    bail!(
                        "--nodes, --storage-class, --pod-network and --service-network describe a cluster that is not queried; leave them out, or plan with --offline"
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

    /// Resolves the file without a cluster, with the given charts.
    async fn offline(&self, document: &Document, catalog: &Catalog) -> anyhow::Result<Offline> {
        let mut resolved = Offline::resolve(document, catalog, &self.site.site())?;
        if self.place.source().is_some() {
            let charts = ChartSource::new(self.place.open().await?, &Arc::default());
            let charts = charts.settled(&resolved.deployment.spec, catalog, &resolved.selection).await;
            resolved = resolved.with_charts(catalog, charts);
        }
        resolved.report_findings(document)
    }

    /// Returns the plan of a new cloud.
    fn new_cloud_report(&self, offline: anyhow::Result<Offline>, document: &Document) -> anyhow::Result<PlanReport> {
        match offline {
            Ok(Offline { deployment, desired, .. }) => {
                let findings = self.json_findings(&desired.findings, document);
                Ok(PlanReport { findings, ..offline::new_cloud(&deployment, &desired) })
            }
            Err(error) => Ok(PlanReport { is_offline: true, ..self.refused(error, Some(document))? }),
        }
    }

    /// Returns a refused file as a report for JSON output; passes other errors on.
    fn refused(&self, error: anyhow::Error, document: Option<&Document>) -> anyhow::Result<PlanReport> {
        let Refused(findings) = error.downcast()?;
        let Some(document) = document.filter(|_| self.output == Format::Json) else {
            return Err(Refused(findings).into());
        };
        let object = document.object();
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        Ok(PlanReport {
            name,
            namespace,
            refused: true,
            findings: self.json_findings(&findings, document),
            ..PlanReport::default()
        })
    }

    /// Prints the findings as JSON for a file that no plan can be made for; the text form is printed anyway.
    fn report(&self) {
        let Some(file) = self.file.as_deref().filter(|_| self.output == Format::Json) else { return };
        let Ok(Some(report)) = report(file, &self.catalog, self.target.namespace.as_deref()) else { return };
        let findings = report.findings.into_iter().map(FindingOutput::from).collect();
        let shown = PlanReport { is_offline: self.offline, refused: true, findings, ..PlanReport::default() };
        if let Ok(text) = serde_json::to_string_pretty(&shown) {
            output::line(text);
        }
    }

    /// Returns the findings for JSON output; the text form was printed already.
    fn json_findings(&self, findings: &[Finding], document: &Document) -> Vec<FindingOutput> {
        let shown = findings.iter().filter(|_| self.output == Format::Json);
        shown.map(|finding| FindingOutput::of(finding, Some(document))).collect()
    }

    /// Whether to plan offline: requested, or no cluster is configured at all. A cluster that is misconfigured or does
    /// not respond is an error.
    fn is_offline(&self) -> bool {
        if self.offline || self.target.cluster.is_named() {
            return self.offline;
        }
        let configured = is_configured();
        if !configured {
            eprintln!(
                "no cluster is configured: this is the plan of a new cloud (use --offline to request it explicitly)"
            );
        }
        !configured
    }

    async fn cluster(&self, document: Option<&Document>) -> anyhow::Result<PlanReport> {
        let client = self.target.cluster.client().await?;
        let (deployment, live, catalog) = match document {
            None => {
                let live = self.target.find(&client).await?;
                let catalog = self.catalog.load_from(&client, &live.namespace().unwrap_or_default(), None).await?;
                (live.clone(), Some(live), catalog)
            }
            Some(document) => {
                let catalog = self.catalog.load_from(&client, &document.namespace(), self.file.as_deref()).await?;
                let file = well_formed(document, &catalog)?;
                let live = find_live(&client, &file).await?;
                (after_apply(&file, live.as_ref()), live, catalog)
            }
        };
        let charts = match self.place.source() {
            Some(_) => Some(ChartSource::new(self.place.open().await?, &Arc::new(Notify::new()))),
            None => None,
        };
        let catalog = Arc::new(catalog);
        let preview = preview(&client, &catalog, &deployment, live.as_ref(), charts.as_ref()).await?;
        let options = DisplayOptions { values: self.values, credentials: self.credentials };
        let mut shown = PlanReport::new(&deployment, live.as_ref(), &preview, document, options);
        match superseded_by(&client, live.as_ref()).await {
            Ok(note) => shown.notes.extend(note),
            Err(error) => {
                shown.unknown.push(format!("whether another OpenStackDeployment takes precedence: {error:#}"));
            }
        }
        Ok(shown)
    }
}

/// Returns the cluster's resource that the file would change.
pub(super) async fn find_live(
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

/// Returns the resource as it would be after `kubectl apply --server-side`: with the file's spec and annotations.
pub(super) fn after_apply(file: &OpenStackDeployment, live: Option<&OpenStackDeployment>) -> OpenStackDeployment {
    let Some(live) = live else { return file.clone() };
    let mut applied = live.clone();
    applied.spec = file.spec.clone();
    if live.spec != file.spec {
        applied.metadata.generation = live.metadata.generation.map(|generation| generation + 1);
    }
    let annotations = applied.annotations_mut();
    annotations.extend(file.annotations().clone());
    // This annotation describes the previous spec.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    applied
}

/// Returns a note if another, older resource takes precedence: there is one cloud per cluster, the oldest.
pub(super) async fn superseded_by(
    client: &Client,
    live: Option<&OpenStackDeployment>,
) -> anyhow::Result<Option<String>> {
    let all: Api<OpenStackDeployment> = Api::all(client.clone());
    let all = all.list(&kube::api::ListParams::default()).await.map_err(readable)?;
    let older = osdpl_decide::find_older(&all.items, live);
    Ok(older.map(|older| format!("nothing is done for this one: {older} is older, and there is one cloud per cluster")))
}
