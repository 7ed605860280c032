//! Prepares the charts for the helm commands in install.sh. Copies the charts that the user named with `--charts`;
//! without this option, the commands refer to a repository.

#![allow(clippy::disallowed_methods, reason = "the user names the charts on the command line")]

use anyhow::Context as _;

use super::Cloud;
use super::folder::Folder;
use crate::chart_options::ChartOptions;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_operator::charts::Store;
use osdpl_operator::controller::chart_of_release;
use osdpl_operator::helm::ChartReference;
use osdpl_operator::helm::pull::reference;

/// The subfolder of the output folder that contains the copied charts.
const FOLDER: &str = "charts";

/// The source of the charts that install.sh installs.
pub(crate) struct Charts<'a> {
    store: Store,
    /// Whether the user named charts with `--charts`. If so, osdpl copies these charts to the output folder. Otherwise,
    /// install.sh names a repository.
    is_local: bool,
    spec: &'a OpenStackDeploymentSpec,
    catalog: &'a Catalog,
}

/// The chart of one release, as install.sh uses it.
pub(crate) struct PreparedChart {
    pub reference: ChartReference,
    /// The version, digest and origin of the chart, for a comment in install.sh.
    pub description: String,
    /// The file with the CRDs of a copied chart, relative to the output folder; `None` if the chart has no CRDs or
    /// comes from a repository.
    pub crds: Option<String>,
}

impl<'a> Charts<'a> {
    /// Opens the chart store with the charts that the user selected.
    pub(crate) async fn new(options: &ChartOptions, cloud: &'a Cloud) -> anyhow::Result<Self> {
        let is_local = options.source().is_some();
        let store = if is_local { options.open().await? } else { options.open_without_pull()? };
        Ok(Self { store, is_local, spec: &cloud.spec, catalog: &cloud.catalog })
    }

    /// Returns the chart of a release. If the user named charts with `--charts`, checks the chart against the lock, and
    /// copies it into the output folder.
    pub(crate) async fn of(&self, name: &str, folder: &Folder) -> anyhow::Result<PreparedChart> {
        let request = chart_of_release(&self.store, self.spec, self.catalog, name)
            .with_context(|| format!("the catalogue has no release {name}"))?;
        if !self.is_local {
            let pull = self.store.pull_request_for(&request)?;
            let pull = pull.with_context(|| format!("chart {} has no repository", request.name))?;
            let locked = self.store.lock().charts.get(&request.name).filter(|lock| lock.version == pull.version);
            let locked = locked.and_then(|lock| lock.digest.as_ref()).map(ToString::to_string);
            let requested = request.digest.clone().map(|expected| expected.digest);
            let digest = requested.or(locked).map(|digest| format!(", {digest}")).unwrap_or_default();
            let description = format!("chart {} {} of {}{digest}", pull.chart, pull.version, pull.repository);
            return Ok(PreparedChart { reference: reference(&pull), description, crds: None });
        }
        let chart = self.store.obtain(&request).await.with_context(|| format!("release {name}"))?;
        let archive = format!("{}-{}.tgz", chart.name, chart.version);
        let content = std::fs::read(&chart.path).with_context(|| format!("reading {}", chart.path.display()))?;
        let charts = folder.below(FOLDER)?;
        charts.write(&archive, &content, false)?;
        let crds = chart.crds()?;
        let crds = if crds.is_empty() {
            None
        } else {
            let file = format!("{}-{}-crds.yaml", chart.name, chart.version);
            charts.write(&file, crds.join("\n---\n").as_bytes(), false)?;
            Some(format!("{FOLDER}/{file}"))
        };
        let description = format!("chart {} {}, {} ({})", chart.name, chart.version, chart.digest, chart.pin);
        let reference = ChartReference { name: format!("{FOLDER}/{archive}"), flags: Vec::new() };
        Ok(PreparedChart { reference, description, crds })
    }
}
