//! What subcommands have in common: where the catalogue and the resource come from.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, bail};
use clap::Args;
use kube::api::{ListParams, ObjectList};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig};
use kube::{Api, Config, ResourceExt};

use super::unknown::unknown_fields;
use crate::api::OpenStackDeployment;
use crate::catalog::{Catalog, Files, did_you_mean};
use crate::files;
use crate::yaml::{self, Located};

/// Where the catalogue comes from.
#[derive(Args, Clone, Debug)]
pub struct CatalogOption {
    /// A folder with values/ and presets/ instead of the built-in catalogue.
    #[arg(long, env = "OSDPL_CATALOG", value_name = "DIR")]
    pub catalog: Option<PathBuf>,
}

impl CatalogOption {
    pub fn load(&self) -> anyhow::Result<Catalog> {
        files::catalog(self.catalog.as_deref()).context("the catalogue is wrong")
    }

    /// Its files as they are.
    pub fn texts(&self) -> anyhow::Result<Files> {
        Ok(files::texts(self.catalog.as_deref())?)
    }
}

/// Which cluster is meant; kubectl hands its own options to no plugin.
#[derive(Args, Clone, Debug)]
pub struct ClusterOption {
    /// The kubeconfig file; KUBECONFIG and ~/.kube/config as kubectl does where unset.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it; the current one where unset.
    #[arg(long)]
    context: Option<String>,
}

impl ClusterOption {
    /// Whether a cluster was named, by an option or by KUBECONFIG.
    pub fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || std::env::var_os("KUBECONFIG").is_some()
    }

    /// A client for the cluster that kubectl would speak to.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => match Kubeconfig::read_from(file) {
                Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
                Err(error) => Err(error),
            },
            (None, Some(_)) => Config::from_kubeconfig(&options).await,
            (None, None) => {
                return kube::Client::try_from(Config::infer().await.map_err(unconfigured)?).map_err(readable);
            }
        };
        let config = config.map_err(|error| anyhow::anyhow!("no cluster to speak to: {error}"))?;
        kube::Client::try_from(config).map_err(readable)
    }
}

/// What is said where no configuration is found: of the two places that are looked in, the one that people write.
#[allow(clippy::needless_pass_by_value, reason = "as map_err hands it on")]
fn unconfigured(error: InferConfigError) -> anyhow::Error {
    let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    anyhow::anyhow!("no cluster to speak to: {why}; set KUBECONFIG, or name a file with --kubeconfig")
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

/// The API server's own words, where there are some.
pub fn readable(error: kube::Error) -> anyhow::Error {
    match error {
        // What the API server says of a kind that it has never heard of.
        kube::Error::Api(status) if status.message.trim() == "404 page not found" => anyhow::anyhow!(
            "the cluster does not know this kind (404 page not found); install the operator's chart, or its definitions alone: osdpl crd | kubectl apply --server-side -f -"
        ),
        kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
        other => other.into(),
    }
}

/// What is said of a release that the catalogue does not have.
pub fn unknown(catalog: &Catalog, release: &str) -> anyhow::Error {
    let known = catalog.services.values().flat_map(|service| service.releases.keys());
    let hint = did_you_mean(release, known.map(String::as_str));
    anyhow::anyhow!(
        "the catalogue has no release {release:?}{hint}; releases go by the catalogue's names, see `osdpl plan`"
    )
}

/// A file, or standard input for `-`, which can be asked for more than once.
#[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
pub fn read(path: &Path) -> anyhow::Result<String> {
    static INPUT: OnceLock<String> = OnceLock::new();
    if path != Path::new("-") {
        return std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    }
    if let Some(text) = INPUT.get() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
    Ok(INPUT.get_or_init(|| text).clone())
}

/// The document of a file that holds a resource.
pub struct Document {
    /// The file, for people.
    place: String,
    text: String,
    /// The lines of the file before it.
    before: u64,
}

impl Document {
    /// The resource in a file, or on standard input for `-`; of several none, for one of them would be left out in silence.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = read(path)?;
        let place = path.display().to_string();
        let resources = text.lines().filter(|line| line.trim_end() == "kind: OpenStackDeployment").count();
        if resources > 1 {
            bail!(
                "{place} holds {resources} OpenStackDeployments, and one is judged at a time: give each a file of its own"
            );
        }
        let documents =
            text.split("\n---").filter(|document| document.lines().any(|line| line.contains("OpenStackDeployment")));
        let document = documents.into_iter().next().with_context(|| format!("{place} holds no OpenStackDeployment"))?;
        let before = text.find(document).map_or(0, |at| text[..at].matches('\n').count());
        let text = document.trim_start_matches('-').to_owned();
        Ok(Self { place, text, before: before.try_into()? })
    }

    /// The resource.
    pub fn deployment(&self) -> anyhow::Result<OpenStackDeployment> {
        let unknown = unknown_fields(&self.place, &self.text, self.before)?;
        if !unknown.is_empty() {
            bail!("{}", unknown.join("\n"));
        }
        let mut deployment: OpenStackDeployment = yaml::parse(&self.place, &self.text)?;
        deployment.metadata.namespace.get_or_insert_with(|| "openstack".into());
        deployment.metadata.name.get_or_insert_with(|| "cloud".into());
        Ok(deployment)
    }

    /// Where a field stands, or what is nearest above it: `cloud.yaml:12`.
    pub fn line<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> anyhow::Result<String> {
        let located: Located = yaml::parse(&self.place, &self.text)?;
        Ok(format!("{}:{}", self.place, located.nearest(keys).line() + self.before))
    }
}

/// The resource in a file, or on standard input for `-`; the first one where the file has several documents.
pub fn read_deployment(path: &Path) -> anyhow::Result<OpenStackDeployment> {
    Document::read(path)?.deployment()
}
