//! `osdpl render`: prints the values of each release, or writes them to files, with a script of the helm commands that
//! install the releases.

mod chart;
mod cluster;
mod folder;
mod script;
mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use kube::ResourceExt;
use serde_json::Value;

use super::chart_options::ChartOptions;
use super::common::{CatalogOption, ResourceOption};
use super::document::Document;
use super::manifests::Renderer;
use super::offline::Offline;
use super::output;
use folder::Folder;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, did_you_mean};
use osdpl_core::desired::{Desired, DesiredRelease, layers, redact};
use osdpl_core::scrub::Scrubber;
use osdpl_operator::controller::collect_secrets;
use osdpl_operator::helm::Version;
use osdpl_values::{CollectSorted, yaml};
use osdpl_values::{Layer, Origin, Path, Values, get, leaves, set};
use write::manifest;

#[derive(Args)]
#[command(
    mut_arg("kubeconfig", |option| option.requires("credentials")),
    mut_arg("context", |option| option.requires("credentials"))
)]
pub(crate) struct Arguments {
    /// The resource's file; `-` for standard input.
    #[arg(long, short, required_unless_present = "credentials", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Render only these releases.
    releases: Vec<String>,
    /// Write placeholder credentials instead of `<redacted>`, for example for `helm template`. The placeholders are the
    /// same in each run. Secrets that you wrote yourself stay redacted.
    #[arg(long, conflicts_with = "credentials")]
    placeholders: bool,
    /// Do not print the values, but write files into this folder: `<release>.yaml` with the values of each release, and
    /// install.sh, which runs helm with these values.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the REAL credentials of the cluster: passwords and keys in clear text. The folder must be accessible only
    /// to you (0700); its files get mode 0600. osdpl renders the resource in the cluster, or the resource in --file as
    /// if it were applied.
    #[arg(long, requires = "out")]
    credentials: bool,
    /// Render the manifests. With --out, osdpl writes them in addition to the values. Without --out, osdpl prints them
    /// instead of the values. Secrets in manifests are always redacted. Requires --charts.
    #[arg(long)]
    manifests: bool,
    /// The major version of the helm that install.sh runs; default: the version that the operator reports, or else 4.
    #[arg(long, value_name = "3|4", value_parser = clap::value_parser!(u32).range(3..=4), requires = "out")]
    helm_major: Option<u32>,
    #[command(flatten)]
    resource: ResourceOption,
    #[command(flatten)]
    catalog: CatalogOption,
    #[command(flatten)]
    chart_options: ChartOptions,
}

/// A cloud whose values `osdpl render` prints or writes, and the data for its install.sh.
struct Cloud {
    namespace: String,
    name: String,
    spec: OpenStackDeploymentSpec,
    catalog: std::sync::Arc<Catalog>,
    desired: Desired,
    /// For each release, by its catalogue name: the names of the Jobs that install.sh deletes before it upgrades the
    /// release, as the operator would do.
    jobs: BTreeMap<String, Vec<String>>,
    helm: Version,
    /// The cluster from which osdpl read the real credentials; `None` if the values contain placeholders or
    /// `<redacted>`.
    cluster: Option<script::ClusterIdentity>,
    /// The texts of all secrets of the cloud. osdpl removes these texts from manifests.
    secrets: Vec<String>,
    /// The paths of secrets that users wrote in the spec or in Secrets, by release. osdpl has no placeholders for such
    /// secrets, so it redacts them even with `--placeholders`.
    user_secrets: BTreeMap<String, Vec<Path>>,
    /// One line for each placeholder: it names the missing fact. Lists no placeholders for credentials.
    placeholders: Vec<String>,
}

impl Cloud {
    /// Returns the placeholders as lines of comments, in YAML or a shell script.
    fn placeholder_comments(&self) -> String {
        let line = |placeholder: &String| format!("# placeholder: {}\n", script::comment(placeholder));
        self.placeholders.iter().map(line).collect::<Vec<_>>().concat()
    }
}

