//! Where the commands take their charts from: archives beside them where charts are at hand, else the repository.

#![allow(clippy::disallowed_methods, reason = "the command line reads the charts that its user names")]

use anyhow::Context as _;

use super::Cloud;
use super::folder::Folder;
use crate::manifests::obtain;
use crate::place::Place;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_operator::charts::Store;
use osdpl_operator::controller::wanted;
use osdpl_operator::helm::ChartReference;
use osdpl_operator::helm::pull::reference;

/// The folder of the archives.
const FOLDER: &str = "charts";

/// The charts of a cloud.
pub struct Charts<'a> {
    store: Store,
    /// Whether charts were named, so that they are at hand.
    are_here: bool,
    spec: &'a OpenStackDeploymentSpec,
    catalog: &'a Catalog,
}

/// The chart of one release, as a command takes it.
pub struct Taken {
    pub reference: ChartReference,
    /// Which one it is, for people.
    pub told: String,
    /// The manifests of its CRDs, as a file in the folder; what only a repository has is not known.
    pub crds: Option<String>,
}

impl<'a> Charts<'a> {
    pub async fn new(place: &Place, cloud: &'a Cloud) -> anyhow::Result<Self> {
        let are_here = place.source().is_some();
        let store = if are_here { place.open().await? } else { place.still()? };
        Ok(Self { store, are_here, spec: &cloud.spec, catalog: &cloud.catalog })
    }

    /// The chart of a release; where charts are at hand it is put into the folder, checked against the lock.
    pub async fn of(&self, name: &str, folder: &Folder) -> anyhow::Result<Taken> {
        let (wanted, digest) = wanted(&self.store, self.spec, self.catalog, name)
            .with_context(|| format!("the catalogue has no release {name}"))?;
        if !self.are_here {
            let request = self.store.request(&wanted)?;
            let request = request.with_context(|| format!("chart {} has no repository", wanted.name))?;
            let locked = self.store.lock().charts.get(&wanted.name).filter(|lock| lock.version == request.version);
            let locked = locked.and_then(|lock| lock.digest.as_ref()).map(ToString::to_string);
            let digest = digest.cloned().or(locked).map(|digest| format!(", {digest}")).unwrap_or_default();
            let told = format!("chart {} {} of {}{digest}", request.chart, request.version, request.repository);
            return Ok(Taken { reference: reference(&request), told, crds: None });
        }
        let chart = obtain(&self.store, &wanted, digest).await.with_context(|| format!("release {name}"))?;
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
        let told = format!("chart {} {}, {} ({})", chart.name, chart.version, chart.digest, chart.pin);
        let reference = ChartReference { name: format!("{FOLDER}/{archive}"), flags: Vec::new() };
        Ok(Taken { reference, told, crds })
    }
}
