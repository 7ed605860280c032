//! What runs: helm's records, charts at hand, and who else drives releases. Reads alone.

use std::collections::BTreeMap;

use osdpl_core::adopt::{Found, Known};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::observed::Key;
use osdpl_core::release::{Maker, Source, Status};
use osdpl_operator::charts::{Store, Wanted};
use osdpl_operator::cluster::Reader;
use osdpl_operator::controller::wanted;

/// What helm has recorded.
#[derive(Default)]
pub struct Look {
    /// The releases that are deployed and not ours.
    pub found: Vec<Found>,
    /// The others: what is said of each.
    pub others: BTreeMap<Key, String>,
}

pub async fn look(cluster: &Reader, namespace: Option<&str>) -> anyhow::Result<Look> {
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

/// How the chart that would be used stands to the recorded one.
pub enum ChartSaid {
    /// It is another: how.
    Other(String),
    /// It can't be had, or read: why.
    Unknown(String),
}

/// What is to be said of the charts that would be used, by the catalogue's name; nothing of one that is the recorded one.
pub async fn charts(
    store: &Store,
    known: &Known<'_>,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
) -> BTreeMap<String, ChartSaid> {
    let mut said = BTreeMap::new();
    for (name, found) in &known.releases {
        let Some((wanted, _)) = wanted(store, spec, catalog, name) else { continue };
        if let Some(one) = beside(store, &wanted, &found.source).await {
            said.insert(name.clone(), one);
        }
    }
    said
}

async fn beside(store: &Store, wanted: &Wanted, source: &Source) -> Option<ChartSaid> {
    let recorded = &source.chart.version;
    let chart = match store.obtain(wanted).await {
        Ok(chart) => chart,
        Err(error) => return Some(ChartSaid::Unknown(format!("its chart can't be had: {error}"))),
    };
    match chart.imprint() {
        Ok(imprint) if chart.version == *recorded && imprint == source.imprint => None,
        Ok(_) if chart.version == *recorded => Some(ChartSaid::Other(format!(
            "the chart at hand, which has other templates or defaults under the same version {recorded}"
        ))),
        Ok(_) => Some(ChartSaid::Other(format!("its chart from {recorded} to {}", chart.version))),
        Err(error) => Some(ChartSaid::Unknown(format!("its chart can't be read: {error}"))),
    }
}

/// Who else drives releases, by the catalogue's name.
pub async fn owners(cluster: &Reader, known: &Known<'_>) -> anyhow::Result<BTreeMap<String, String>> {
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
