//! `osdpl explain`: explains which layers set a value of a release, and what the chart's default is. If the value is an
//! option of a service, such as `conf.nova.DEFAULT.debug`, it also explains the option.

mod explanation;
mod locations;
mod service_option;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use kube::ResourceExt;

use super::additions::{ExtendedWithErrors, warn_about};
use super::chart_options::ChartOptions;
use super::common::{CatalogOption, ResourceOption, Target};
use super::document::Document;
use super::offline::{Offline, report};
use super::output::{self, Format};
use explanation::{Explanation, Query};
use locations::LocationFinder;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, ExtendedCatalog, did_you_mean};
use osdpl_core::desired::{Desired, Facts, Selection};
use osdpl_operator::controller::{CatalogWithFindings, ChartSource, chart_of_release, preview};
use osdpl_values::Path;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A release and a path in its values (`nova conf.nova.DEFAULT.debug`), or only a path: osdpl then explains every
    /// release that has this path.
    #[arg(required = true, num_args = 1..=2, value_name = "[RELEASE] PATH")]
    target: Vec<String>,
    /// Explain the resource of this file, without a cluster; `-` for standard input.
    #[arg(long, short, conflicts_with = "name")]
    file: Option<PathBuf>,
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

/// The cloud that contains the explained values: a spec, and the releases that result from it.
struct Cloud {
    name: String,
    spec: OpenStackDeploymentSpec,
    selection: Arc<Selection>,
    facts: Facts,
    desired: Desired,
    /// One line for each fact that a placeholder replaces, except for credentials; empty if osdpl read the cloud from
    /// the cluster.
    placeholders: Vec<String>,
}

