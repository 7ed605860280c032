//! What runs: helm's records, charts at hand, and who else drives releases. Reads alone.

use std::collections::BTreeMap;

use crate::adopt::{Found, Known};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::charts::{Store, Wanted};
use crate::cluster::Cluster;
use crate::observed::Key;
use crate::release::{Maker, Status};

/// What helm has recorded.
#[derive(Default)]
pub struct Look {
    /// The releases that are deployed and not ours.
    pub found: Vec<Found>,
    /// The others: what is said of each.
    pub others: BTreeMap<Key, String>,
}

pub async fn look(cluster: &Cluster, namespace: Option<&str>) -> anyhow::Result<Look> {
    let mut look = Look::default();
    for meta in cluster.newest_records(namespace).await? {
        let key = meta.release.clone();
        let other = match (&meta.maker, meta.status) {
            (Maker::Ours(_), _) => Some("made or taken over by osdpl already".to_owned()),
            (_, Status::Deployed) => None,
            (_, status) => {
                Some(format!("revision {} is {status}: bring it to deployed with helm first", meta.revision))
            }
        };
        if let Some(other) = other {
            look.others.insert(key, other);
            continue;
        }
        match cluster.recorded_source(&key, meta.revision.into()).await? {
            Ok((source, _)) => look.found.push(Found::new(key, meta.revision, source)),
            Err(problem) => drop(look.others.insert(key, problem)),
        }
    }
    Ok(look)
}

/// How the chart that would be used differs from the recorded one, or why it can't be had, by the catalogue's name.
pub async fn charts(
    store: &Store,
    known: &Known<'_>,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    for (name, found) in &known.releases {
        let Some((service, release)) = catalog.release(name) else { continue };
        let version = spec.services.get(service).and_then(|own| own.releases.get(name)?.version.clone());
        let wanted = Wanted { name: release.chart.clone(), version, repository: None };
        let chart = match store.obtain(&wanted).await {
            Ok(chart) => chart,
            Err(error) => {
                said.insert(name.clone(), format!("its chart can't be had: {error}"));
                continue;
            }
        };
        let recorded = &found.source.chart.version;
        match chart.imprint() {
            Ok(imprint) if chart.version == *recorded && imprint == found.source.imprint => {}
            Ok(_) if chart.version == *recorded => drop(said.insert(
                name.clone(),
                format!("the chart at hand has other templates or defaults under the same version {recorded}"),
            )),
            Ok(_) => drop(said.insert(name.clone(), format!("its chart from {recorded} to {}", chart.version))),
            Err(error) => drop(said.insert(name.clone(), format!("its chart can't be read: {error}"))),
        }
    }
    said
}

/// Who else drives releases, by the catalogue's name.
pub async fn owners(cluster: &Cluster, known: &Known<'_>) -> anyhow::Result<BTreeMap<String, String>> {
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