/// The way in which `osdpl render` writes a secret value: as `<redacted>`, as a placeholder, or in clear text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Redacted,
    Placeholders,
    Real,
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        // Check the folder before reading the credentials. So the command fails early if other users can read the
        // folder.
        let folder = match &self.out {
            Some(folder) if self.credentials => Some(Folder::open(folder, true)?),
            Some(_) | None => None,
        };
        let cloud = if self.credentials { Box::pin(self.read_cluster()).await? } else { self.read_file()? };
        let selected = self.select_releases(&cloud.desired);
        let selected = selected.map_err(|error| anyhow!(Scrubber::new(&cloud.secrets).scrub(&error.to_string())))?;
        let renderer = if self.manifests { Some(Renderer::open(&self.chart_options).await?) } else { None };
        match (&self.out, folder) {
            (Some(_), Some(folder)) => {
                let result = self.write(&folder, &cloud, &selected, renderer.as_ref()).await;
                result.with_context(|| {
                    format!("osdpl did not write all files to {folder} (it may contain real credentials; remove it)")
                })?;
            }
            (Some(folder), None) => {
                self.write(&Folder::open(folder, false)?, &cloud, &selected, renderer.as_ref()).await?;
            }
            (None, _) => {
                output::print(cloud.placeholder_comments());
                for (name, release) in selected {
                    let text = match &renderer {
                        Some(renderer) => manifest(renderer, &cloud, name, release).await?,
                        None => yaml::write(&self.printed_values(&cloud, name, release)),
                    };
                    output::print(format_args!("---\n# {name} ({}, chart {})\n{text}", release.key, release.chart));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Resolves the `OpenStackDeployment` of the file without a cluster.
    fn read_file(&self) -> anyhow::Result<Cloud> {
        let file = self.file.as_deref().context("name the resource's file with --file")?;
        let namespace = &self.resource.namespace;
        let document = Document::read(file)?.with_namespace(namespace.clone());
        let catalog = self.catalog.load_for(&document)?.catalog;
        let Offline { deployment, selection, facts, desired, placeholders } =
            Offline::resolve_strictly(&document, &catalog)?;
        let jobs = desired.releases.iter().map(|(name, release)| (name.clone(), release.plain_jobs.clone()));
        let jobs = jobs.collect_map();
        let user_secrets = |(name, release): (&String, &DesiredRelease)| {
            let layers = layers(name, &deployment.spec, &catalog, &selection, &facts).unwrap_or_default();
            (name.clone(), layers.iter().flat_map(|layer| user_secret_paths(layer, &release.secret)).collect())
        };
        Ok(Cloud {
            user_secrets: desired.releases.iter().map(user_secrets).collect_map(),
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            jobs,
            helm: Version { major: self.helm_major.unwrap_or(4), minor: 0 },
            cluster: None,
            secrets: collect_secrets(&facts).into_iter().map(Into::into).collect(),
            spec: deployment.spec,
            catalog: std::sync::Arc::new(catalog),
            desired,
            placeholders,
        })
    }

    /// Returns the selected releases. With `--out`, the releases are in dependency order.
    ///
    /// # Errors
    /// Returns an error if the cloud lacks a requested release, or if osdpl can't determine the values of a selected
    /// release.
    fn select_releases<'a>(&self, desired: &'a Desired) -> anyhow::Result<Vec<(&'a str, &'a DesiredRelease)>> {
        if let Some(unknown) = self.releases.iter().find(|name| !desired.releases.contains_key(*name)) {
            let names = || desired.releases.keys().map(String::as_str);
            let (hint, all) = (did_you_mean(unknown, names()), names().collect::<Vec<_>>().join(", "));
            bail!("there is no release {unknown:?} in this cloud{hint}; choose from {all}");
        }
        let mut selected: Vec<(&str, &DesiredRelease)> =
            desired.releases.iter().map(|(name, release)| (name.as_str(), release)).collect();
        selected.retain(|(name, _)| self.releases.is_empty() || self.releases.iter().any(|selected| selected == name));
        for (name, release) in &selected {
            if let Some(blocked) = &release.blocked {
                bail!("release {name}: {}", blocked.message);
            }
        }
        if self.out.is_some() {
            let depths = desired.depths();
            selected.sort_by_key(|(name, _)| depths[name]);
        }
        Ok(selected)
    }

    fn secrets(&self) -> Secrets {
        match (self.credentials, self.placeholders) {
            (true, _) => Secrets::Real,
            (false, true) => Secrets::Placeholders,
            (false, false) => Secrets::Redacted,
        }
    }

    /// Returns the values of a release as the command prints them. [`Secrets`] decides whether secrets are redacted,
    /// replaced with placeholders, or real.
    fn printed_values(&self, cloud: &Cloud, name: &str, release: &DesiredRelease) -> Value {
        Value::Object(match self.secrets() {
            Secrets::Redacted => redact(&release.values, &release.secret),
            Secrets::Placeholders => {
                redact_paths(&release.values, cloud.user_secrets.get(name).map_or(&[], Vec::as_slice))
            }
            Secrets::Real => release.values.clone(),
        })
    }
}

/// Returns the paths at which a layer sets secrets that users wrote, without the paths of credentials that osdpl
/// generates.
fn user_secret_paths(layer: &Layer, secret: &[Path]) -> Vec<Path> {
    match layer.origin {
        Origin::Field(_) | Origin::Object(_) => secret_leaves(layer, secret),
        Origin::File { .. } | Origin::Derived(_) => layer.plain_text.clone(),
    }
}

/// Returns the paths of all leaf values of a layer that are at or below a path in `secret`. At such a path, a user can
/// replace a generated credential with another secret.
fn secret_leaves(layer: &Layer, secret: &[Path]) -> Vec<Path> {
    let paths = leaves(&layer.values).into_iter().map(|(path, _)| path);
    paths.filter(|path| secret.iter().any(|secret| secret.covers(path))).collect()
}

/// Redacts every string and number at or below `paths`. A redacted value keeps its type, because templates depend on
/// types.
fn redact_paths(values: &Values, paths: &[Path]) -> Values {
    let mut redacted = values.clone();
    for path in paths {
        if let Some(mut value) = get(values, path).cloned() {
            redact_scalars(&mut value);
            set(&mut redacted, path, value);
        }
    }
    redacted
}

/// Replaces every non-empty string in a value with `<redacted>`, and every number with 0.
fn redact_scalars(value: &mut Value) {
    match value {
        Value::String(text) if !text.is_empty() => "<redacted>".clone_into(text),
        Value::Number(number) => *number = 0.into(),
        Value::Array(items) => items.iter_mut().for_each(redact_scalars),
        Value::Object(map) => map.values_mut().for_each(redact_scalars),
        Value::String(_) | Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn redacts_only_secret_leaves_of_user_layers() {
        let values = json!({"conf": {"password": "hunter2", "debug": true}, "other": 1});
        let layer = Layer::new(Origin::Field("spec".into()), values.as_object().unwrap().clone());
        let secret = [Path::parse("conf").unwrap()];
        let paths =
            |layer: &Layer| user_secret_paths(layer, &secret).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(paths(&layer), ["conf.debug", "conf.password"]);
        let file = Origin::File { file: "values/features/volumes.yaml".into(), field: "fragments[0]".into() };
        let plain_text = vec![Path::parse("conf.password").unwrap()];
        assert_eq!(
            paths(&Layer { origin: file, plain_text, ..layer }),
            ["conf.password"],
            "a secret that a feature copies from the spec must be redacted"
        );
    }

    #[test]
    fn redacted_values_keep_their_types() {
        let values = json!({"a": {"password": "hunter2", "port": 1, "list": ["x", ""]}, "b": "y"});
        let paths = [Path::parse("a").unwrap(), Path::parse("c.d").unwrap()];
        let values = Value::Object(redact_paths(values.as_object().unwrap(), &paths));
        let redacted = "<redacted>";
        assert_eq!(values, json!({"a": {"password": redacted, "port": 0, "list": [redacted, ""]}, "b": "y"}));
    }
}
