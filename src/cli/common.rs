//! What subcommands have in common: where the catalogue and the resource come from.

use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, bail};
use clap::Args;
use kube::api::{ListParams, ObjectList};
use kube::{Api, ResourceExt};

pub use super::connect::{ClusterOption, is_configured, readable};
pub use super::document::Document;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, Files, did_you_mean};
use osdpl_core::files;

/// Where the catalogue comes from.
#[derive(Args, Clone, Debug)]
pub struct CatalogOption {
    /// A folder with values/ and presets/ instead of the built-in catalogue.
    #[arg(long, env = "OSDPL_CATALOG", value_name = "DIR", value_parser = folder)]
    pub catalog: Option<PathBuf>,
}

fn folder(name: &str) -> Result<PathBuf, String> {
    if name.is_empty() {
        return Err("no folder is named, here or in the variable OSDPL_CATALOG; name one, or unset the variable".into());
    }
    Ok(name.into())
}

impl CatalogOption {
    pub fn load(&self) -> anyhow::Result<Catalog> {
        files::catalog(self.catalog.as_deref()).with_context(|| self.wrong())
    }

    /// What is said before what is wrong with it, whose places are below the folder.
    pub fn wrong(&self) -> String {
        let folder = self.catalog.as_ref().map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
        format!("the catalogue{folder} is wrong")
    }

    /// Its files as they are.
    pub fn texts(&self) -> anyhow::Result<Files> {
        Ok(files::texts(self.catalog.as_deref())?)
    }
}

/// Which resource of the cluster is meant.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The resource's name; the only one there is where unset.
    pub name: Option<String>,
    /// Its namespace; all are searched where unset.
    #[arg(long, short)]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// The same where the words of a command are others: releases, and paths.
#[derive(Args, Clone, Debug)]
pub struct ResourceOption {
    /// The resource's name in the cluster; the only one there is where unset.
    #[arg(long)]
    pub name: Option<String>,
    /// Its namespace, where a file names none too; all are searched where unset.
    #[arg(long, short)]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

impl From<&ResourceOption> for Target {
    fn from(ResourceOption { name, namespace, cluster }: &ResourceOption) -> Self {
        Self { name: name.clone(), namespace: namespace.clone(), cluster: cluster.clone() }
    }
}

impl Target {
    pub async fn find(&self, client: &kube::Client) -> anyhow::Result<OpenStackDeployment> {
        let all = match &self.namespace {
            Some(namespace) => list(Api::namespaced(client.clone(), namespace)).await,
            None => match list(Api::all(client.clone())).await {
                // Who may not look everywhere means the namespace that kubectl would take.
                Err(kube::Error::Api(status)) if status.is_forbidden() => {
                    list(Api::default_namespaced(client.clone())).await
                }
                all => all,
            },
        };
        let all = all.map_err(readable).context("reading OpenStackDeployments")?;
        let fits =
            |deployment: &OpenStackDeployment| self.name.as_ref().is_none_or(|name| *name == deployment.name_any());
        let mut found: Vec<_> = all.items.into_iter().filter(fits).collect();
        match (found.len(), found.pop()) {
            (1, Some(deployment)) => Ok(deployment),
            (0, _) => bail!("there is no such OpenStackDeployment; see `kubectl get osdpl -A`"),
            _ => bail!("there are several OpenStackDeployments; name one, see `kubectl get osdpl -A`"),
        }
    }
}

async fn list(api: Api<OpenStackDeployment>) -> kube::Result<ObjectList<OpenStackDeployment>> {
    api.list(&ListParams::default()).await
}

/// What is said of a release that the catalogue does not have.
pub fn unknown(catalog: &Catalog, release: &str) -> anyhow::Error {
    let known = catalog.services.values().flat_map(|service| service.releases.keys());
    let hint = did_you_mean(release, known.map(String::as_str));
    anyhow::anyhow!(
        "the catalogue has no release {release:?}{hint}; releases go by the catalogue's names, see `osdpl plan`"
    )
}

/// A file as people are told of it.
pub fn called(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

/// Whether something came to nothing because a file, or a folder, could not be read.
pub fn is_unread(error: &anyhow::Error) -> bool {
    let is_of_catalogue = |error: &files::Error| matches!(error, files::Error::Read { .. });
    error.chain().any(|error| error.is::<Unread>() || error.downcast_ref().is_some_and(is_of_catalogue))
}

/// A file that can't be read: whichever command was to read it ends with code 2.
#[derive(Debug, thiserror::Error)]
#[error("reading {place}: {why}")]
pub struct Unread {
    place: String,
    /// Why, and what to do.
    pub why: String,
}

impl Unread {
    pub fn new(place: impl Display, error: &std::io::Error) -> Self {
        let why = match error.kind() {
            ErrorKind::NotFound => "there is no such file; name one that is there".to_owned(),
            ErrorKind::PermissionDenied => "you may not read it; have someone let you".to_owned(),
            ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
            ErrorKind::InvalidData => "it is no text in UTF-8; save it as such".to_owned(),
            _ => format!("{error}; name one that can be read"),
        };
        Self { place: place.to_string(), why }
    }
}

/// A file, or standard input for `-`, which can be asked for more than once.
#[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
pub fn read(path: &Path) -> Result<String, Unread> {
    static INPUT: OnceLock<String> = OnceLock::new();
    if path != Path::new("-") {
        return std::fs::read_to_string(path).map_err(|error| Unread::new(path.display(), &error));
    }
    if let Some(text) = INPUT.get() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| Unread::new("standard input", &error))?;
    Ok(INPUT.get_or_init(|| text).clone())
}
