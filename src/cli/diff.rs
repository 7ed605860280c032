//! `osdpl diff`: compares the releases in helm's records with the releases that result from the spec of the
//! `OpenStackDeployment`.

mod compare;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::chart_options::ChartOptions;
use super::common::{CatalogOption, ResourceOption};
use super::live::{Live, LiveQuery, superseded_by};
use super::manifests::Renderer;
use super::output::{self, Format};
use report::DiffReport;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Compare helm's releases with the resource in this file, as if it were applied; default: with the resource in the
    /// cluster. `-` for standard input.
    #[arg(long, short, conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Compare only these releases.
    releases: Vec<String>,
    /// Also compare the objects in helm's records with the objects that helm would render. Requires --charts with the
    /// operator's charts.
    #[arg(long)]
    manifests: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    resource: ResourceOption,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    chart_options: ChartOptions,
}

/// The exit code if osdpl can't compare a release. Like `kubectl diff`, the command exits with 1 if it finds
/// differences, so this case needs another code.
const UNREADABLE: u8 = 2;

impl Arguments {
    /// Prints the differences. Exits with 0 without differences, 1 with differences, 2 if something can't be compared.
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        Ok(self.print_diff().await.unwrap_or_else(|error| {
            eprintln!("osdpl: {error:#}");
            ExitCode::from(UNREADABLE)
        }))
    }

    async fn print_diff(&self) -> anyhow::Result<ExitCode> {
        let report = Box::pin(self.compare()).await?;
        match self.output {
            Format::Text => output::print(report.text()),
            Format::Json => output::line(serde_json::to_string_pretty(&report)?),
        }
        Ok(match (report.is_complete(), report.differs()) {
            (false, _) => ExitCode::from(UNREADABLE),
            (true, true) => ExitCode::FAILURE,
            (true, false) => ExitCode::SUCCESS,
        })
    }

    async fn compare(&self) -> anyhow::Result<DiffReport> {
        // Open the charts before reading the cluster, so that the command fails early if it can't open them.
        let renderer = if self.manifests { Some(Renderer::open(&self.chart_options).await?) } else { None };
        let (resource, file) = (&self.resource, self.file.as_deref());
        let live =
            LiveQuery { resource, file, catalog: &self.catalog, chart_options: &self.chart_options }.load().await?;
        self.check_releases(&live)?;
        let renderer = match renderer {
            Some(renderer) => Some(renderer.for_cluster(&live.client).await?),
            None => None,
        };
        let mut report = compare::compare_all(&live, &self.releases, renderer.as_ref()).await?;
        match superseded_by(&live.client, live.current.as_ref()).await {
            Ok(note) => report.notes.extend(note),
            Err(error) => {
                report.unknown.push(format!("whether another OpenStackDeployment takes precedence: {error:#}"));
            }
        }
        Ok(report)
    }

    /// Checks that each release named on the command line exists in the cluster, or that the spec desires it.
    fn check_releases(&self, live: &Live) -> anyhow::Result<()> {
        let decisions = &live.preview.plan.decisions;
        let Some(unknown) = self.releases.iter().find(|name| !decisions.contains_key(*name)) else { return Ok(()) };
        let names = decisions.keys().map(String::as_str);
        let hint = osdpl_core::catalog::did_you_mean(unknown, names.clone());
        bail!(
            "there is no release {unknown:?} in this cloud{hint}; choose from {}",
            names.collect::<Vec<_>>().join(", ")
        )
    }
}
