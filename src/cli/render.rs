//! `osdpl render`: the values of each release, and the helm commands that take them.

mod chart;
mod folder;
mod real;
mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::ResourceExt;
use serde_json::Value;

use super::common::{CatalogOption, ClusterOption, read_deployment};
use super::manifests::{Renderer, scrubber};
use super::output;
use super::place::Place;
use crate::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use crate::catalog::{Catalog, Level};
use crate::controller::secrets;
use crate::desired::{Desired, DesiredRelease, Selection, redacted, select};
use crate::difference;
use crate::helm::Version;
use crate::rule::{self, made_up};
use crate::yaml;
use folder::Folder;

#[derive(Args)]
pub struct Arguments {
    /// The resource's file; `-` for standard input.
    #[arg(long, short, required_unless_present = "credentials")]
    file: Option<PathBuf>,
    /// Only these releases.
    releases: Vec<String>,
    /// Put made-up credentials in place of `<redacted>`, the same at each call: for `helm template`.
    #[arg(long, conflicts_with = "credentials")]
    placeholders: bool,
    /// Write `<release>.yaml` files and install.sh, which runs helm with them, into this folder instead of printing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the REAL credentials, as the cluster has them: passwords and keys in clear text. The folder must be yours alone (0700), its files
    /// are (0600). The resource is the cluster's, or the file's as if it were applied.
    #[arg(long, requires = "out")]
    credentials: bool,
    /// Give what helm would render of the charts (--charts) as well: without --out instead of the values. Its secrets are always redacted.
    #[arg(long)]
    manifests: bool,
    /// Of which helm the commands are for, where the operator does not say it.
    #[arg(long, value_name = "3|4", value_parser = clap::value_parser!(u32).range(3..=4))]
    helm_major: Option<u32>,
    /// The resource's name in the cluster; the only one there is where unset.
    #[arg(long, requires = "credentials", conflicts_with = "file")]
    name: Option<String>,
    /// Its namespace; all are searched where unset.
    #[arg(long, short, requires = "credentials")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterOption,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    place: Place,
}

/// A cloud whose releases are written down.
struct Cloud {
    namespace: String,
    name: String,
    spec: OpenStackDeploymentSpec,
    catalog: Catalog,
    desired: Desired,
    /// The Jobs that are deleted before an upgrade, by release.
    jobs: BTreeMap<String, Vec<String>>,
    helm: Version,
    /// What must not show in manifests.
    secrets: Vec<String>,
}

/// What stands where values are secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Redacted,
    MadeUp,
    Real,
}

