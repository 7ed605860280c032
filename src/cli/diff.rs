//! `osdpl diff`: what runs, by helm's records, against what is wanted.

mod look;
mod shown;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::common::{CatalogOption, ResourceOption};
use super::live::{Live, Question};
use super::manifests::Renderer;
use super::output::{self, Format};
use super::place::Place;
use super::plan::older;
use shown::Shown;

#[derive(Args)]
pub struct Arguments {
    /// The resource's file, as if it were applied; the cluster's own where unset. `-` for standard input.
    #[arg(long, short, conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Only these releases.
    releases: Vec<String>,
    /// Compare the objects too: what helm would render of the operator's charts (--charts) with what it recorded.
    #[arg(long)]
    manifests: bool,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    resource: ResourceOption,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    place: Place,
}

/// The exit code where something could not be compared: 1 means differences, as for `kubectl diff`.
const UNREADABLE: u8 = 2;

impl Arguments {
    /// 0 without differences, 1 with, 2 where something can't be compared.
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        Ok(self.told().await.unwrap_or_else(|error| {
            eprintln!("osdpl: {error:#}");
            ExitCode::from(UNREADABLE)
        }))
    }

    async fn told(&self) -> anyhow::Result<ExitCode> {
        let shown = Box::pin(self.compared()).await?;
        match self.output {
            Format::Text => output::print(shown.text()),
            Format::Json => output::line(serde_json::to_string_pretty(&shown)?),
        }
        Ok(match (shown.is_whole(), shown.differs()) {
            (false, _) => ExitCode::from(UNREADABLE),
            (true, true) => ExitCode::FAILURE,
            (true, false) => ExitCode::SUCCESS,
        })
    }

    async fn compared(&self) -> anyhow::Result<Shown> {
        // Before anything is read: without charts there is nothing to render.
        let renderer = if self.manifests { Some(Renderer::open(&self.place).await?) } else { None };
        let (resource, file) = (&self.resource, self.file.as_deref());
        let live = Question { resource, file, catalog: &self.catalog, place: &self.place }.look().await?;
        self.known(&live)?;
        let renderer = match renderer {
            Some(renderer) => Some(renderer.for_cluster(&live.client).await?),
            None => None,
        };
        let mut shown = look::compare_all(&live, &self.releases, renderer.as_ref()).await?;
        match older(&live.client, live.standing.as_ref()).await {
            Ok(rules) => shown.notes.extend(rules),
            Err(error) => shown.unknown.push(format!("whether another OpenStackDeployment rules: {error:#}")),
        }
        Ok(shown)
    }

    /// Whether each release that was named is wanted, or runs.
    fn known(&self, live: &Live) -> anyhow::Result<()> {
        let decisions = &live.preview.plan.decisions;
        let Some(strange) = self.releases.iter().find(|name| !decisions.contains_key(*name)) else { return Ok(()) };
        let names = decisions.keys().map(String::as_str);
        let hint = osdpl_core::catalog::did_you_mean(strange, names.clone());
        bail!("there is no release {strange:?} in this cloud{hint}; there are {}", names.collect::<Vec<_>>().join(", "))
    }
}
