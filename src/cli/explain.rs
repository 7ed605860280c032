//! `osdpl explain`: where a value comes from.

mod answer;
mod places;
mod shown;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use kube::ResourceExt;

use super::added::{Wrong, in_cluster, in_file_within};
use super::common::{CatalogOption, Document, ResourceOption, Target};
use super::offline::{Offline, report};
use super::output::{self, Format};
use super::place::Place;
use answer::{Answer, Question};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Extended, did_you_mean};
use osdpl_core::desired::{Desired, Facts, Selection};
use osdpl_operator::controller::{ChartSource, preview, wanted};
use osdpl_values::Path;
use places::Places;

#[derive(Args)]
pub struct Arguments {
    /// A release and a path in its values (`nova conf.nova.DEFAULT.debug`); of every release that has the path where it stands alone.
    #[arg(required = true, num_args = 1..=2, value_name = "[RELEASE] PATH")]
    words: Vec<String>,
    /// Explain what this file's resource means, without a cluster; `-` for standard input.
    #[arg(long, short, conflicts_with = "name")]
    file: Option<PathBuf>,
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

/// A cloud, as far as it is needed to tell where its values come from.
struct Cloud {
    name: String,
    spec: OpenStackDeploymentSpec,
    selection: Selection,
    facts: Facts,
    desired: Desired,
    /// Whether no cluster was asked: credentials and Ceph are made up.
    is_offline: bool,
}

impl Arguments {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        let document = self.file.as_deref().map(Document::read).transpose().inspect_err(|_| self.report())?;
        let document = document.map(|document| document.within(self.resource.namespace.clone()));
        let standing = if document.is_none() { Some(self.find().await?) } else { None };
        let extended = self.extended(standing.as_ref()).await.inspect_err(|_| self.report());
        let Extended { catalog, files: texts, .. } = extended?;
        let catalog = std::sync::Arc::new(catalog);
        let cloud = match (&document, standing) {
            (Some(document), _) => offline(document, &catalog).inspect_err(|_| self.report())?,
            (None, standing) => self.standing(standing.context("no resource was read")?, &catalog).await?,
        };
        let (release, path) = match self.words.as_slice() {
            [release, path] => (Some(known(release, &cloud)?), Path::parse(path)?),
            words => (None, Path::parse(&words.concat())?),
        };
        let places = Places { texts: &texts, added: &catalog.added, document: document.as_ref() };
        let question = Question { cloud: &cloud, catalog: &catalog, places: &places, path: &path };
        let mut answers: Vec<Answer> = match release {
            Some(release) => vec![question.answer(release)?],
            None => cloud.desired.releases.keys().map(|name| question.answer(name)).collect::<Result<_, _>>()?,
        };
        if release.is_none() {
            answers.retain(Answer::is_said);
        }
        if let Some(list) = list_of(&path).filter(|_| !answers.iter().any(Answer::is_said)) {
            bail!(
                "{path} is an entry of a list, and helm takes lists whole, so that none of an entry is told: ask for {list}"
            );
        }
        if answers.is_empty() {
            if let [word] = self.words.as_slice()
                && cloud.desired.releases.contains_key(word.as_str())
            {
                bail!(
                    "{word} is a release: name a path in its values after it, such as: osdpl explain {word} pod.replicas"
                );
            }
            bail!("no layer sets {path} of any release; name a release to see what its chart knows of it");
        }
        self.defaults(&mut answers, (&cloud.spec, &catalog), &path).await?;
        match self.output {
            Format::Text => output::print(shown::text(&answers)),
            Format::Json => output::line(serde_json::to_string_pretty(&answers)?),
        }
        let unknown = answers.iter().all(|answer| !answer.is_said() && !answer.chart.known);
        Ok(if unknown { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The catalogue with what `ConfigMap`s add to it, those beside the resource in its file or in its cluster.
    async fn extended(&self, standing: Option<&(kube::Client, OpenStackDeployment)>) -> anyhow::Result<Extended> {
        let (added, wrong) = match (&self.file, standing) {
            (Some(file), _) => (in_file_within(file, self.resource.namespace.as_deref())?, Wrong::Refused),
            (None, Some((client, deployment))) => {
                (in_cluster(client, &deployment.namespace().unwrap_or_default()).await, Wrong::Told)
            }
            (None, None) => (Vec::new(), Wrong::Told),
        };
        self.catalog.extended(&added, wrong)
    }

    /// Says to programs what is wrong with the file, in the form of `osdpl validate`; people are told anyway.
    fn report(&self) {
        let Some(file) = self.file.as_deref().filter(|_| self.output == Format::Json) else { return };
        // What can't be read at all has no findings.
        if let Ok(Some(report)) = report(file, &self.catalog, self.resource.namespace.as_deref())
            && let Ok(text) = serde_json::to_string_pretty(&report)
        {
            output::line(text);
        }
    }

    /// The resource in the cluster.
    async fn find(&self) -> anyhow::Result<(kube::Client, OpenStackDeployment)> {
        let client = self.resource.cluster.client().await?;
        let deployment = Target::from(&self.resource).find(&client).await?;
        Ok((client, deployment))
    }

    /// The resource in the cluster, with what the operator knows of it.
    async fn standing(
        &self,
        (client, deployment): (kube::Client, OpenStackDeployment),
        catalog: &std::sync::Arc<Catalog>,
    ) -> anyhow::Result<Cloud> {
        // The images that charts name themselves are rewritten by a layer of their own.
        let charts = match self.place.source() {
            Some(_) => Some(ChartSource::new(self.place.open().await?, &std::sync::Arc::default())),
            None => None,
        };
        let preview = preview(&client, catalog, &deployment, Some(&deployment), charts.as_ref()).await?;
        for unseen in &preview.unseen {
            eprintln!("not seen: {unseen}");
        }
        let (spec, selection) = (preview.spec, preview.selection);
        Ok(Cloud {
            name: deployment.name_any(),
            spec,
            selection,
            facts: preview.facts,
            desired: preview.desired,
            is_offline: false,
        })
    }

    /// The charts' own defaults, where charts were named.
    async fn defaults(
        &self,
        answers: &mut [Answer],
        (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
        path: &Path,
    ) -> anyhow::Result<()> {
        if self.place.source().is_none() {
            return Ok(());
        }
        let store = self.place.open().await?;
        for answer in answers {
            let Some((wanted, _)) = wanted(&store, spec, catalog, &answer.release) else { continue };
            let of_chart = || format!("the keys of chart {}", wanted.name);
            let chart = store.obtain(&wanted).await.with_context(of_chart)?;
            answer.chart = answer.chart.clone().read(&chart, catalog, path).with_context(of_chart)?;
        }
        Ok(())
    }
}

/// What a file means, with made-up credentials.
fn offline(document: &Document, catalog: &Catalog) -> anyhow::Result<Cloud> {
    let Offline { deployment, selection, facts, desired } = Offline::explained(document, catalog)?;
    Ok(Cloud { name: deployment.name_any(), spec: deployment.spec, selection, facts, desired, is_offline: true })
}

/// The list that a path leads into: `jobs` of `jobs[0]`.
fn list_of(path: &Path) -> Option<Path> {
    let keys = path.keys();
    let (at, name) = keys.iter().enumerate().find_map(|(at, key)| {
        let (name, index) = key.strip_suffix(']')?.split_once('[')?;
        let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        is_index.then_some((at, name)).filter(|_| !name.is_empty())
    })?;
    Some(keys[..at].iter().map(String::as_str).chain([name]).collect())
}

fn known<'a>(release: &'a str, cloud: &Cloud) -> anyhow::Result<&'a str> {
    let names = || cloud.desired.releases.keys().map(String::as_str);
    if names().any(|name| name == release) {
        return Ok(release);
    }
    let hint = did_you_mean(release, names());
    bail!("there is no release {release:?} in this cloud{hint}; there are {}", names().collect::<Vec<_>>().join(", "))
}