impl Arguments {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        // No credential is read for a folder that may not have it.
        let folder = match &self.out {
            Some(folder) if self.credentials => Some(Folder::open(folder, true)?),
            Some(_) | None => None,
        };
        let cloud = if self.credentials { self.standing().await? } else { self.alone()? };
        let chosen = self.chosen(&cloud.desired)?;
        let renderer = if self.manifests { Some(Renderer::open(&self.place).await?) } else { None };
        match (&self.out, folder) {
            (Some(_), Some(folder)) => self.write(&folder, &cloud, &chosen, renderer.as_ref()).await?,
            (Some(folder), None) => {
                self.write(&Folder::open(folder, false)?, &cloud, &chosen, renderer.as_ref()).await?;
            }
            (None, _) => {
                for (name, release) in chosen {
                    let text = match &renderer {
                        Some(renderer) => manifest(renderer, &cloud, name, release).await?,
                        None => yaml::write(&self.shown(release)),
                    };
                    output::print(format_args!("---\n# {name} ({}, chart {})\n{text}", release.key, release.chart));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What the file alone comes to.
    fn alone(&self) -> anyhow::Result<Cloud> {
        let file = self.file.as_deref().context("name the resource's file with --file")?;
        let catalog = self.catalog.load_for(file)?;
        let deployment = read_deployment(file)?;
        let (selection, desired) = offline(&deployment, &catalog)?;
        let facts = made_up(&catalog, &selection);
        let jobs = desired.releases.iter().map(|(name, release)| (name.clone(), release.plain_jobs.clone()));
        Ok(Cloud {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            jobs: jobs.collect(),
            helm: Version { major: self.helm_major.unwrap_or(4), minor: 0 },
            secrets: secrets(&facts).into_iter().map(Into::into).collect(),
            spec: deployment.spec,
            catalog,
            desired,
        })
    }

    /// The releases that were asked for, those first that others need; each must have its values.
    fn chosen<'a>(&self, desired: &'a Desired) -> anyhow::Result<Vec<(&'a str, &'a DesiredRelease)>> {
        if let Some(wanted) = self.releases.iter().find(|name| !desired.releases.contains_key(*name)) {
            let names = desired.releases.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            bail!("there is no release {wanted:?} in this cloud; there are {names}");
        }
        let mut chosen: Vec<(&str, &DesiredRelease)> =
            desired.releases.iter().map(|(name, release)| (name.as_str(), release)).collect();
        chosen.retain(|(name, _)| self.releases.is_empty() || self.releases.iter().any(|wanted| wanted == name));
        for (name, release) in &chosen {
            if let Some(blocked) = &release.blocked {
                bail!("release {name}: {}", blocked.message);
            }
        }
        if self.out.is_some() {
            let depths = desired.depths();
            chosen.sort_by_key(|(name, _)| depths[name]);
        }
        Ok(chosen)
    }

    fn secrets(&self) -> Secrets {
        match (self.credentials, self.placeholders) {
            (true, _) => Secrets::Real,
            (false, true) => Secrets::MadeUp,
            (false, false) => Secrets::Redacted,
        }
    }

    fn shown(&self, release: &DesiredRelease) -> Value {
        Value::Object(match self.secrets() {
            Secrets::Redacted => redacted(&release.values, &release.secret),
            Secrets::MadeUp | Secrets::Real => release.values.clone(),
        })
    }

    async fn write(
        &self,
        folder: &Folder,
        cloud: &Cloud,
        chosen: &[(&str, &DesiredRelease)],
        renderer: Option<&Renderer>,
    ) -> anyhow::Result<()> {
        let charts = chart::Charts::new(&self.place, cloud).await?;
        let depths = cloud.desired.depths();
        let mut script = script::Script::new(cloud, self.secrets());
        for (name, release) in chosen {
            let values = format!("{name}.yaml");
            folder.write(&values, yaml::write(&self.shown(release)).as_bytes(), false)?;
            if let Some(renderer) = renderer {
                let text = manifest(renderer, cloud, name, release).await?;
                folder.write(&format!("{name}.manifest.yaml"), text.as_bytes(), false)?;
            }
            let chart = charts.of(name, folder).await?;
            script.add(name, release, depths[name], &values, &chart);
        }
        folder.write(script::NAME, script.text().as_bytes(), true)?;
        let real = if self.credentials { ", with the real credentials: remove it when you are done" } else { "" };
        let count = if chosen.len() == 1 { "1 release".to_owned() } else { format!("{} releases", chosen.len()) };
        output::line(format_args!("{folder}: the values of {count} and {}{real}", script::NAME));
        Ok(())
    }
}

/// What helm would render of a release, in helm's order; of Secrets their keys.
async fn manifest(renderer: &Renderer, cloud: &Cloud, name: &str, release: &DesiredRelease) -> anyhow::Result<String> {
    let scrubber = scrubber(release, &cloud.secrets, None);
    let objects = renderer.objects((&cloud.spec, &cloud.catalog), (name, release), false, &scrubber);
    let objects = objects.await.with_context(|| format!("release {name}"))?;
    let texts = objects.iter().map(|object| yaml::write(&difference::shown(object, &scrubber)));
    Ok(texts.collect::<Vec<_>>().join("---\n"))
}

/// What a resource means, with made-up credentials and no charts. Errors list every finding.
pub fn offline(deployment: &OpenStackDeployment, catalog: &Catalog) -> anyhow::Result<(Selection, Desired)> {
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
    let selection = select(&name, &namespace, &deployment.spec, catalog);
    let desired = if selection.is_refused() {
        Desired { findings: selection.findings.clone(), ..Desired::default() }
    } else {
        rule::resolve(&deployment.spec, catalog, &selection, &made_up(catalog, &selection))
    };
    told(&desired)?;
    Ok((selection, desired))
}

/// Tells what is wrong, and goes no further where that is refused.
fn told(desired: &Desired) -> anyhow::Result<()> {
    for finding in &desired.findings {
        eprintln!("{}: {finding}", finding.level.word());
    }
    let errors = desired.findings.iter().filter(|finding| finding.level == Level::Error).count();
    if errors > 0 {
        bail!("the resource is refused: {errors} error(s), each said above");
    }
    Ok(())
}
