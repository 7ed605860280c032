//! `osdpl plan`: shows the next actions of the operator with their reasons, for a cluster or only for a file.

mod actions;
mod offline;
mod report;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, ValueEnum};
use tokio::sync::Notify;

use super::chart_options::ChartOptions;
use super::cluster_info_options::ClusterInfoOptions;
use super::common::{CatalogOption, Target};
use super::connect::is_configured;
use super::document::{Document, locate};
use super::live::{after_apply, find_live, superseded_by};
use super::offline::{Offline, Refused, report, well_formed};
use super::output;
use super::value_change::DisplayOptions;
use osdpl_core::catalog::Catalog;
use osdpl_operator::controller::{ChartSource, preview};
use report::PlanReport;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Plan for the resource in this file, as if it were applied; default: the resource in the cluster. `-` for
    /// standard input.
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// Plan a new cloud from the file, without a cluster.
    #[arg(long, requires = "file")]
    offline: bool,
    /// Show the changed values, not only their paths.
    #[arg(long)]
    values: bool,
    /// With --values, show credentials in clear text.
    #[arg(long, requires = "values")]
    credentials: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    chart_options: ChartOptions,
    #[command(flatten)]
    cluster_info: ClusterInfoOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let name = self.target.name.as_deref();
        let document = self.file.as_deref().map(|file| Document::read_named(file, name)).transpose();
        let document = document.inspect_err(|_| self.print_findings())?;
        let document = document.map(|document| document.with_namespace(self.target.namespace.clone()));
        let report = match &document {
            Some(document) if self.is_offline() => {
                let extended = self.catalog.load_for(document).inspect_err(|_| self.print_findings())?;
                let offline = self.resolve_offline(document, &extended.catalog).await;
                self.new_cloud_report(offline, document, &extended.catalog)?
            }
            document => {
                if self.cluster_info.is_set() {
                    bail!(
                        "--nodes, --storage-class, --pod-network and --service-network are only for a plan without a cluster; leave them out, or add --offline"
                    );
                }
                self.plan_live(document.as_ref())
                    .await
                    .or_else(|error| self.refused_report(error, document.as_ref()))?
            }
        };
        match self.output {
            Format::Table => output::print(report.table()),
            Format::Json => output::line(serde_json::to_string_pretty(&report)?),
        }
        Ok(if report.refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Resolves the `OpenStackDeployment` of the file without a cluster. If the user selected charts with `--charts`,
    /// the resolved values and findings depend on the contents of these charts.
    async fn resolve_offline(&self, document: &Document, catalog: &Catalog) -> anyhow::Result<Offline> {
        let mut resolved = Offline::resolve(document, catalog, &self.cluster_info.to_cluster_info())?;
        if self.chart_options.source().is_some() {
            let charts = ChartSource::new(self.chart_options.open().await?, &Arc::default());
            let charts = charts.settled(&resolved.deployment.spec, catalog, &resolved.selection).await;
            resolved = resolved.with_charts(catalog, charts);
        }
        resolved.report_findings(document)
    }

    /// Returns the plan of a new cloud. If osdpl refuses the `OpenStackDeployment`, returns the result of
    /// [`Self::refused_report`].
    fn new_cloud_report(
        &self,
        offline: anyhow::Result<Offline>,
        document: &Document,
        catalog: &Catalog,
    ) -> anyhow::Result<PlanReport> {
        match offline {
            Ok(Offline { deployment, desired, placeholders, .. }) => {
                let printed = desired.findings.iter().filter(|_| self.output == Format::Json);
                let findings = printed.map(|finding| locate(finding, Some(document))).collect();
                Ok(PlanReport { findings, placeholders, ..offline::new_cloud(&deployment, &desired, catalog) })
            }
            Err(error) => Ok(PlanReport { is_offline: true, ..self.refused_report(error, Some(document))? }),
        }
    }

    /// With `--output json`, converts the error [`Refused`] to a report that contains the findings about the refused
    /// resource. Returns every other error unchanged. With `--output table`, returns every error unchanged.
    fn refused_report(&self, error: anyhow::Error, document: Option<&Document>) -> anyhow::Result<PlanReport> {
        let Refused(findings) = error.downcast()?;
        let Some(document) = document.filter(|_| self.output == Format::Json) else {
            return Err(Refused(findings).into());
        };
        let object = document.object();
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        Ok(PlanReport { name, namespace, refused: true, findings, ..PlanReport::default() })
    }

    /// With `--output json`, prints the findings about a file for which the command can't make a plan. The command then
    /// fails, and also prints its error as text.
    fn print_findings(&self) {
        let Some(file) = self.file.as_deref().filter(|_| self.output == Format::Json) else { return };
        let Ok(Some(report)) = report(file, &self.catalog) else { return };
        let findings = report.findings;
        let report = PlanReport { is_offline: self.offline, refused: true, findings, ..PlanReport::default() };
        if let Ok(text) = serde_json::to_string_pretty(&report) {
            output::line(text);
        }
    }

    /// Whether to plan without a cluster, because the user requests it or no cluster is configured.
    ///
    /// Returns `false` if a cluster is configured, even if this configuration is invalid or the cluster does not
    /// respond. The command then fails, instead of planning a new cloud.
    fn is_offline(&self) -> bool {
        if self.offline || self.target.cluster.is_selected() {
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

    /// Computes the plan of the next pass from the current state of the cluster. If the user named a file (`document`),
    /// plans as if the file were applied.
    async fn plan_live(&self, document: Option<&Document>) -> anyhow::Result<PlanReport> {
        let client = self.target.cluster.client().await?;
        let (deployment, live, (extended, errors)) = match document {
            None => {
                let live = self.target.find(&client).await?;
                let extended = self.catalog.load_live(&client, &live).await?;
                (live.clone(), Some(live), extended)
            }
            Some(document) => {
                let extended = self.catalog.load_applied(&client, document).await?;
                let file = well_formed(document, &extended.0.catalog)?;
                let live = find_live(&client, &file).await?;
                (after_apply(&file, live.as_ref()), live, extended)
            }
        };
        let charts = match self.chart_options.source() {
            Some(_) => Some(ChartSource::new(self.chart_options.open().await?, &Arc::new(Notify::new()))),
            None => None,
        };
        let catalog = (Arc::new(extended.catalog), errors);
        let limit = self.target.cluster.timeout();
        let preview = preview(&client, &catalog, &deployment, live.as_ref(), charts.as_ref(), limit).await?;
        let options = DisplayOptions { values: self.values, credentials: self.credentials };
        let mut report = PlanReport::new(&deployment, live.as_ref(), &preview, document, options);
        match superseded_by(&client, live.as_ref()).await {
            Ok(note) => report.notes.extend(note),
            Err(error) => {
                report.unknown.push(format!("whether another OpenStackDeployment takes precedence: {error:#}"));
            }
        }
        Ok(report)
    }
}