/// The explained `OpenStackDeployment` in a cluster, and the client with which osdpl read it.
struct LiveResource {
    client: kube::Client,
    deployment: OpenStackDeployment,
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let document = self.file.as_deref().map(Document::read).transpose().inspect_err(|_| self.print_findings())?;
        let document = document.map(|document| document.with_namespace(self.resource.namespace.clone()));
        let live = if document.is_none() { Some(self.find().await?) } else { None };
        let extended = self.extended(document.as_ref(), live.as_ref()).await.inspect_err(|_| self.print_findings());
        let (ExtendedCatalog { catalog, files, .. }, errors) = extended?;
        let catalog = (std::sync::Arc::new(catalog), errors);
        let cloud = match (&document, live) {
            (Some(document), _) => load_offline(document, &catalog.0).inspect_err(|_| self.print_findings())?,
            (None, live) => {
                let LiveResource { client, deployment } = live.context("no resource was read")?;
                self.load_live(&client, &deployment, &catalog).await?
            }
        };
        let (catalog, _) = catalog;
        let (release, path) = match self.target.as_slice() {
            [release, path] => (Some(check_release(release, &cloud)?), Path::parse(path)?),
            arguments => (None, Path::parse(&arguments.concat())?),
        };
        let locations = LocationFinder { files: &files, added: &catalog.added, document: document.as_ref() };
        let query = Query { cloud: &cloud, catalog: &catalog, locations: &locations, path: &path };
        let mut explanations: Vec<Explanation> = match release {
            Some(release) => vec![query.explain(release)?],
            None => cloud.desired.releases.keys().map(|name| query.explain(name)).collect::<Result<_, _>>()?,
        };
        if release.is_none() {
            explanations.retain(Explanation::is_set);
        }
        if let Some(list) = list_of(&path).filter(|_| !explanations.iter().any(Explanation::is_set)) {
            bail!("osdpl can't explain {path}, an entry of a list, because helm replaces whole lists; use {list}");
        }
        if explanations.is_empty() {
            if let [word] = self.target.as_slice()
                && cloud.desired.releases.contains_key(word.as_str())
            {
                bail!(
                    "{word} is a release, but `osdpl explain` also needs a path in its values; add a path, such as `osdpl explain {word} pod.replicas`"
                );
            }
            bail!("no layer sets {path} of any release; name a release to see whether its chart has this key");
        }
        self.add_defaults(&mut explanations, &cloud.spec, &catalog, &path).await?;
        match self.output {
            Format::Text => output::print(text::format(&explanations)),
            Format::Json => output::line(serde_json::to_string_pretty(&explanations)?),
        }
        let unknown = explanations.iter().all(|explanation| !explanation.is_set() && !explanation.chart.known);
        Ok(if unknown { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Loads the catalogue with the additions that the `OpenStackDeployment` names: from its file or, without a file,
    /// from the cluster. Without an `OpenStackDeployment`, loads the catalogue without additions.
    async fn extended(
        &self,
        document: Option<&Document>,
        live: Option<&LiveResource>,
    ) -> anyhow::Result<ExtendedWithErrors> {
        let (extended, errors) = match (document, live) {
            (Some(document), _) => (self.catalog.load_for(document)?, Vec::new()),
            (None, Some(LiveResource { client, deployment })) => self.catalog.load_live(client, deployment).await?,
            (None, None) => (self.catalog.extended(&[])?, Vec::new()),
        };
        warn_about(&errors);
        Ok((extended, errors))
    }

    /// With `--file` and `--output json`, prints the findings in the same JSON format as `osdpl validate`, if one is an
    /// error.
    fn print_findings(&self) {
        let Some(file) = self.file.as_deref().filter(|_| self.output == Format::Json) else { return };
        // If the file can't be read, print no JSON: the error message on standard error says why.
        if let Ok(Some(report)) = report(file, &self.catalog)
            && let Ok(text) = serde_json::to_string_pretty(&report)
        {
            output::line(text);
        }
    }

    /// Connects to the cluster, and finds the `OpenStackDeployment` that the options name, or the only one in the
    /// cluster.
    async fn find(&self) -> anyhow::Result<LiveResource> {
        let client = self.resource.cluster.client().await?;
        let deployment = Target::from(&self.resource).find(&client).await?;
        Ok(LiveResource { client, deployment })
    }

    /// Resolves an `OpenStackDeployment` of the cluster into its releases, with the Secrets and other facts that the
    /// operator would read from this cluster.
    async fn load_live(
        &self,
        client: &kube::Client,
        deployment: &OpenStackDeployment,
        catalog: &CatalogWithFindings,
    ) -> anyhow::Result<Cloud> {
        // `spec.images` rewrites the images in the charts' defaults. So osdpl can explain such an image only if it has
        // the charts.
        let charts = match self.chart_options.source() {
            Some(_) => Some(ChartSource::new(self.chart_options.open().await?, &std::sync::Arc::default())),
            None => None,
        };
        let limit = self.resource.cluster.timeout();
        let preview = preview(client, catalog, deployment, Some(deployment), charts.as_ref(), limit).await?;
        for unknown in &preview.unwatched {
            eprintln!("unknown: {unknown}");
        }
        let (spec, selection) = (preview.spec, preview.selection);
        Ok(Cloud {
            name: deployment.name_any(),
            spec,
            selection,
            facts: preview.facts,
            desired: preview.desired,
            placeholders: Vec::new(),
        })
    }

    /// Sets the chart's default for the explained path in each explanation. Does nothing if the user selected no charts
    /// with `--charts`.
    async fn add_defaults(
        &self,
        explanations: &mut [Explanation],
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        path: &Path,
    ) -> anyhow::Result<()> {
        if self.chart_options.source().is_none() {
            return Ok(());
        }
        let store = self.chart_options.open().await?;
        for explanation in explanations {
            let Some(request) = chart_of_release(&store, spec, catalog, &explanation.release) else { continue };
            let context = || format!("osdpl can't read the keys of chart {}", request.name);
            let chart = store.obtain(&request).await.with_context(context)?;
            explanation.chart = explanation.chart.clone().read(&chart, catalog, path).with_context(context)?;
        }
        Ok(())
    }
}

/// Resolves the `OpenStackDeployment` of a file without a cluster. Uses placeholders for the credentials, and for the
/// Ceph settings that the file does not contain.
fn load_offline(document: &Document, catalog: &Catalog) -> anyhow::Result<Cloud> {
    let Offline { deployment, selection, facts, desired, placeholders } =
        Offline::resolve_leniently(document, catalog)?;
    Ok(Cloud {
        name: deployment.name_any(),
        spec: deployment.spec,
        selection: Arc::new(selection),
        facts,
        desired,
        placeholders,
    })
}

/// Returns the part of a path before its first list index: `jobs` for `jobs[0]`. Returns `None` for a path without an
/// index.
fn list_of(path: &Path) -> Option<Path> {
    let keys = path.keys();
    let (position, name) = keys.iter().enumerate().find_map(|(position, key)| {
        let (name, index) = key.strip_suffix(']')?.split_once('[')?;
        let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        is_index.then_some((position, name)).filter(|_| !name.is_empty())
    })?;
    Some(keys[..position].iter().map(String::as_str).chain([name]).collect())
}

/// Checks that the cloud contains the release, and returns its name. Otherwise, the error lists the cloud's releases.
fn check_release<'a>(release: &'a str, cloud: &Cloud) -> anyhow::Result<&'a str> {
    let names = || cloud.desired.releases.keys().map(String::as_str);
    if names().any(|name| name == release) {
        return Ok(release);
    }
    let hint = did_you_mean(release, names());
    bail!("there is no release {release:?} in this cloud{hint}; choose from {}", names().collect::<Vec<_>>().join(", "))
}
