//! Reads an existing cloud without changing it: reads helm's release records, compares the charts in these records with
//! the charts that osdpl would install, and finds the releases that another tool, such as Flux, owns.

use std::collections::BTreeMap;

use crate::common::newest_records;
use osdpl_core::adopt::{IdentifiedReleases, InstalledRelease};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{RevisionOrigin, RevisionSource, Status};
use osdpl_operator::charts::{ChartRequest, Store};
use osdpl_operator::cluster::Reader;
use osdpl_operator::controller::chart_of_release;

/// The releases that helm has recorded, divided into those that the `OpenStackDeployment` written by `osdpl adopt` can
/// contain, and all others.
#[derive(Default)]
pub(crate) struct HelmReleases {
    /// The releases whose newest revision has helm's status `deployed`, and that osdpl does not manage yet.
    pub found: Vec<InstalledRelease>,
    /// The releases that the `OpenStackDeployment` written by `osdpl adopt` will not contain, each with the reason.
    pub others: BTreeMap<ReleaseKey, String>,
}

/// Reads the releases that helm has recorded in `namespace`, or in all namespaces if `namespace` is `None`.
pub(crate) async fn find_releases(cluster: &Reader, namespace: Option<&str>) -> anyhow::Result<HelmReleases> {
    let mut releases = HelmReleases::default();
    for meta in newest_records(cluster, namespace).await? {
        let key = meta.release.clone();
        let exclusion = match (&meta.origin, meta.status) {
            // `Inherited`: osdpl manages the release, but someone else made its newest revision by hand. osdpl still
            // manages the release, so the release needs no adoption.
            (RevisionOrigin::Ours(_) | RevisionOrigin::Inherited(_), _) => Some("already managed by osdpl".to_owned()),
            (_, Status::Deployed) => None,
            (_, status) => Some(format!("revision {} is {status}; repair it with helm first", meta.revision)),
        };
        if let Some(reason) = exclusion {
            releases.others.insert(key, reason);
            continue;
        }
        match cluster.recorded_source(&key, meta.revision.into()).await? {
            Ok((source, _)) => releases.found.push(InstalledRelease::new(key, meta.revision, source)),
            Err(problem) => drop(releases.others.insert(key, problem)),
        }
    }
    Ok(releases)
}

/// The difference between the chart in helm's record of a release and the chart that osdpl would install, or the reason
/// why osdpl can't compare the two charts. If both charts are equal, [`compare_chart`] returns no `ChartState`.
pub(crate) enum ChartState {
    /// The chart that osdpl would install differs from the recorded chart; the text says how.
    Other(String),
    /// The chart that osdpl would install can't be obtained or read; the text says why.
    Unknown(String),
}

/// Compares the chart that osdpl would install for each release with the recorded chart.
///
/// Returns the releases whose charts differ or can't be compared. The keys are the releases' names in the catalogue.
pub(crate) async fn differing_charts(
    store: &Store,
    known: &IdentifiedReleases<'_>,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
) -> BTreeMap<String, ChartState> {
    let mut states = BTreeMap::new();
    for (name, found) in &known.releases {
        let Some(request) = chart_of_release(store, spec, catalog, name) else { continue };
        if let Some(state) = compare_chart(store, &request, &found.source).await {
            states.insert(name.clone(), state);
        }
    }
    states
}

/// Compares the chart that osdpl would install with the recorded chart. Returns `None` if both charts are equal.
async fn compare_chart(store: &Store, request: &ChartRequest, source: &RevisionSource) -> Option<ChartState> {
    let recorded = &source.chart.version;
    let chart = match store.obtain(request).await {
        Ok(chart) => chart,
        Err(error) => return Some(ChartState::Unknown(format!("its chart can't be obtained: {error}"))),
    };
    match chart.fingerprint() {
        Ok(fingerprint) if chart.version == *recorded && fingerprint == source.fingerprint => None,
        Ok(_) if chart.version == *recorded => Some(ChartState::Other(format!(
            "its chart (the given chart also has version {recorded}, but other templates or defaults)"
        ))),
        Ok(_) => Some(ChartState::Other(format!("its chart from {recorded} to {}", chart.version))),
        Err(error) => Some(ChartState::Unknown(format!("its chart can't be read: {error}"))),
    }
}

/// Finds the releases that another tool, such as Flux, owns. A key of the result is a release's name in the catalogue,
/// and its value describes the tool.
pub(crate) async fn other_owners(
    cluster: &Reader,
    known: &IdentifiedReleases<'_>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut owners = BTreeMap::new();
    for (name, found) in &known.releases {
        if let Ok((_, objects)) = cluster.recorded_source(&found.key, found.revision.into()).await?
            && let Some(owner) = cluster.other_owner(&found.key, &objects).await?
        {
            owners.insert(name.clone(), owner);
        }
    }
    Ok(owners)
}
