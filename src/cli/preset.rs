//! `osdpl preset diff A B`: shows how a cloud changes if other presets replace its presets; no cluster needed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::common::CatalogOption;
use super::document::Document;
use super::offline::well_formed;
use super::output::{self, Format};
use super::preset_comparison::{Cloud, Comparison};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, did_you_mean};
use osdpl_core::desired::find_excluded_presets;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::{Evaluation, Input};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show how the services and the values of each release change if presets B replace presets A.
    Diff(Diff),
}

#[derive(Args)]
struct Diff {
    /// The presets of the first cloud, separated by commas, such as `compute,medium`. A later preset overrides values
    /// of earlier ones, as in `spec.presets`.
    #[arg(value_name = "A", value_parser = parse_presets)]
    before: Presets,
    /// The presets of the second cloud, such as `compute,ha`. osdpl compares this cloud with the first cloud.
    #[arg(value_name = "B", value_parser = parse_presets)]
    after: Presets,
    /// The OpenStack release; default: the release of the file's resource, or the newest release.
    #[arg(long)]
    release: Option<String>,
    /// Use the features and values of the resource in this file for both clouds; default: an empty resource. `-` for
    /// standard input.
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    catalog: CatalogOption,
}

/// The presets of one cloud, in the order of the argument; later presets override earlier ones.
#[derive(Clone)]
struct Presets(Vec<String>);

#[expect(clippy::unnecessary_wraps, reason = "clap expects a parser that returns a result")]
fn parse_presets(text: &str) -> Result<Presets, String> {
    Ok(Presets(text.split(',').map(str::to_owned).collect()))
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Command::Diff(diff) => diff.run(),
        }
    }
}

impl Diff {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let document = self.file.as_deref().map(Document::read).transpose()?;
        let catalog = match &document {
            Some(document) => self.catalog.load_for(document)?.catalog,
            None => self.catalog.load()?,
        };
        let deployment = self.deployment(document.as_ref(), &catalog)?;
        let manifests = document.as_ref().map_or(&[][..], |document| &document.others);
        let before = resolve(&deployment, manifests, &self.before.0, &catalog)?;
        let after = resolve(&deployment, manifests, &self.after.0, &catalog)?;
        let comparison = Comparison::of(&before, &after, document.as_ref());
        match self.output {
            Format::Text => output::print(comparison.text()),
            Format::Json => output::line(serde_json::to_string_pretty(&comparison)?),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the resource that the two compared clouds have in common. [`resolve`] sets the presets of each cloud.
    fn deployment(&self, document: Option<&Document>, catalog: &Catalog) -> anyhow::Result<OpenStackDeployment> {
        let newest = || catalog.openstack.keys().next_back().context("the catalogue has no OpenStack release");
        let mut deployment = match document {
            // Both clouds are new, so the OpenStack release in the file's status does not limit the release of the spec.
            Some(document) => OpenStackDeployment { status: None, ..well_formed(document, catalog)? },
            None => OpenStackDeployment::new("cloud", serde_json::from_value(json!({"openstackRelease": newest()?}))?),
        };
        let openstack_release = &mut deployment.spec.openstack_release;
        if let Some(release) = &self.release {
            openstack_release.clone_from(release);
        }
        check_name("OpenStack release", openstack_release, catalog.openstack.keys())?;
        Ok(deployment)
    }
}

/// Resolves the cloud that `deployment` describes when `presets` replace its own presets. `manifests` are the other
/// objects in the file of `deployment`, such as Secrets.
fn resolve(
    deployment: &OpenStackDeployment,
    manifests: &[Value],
    presets: &[String],
    catalog: &Catalog,
) -> anyhow::Result<Cloud> {
    for preset in presets {
        check_name("preset", preset, catalog.presets.keys())?;
    }
    if let Some((later, earlier, why)) = find_excluded_presets(presets, catalog).first() {
        bail!("{}: {} can't be combined with {}: {why}", presets.join(","), presets[*later], presets[*earlier]);
    }
    let spec = OpenStackDeploymentSpec { presets: presets.to_vec(), ..deployment.spec.clone() };
    // Errors in the spec do not stop the comparison: the output of the command lists them as findings.
    let input = Input::of_resource(deployment, &spec, catalog);
    let Evaluation { selection, desired, placeholders, .. } =
        input.evaluate_offline(manifests, &ClusterInfo::default());
    Ok(Cloud { presets: presets.to_vec(), selection, desired, placeholders })
}

/// Checks that `names`, the names of all catalogue entries of this kind, contain `name`. If not, the error lists
/// `names`.
fn check_name<'a>(kind: &str, name: &str, names: impl Iterator<Item = &'a String> + Clone) -> anyhow::Result<()> {
    if names.clone().any(|known| known == name) {
        return Ok(());
    }
    let hint = did_you_mean(name, names.clone().map(String::as_str));
    let list = names.map(String::as_str).collect::<Vec<_>>().join(", ");
    bail!("there is no {kind} {name:?}{hint}; choose from {list}")
}
