//! Defines command line options that several subcommands share: those that select the catalogue, and those that select
//! the `OpenStackDeployment`. Reads objects of the cluster for several subcommands.

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use kube::api::{ListParams, ObjectList};
use kube::{Api, ResourceExt};

use super::connect::{ClusterOption, readable};
use osdpl_client::Stored;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, Files, did_you_mean};
use osdpl_core::files;
use osdpl_core::release::RecordMeta;
use osdpl_operator::cluster::Reader;

/// The option that selects the catalogue.
#[derive(Args, Clone, Debug)]
pub(crate) struct CatalogOption {
    /// A folder with values/ and presets/, which osdpl uses instead of the built-in catalogue.
    #[arg(long, env = "OSDPL_CATALOG", value_name = "DIR", value_parser = folder)]
    pub catalog: Option<PathBuf>,
}

fn folder(name: &str) -> Result<PathBuf, String> {
    if name.is_empty() {
        return Err(
            "the folder name is empty in this option or in the variable OSDPL_CATALOG; name one, or unset the variable"
                .into(),
        );
    }
    Ok(name.into())
}

impl CatalogOption {
    /// Loads the catalogue without the additions that `spec.catalog` of an `OpenStackDeployment` can name.
    pub(crate) fn load(&self) -> anyhow::Result<Catalog> {
        files::load_catalog(self.catalog.as_deref()).with_context(|| self.error_context())
    }

    /// Returns the text that precedes an error about the catalogue, such as `the catalogue in DIR is invalid`. It names
    /// the catalogue's folder, because the file names in the error are relative to this folder.
    pub(crate) fn error_context(&self) -> String {
        let folder = self.catalog.as_ref().map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
        format!("the catalogue{folder} is invalid")
    }

    /// Returns the text of each file of the catalogue.
    pub(crate) fn texts(&self) -> anyhow::Result<Files> {
        Ok(files::read_files(self.catalog.as_deref())?)
    }
}

/// The arguments that select an `OpenStackDeployment` of the cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The resource's name; default: the only resource in the cluster.
    pub name: Option<String>,
    /// The resource's namespace; default: osdpl searches all namespaces.
    #[arg(long, short)]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// The options that select an `OpenStackDeployment` of the cluster. In `Target`, the name is a positional argument.
/// Here, the name is an option, for commands that have other positional arguments.
#[derive(Args, Clone, Debug)]
pub(crate) struct ResourceOption {
    /// The resource's name in the cluster; default: the only resource in the cluster.
    #[arg(long)]
    pub name: Option<String>,
    /// The resource's namespace. Default: osdpl searches all namespaces. If the resource comes from a file, the default
    /// is the namespace in the file, or else `openstack`.
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
    /// Finds the `OpenStackDeployment` in the cluster that the arguments select.
    ///
    /// # Errors
    /// Returns an error if no resource, or more than one, has the requested name and namespace, or if osdpl can't read
    /// the found resource. An unreadable resource of another name is no error.
    pub(crate) async fn find(&self, client: &kube::Client) -> anyhow::Result<OpenStackDeployment> {
        let all = match &self.namespace {
            Some(namespace) => list(Api::namespaced(client.clone(), namespace)).await,
            None => match list(Api::all(client.clone())).await {
                // If the user lacks the right to list resources in all namespaces, search only the namespace that
                // kubectl would use.
                Err(kube::Error::Api(status)) if status.is_forbidden() => {
                    list(Api::default_namespaced(client.clone())).await
                }
                all => all,
            },
        };
        let all = all.map_err(readable).context("reading OpenStackDeployments")?;
        let has_name = |stored: &StoredDeployment| self.name.as_ref().is_none_or(|name| *name == stored.name_any());
        let mut found: Vec<_> = all.items.into_iter().filter(has_name).collect();
        match (found.len(), found.pop()) {
            (1, Some(stored)) => content(stored),
            (0, _) => {
                bail!(
                    "there is no matching OpenStackDeployment; create one, or use a name and namespace that `kubectl get osdpl -A` lists"
                )
            }
            _ => bail!("there are several OpenStackDeployments; name one of those that `kubectl get osdpl -A` lists"),
        }
    }
}

/// An `OpenStackDeployment` from the cluster; only its metadata if osdpl can't read the rest.
pub(crate) type StoredDeployment = Stored<OpenStackDeployment>;

async fn list(api: Api<StoredDeployment>) -> kube::Result<ObjectList<StoredDeployment>> {
    api.list(&ListParams::default()).await
}

/// Returns the `OpenStackDeployment` if osdpl can read all of it, not only its metadata.
///
/// # Errors
/// Returns an error with the reason and the remedy if osdpl can't read the resource.
pub(crate) fn content(stored: StoredDeployment) -> anyhow::Result<OpenStackDeployment> {
    let (namespace, name) = (stored.namespace().unwrap_or_default(), stored.name_any());
    stored.into_content().map_err(|why| anyhow!("osdpl can't read OpenStackDeployment {namespace}/{name}: {why}"))
}

/// Returns the error for a release name that no service of the catalogue has.
pub(crate) fn unknown_release(catalog: &Catalog, release: &str) -> anyhow::Error {
    let known = catalog.services.values().flat_map(|service| service.releases.keys());
    let hint = did_you_mean(release, known.map(String::as_str));
    anyhow!("the catalogue has no release {release:?}{hint}; use the catalogue's names, which `osdpl plan` lists")
}

/// Returns helm's newest record of each release: in one namespace, or in all if `namespace` is `None`. Skips malformed
/// records, and prints a warning about each of them.
pub(crate) async fn newest_records(cluster: &Reader, namespace: Option<&str>) -> anyhow::Result<Vec<RecordMeta>> {
    let (newest, malformed) = cluster.newest_records(namespace).await?;
    for problem in malformed {
        eprintln!("warning: osdpl skips a release record: {problem}");
    }
    Ok(newest)
}
