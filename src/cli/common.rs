//! Options and helpers that subcommands share: the catalogue, the resource and files.

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

/// The option that selects the catalogue.
#[derive(Args, Clone, Debug)]
pub struct CatalogOption {
    /// A folder with values/ and presets/ instead of the built-in catalogue.
    #[arg(long, env = "OSDPL_CATALOG", value_name = "DIR", value_parser = folder)]
    pub catalog: Option<PathBuf>,
}

fn folder(name: &str) -> Result<PathBuf, String> {
    if name.is_empty() {
        return Err(
            "the folder name is empty, here or in the variable OSDPL_CATALOG; name one, or unset the variable".into()
        );
    }
    Ok(name.into())
}

impl CatalogOption {
    pub fn load(&self) -> anyhow::Result<Catalog> {
        files::load_catalog(self.catalog.as_deref()).with_context(|| self.error_context())
    }

    /// Returns the context for errors of the catalogue, whose places are relative to its folder.
    pub fn error_context(&self) -> String {
        let folder = self.catalog.as_ref().map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
        format!("the catalogue{folder} is invalid")
    }

    /// Returns the files of the catalogue.
    pub fn texts(&self) -> anyhow::Result<Files> {
        Ok(files::read_files(self.catalog.as_deref())?)
    }
}

/// The arguments that select a resource of the cluster.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The resource's name; default: the only one there is.
    pub name: Option<String>,
    /// Its namespace; default: all are searched.
    #[arg(long, short)]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// The same as options, for commands with other positional arguments.
#[derive(Args, Clone, Debug)]
pub struct ResourceOption {
    /// The resource's name in the cluster; default: the only one there is.
    #[arg(long)]
    pub name: Option<String>,
    /// Its namespace, unless the file names one; default: all are searched.
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
                // Without cluster-wide permissions, use the namespace that kubectl would use.
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

/// Returns the error for a release that the catalogue does not have.
pub fn unknown(catalog: &Catalog, release: &str) -> anyhow::Error {
    let known = catalog.services.values().flat_map(|service| service.releases.keys());
    let hint = did_you_mean(release, known.map(String::as_str));
    anyhow::anyhow!(
        "the catalogue has no release {release:?}{hint}; releases go by the catalogue's names, see `osdpl plan`"
    )
}

/// Returns the display name of a file.
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

/// Whether an error was caused by an unreadable file or folder.
pub fn is_read_error(error: &anyhow::Error) -> bool {
    let is_of_catalogue = |error: &files::Error| matches!(error, files::Error::Read { .. });
    error.chain().any(|error| error.is::<ReadError>() || error.downcast_ref().is_some_and(is_of_catalogue))
}

/// A file that can't be read; every command then exits with code 2.
#[derive(Debug, thiserror::Error)]
#[error("reading {place}: {why}")]
pub struct ReadError {
    place: String,
    /// The reason, and what to do.
    pub why: String,
}

impl ReadError {
    pub fn new(place: impl Display, error: &std::io::Error) -> Self {
        let why = match error.kind() {
            ErrorKind::NotFound => "there is no such file; name an existing one".to_owned(),
            ErrorKind::PermissionDenied => "permission denied; get permission to read it".to_owned(),
            ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
            ErrorKind::InvalidData => "it is not UTF-8 text; save it as UTF-8".to_owned(),
            _ => format!("{error}; name a readable one"),
        };
        Self { place: place.to_string(), why }
    }
}

/// Reads a file, or standard input for `-`, which can be read more than once.
#[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
pub fn read(path: &Path) -> Result<String, ReadError> {
    static INPUT: OnceLock<String> = OnceLock::new();
    if path != Path::new("-") {
        return std::fs::read_to_string(path).map_err(|error| ReadError::new(path.display(), &error));
    }
    if let Some(text) = INPUT.get() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| ReadError::new("standard input", &error))?;
    Ok(INPUT.get_or_init(|| text).clone())
}
