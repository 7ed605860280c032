//! What helm recorded beside what is wanted: the changed values, and the benefit of the doubt where a digest can't be known.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Cluster, Error};
use osdpl_core::api::{ComponentHealth, OpenStackDeployment};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::endpoint;
use osdpl_core::observed::{EndpointProbe, Observed, ObservedRelease, ReleaseKey};
use osdpl_values::{Path, Values, get, set};

/// The newest recorded values of the releases that are not up to date, once every benefit of the doubt was given; `has_charts` is whether charts
/// were read, so that images are known.
pub async fn settled(
    cluster: &Cluster,
    desired: &mut Desired,
    observed: &Observed,
    guessed: &BTreeSet<String>,
    has_charts: bool,
) -> Result<BTreeMap<String, Result<Values, String>>, Error> {
    let mut recorded = recorded(cluster, desired, observed).await?;
    up_to_date(desired, observed, &mut recorded, guessed);
    if !has_charts {
        same_images(desired, observed, &recorded);
    }
    Ok(recorded)
}

/// The newest recorded values of every release of ours whose digest is not the wanted one.
async fn recorded(
    cluster: &Cluster,
    desired: &Desired,
    observed: &Observed,
) -> Result<BTreeMap<String, Result<Values, String>>, Error> {
    let mut all = BTreeMap::new();
    for (name, release) in &desired.releases {
        let Some(seen) = ours(release, observed).filter(|seen| !is_same(release, seen)) else { continue };
        all.insert(name.clone(), cluster.recorded_values(&release.key, seen.revision).await?);
    }
    Ok(all)
}

fn ours<'a>(release: &DesiredRelease, observed: &'a Observed) -> Option<&'a ObservedRelease> {
    observed.releases.get(&release.key).filter(|seen| seen.attempt.is_some() && seen.undecodable.is_none())
}

fn is_same(release: &DesiredRelease, seen: &ObservedRelease) -> bool {
    seen.inputs.as_deref() == Some(release.inputs.as_str())
}

/// Takes releases of which something stays a guess for up to date when their recorded values are the wanted ones, and for changed by the
/// spec otherwise: whatever can't be known is taken to be as it was.
fn up_to_date(
    desired: &mut Desired,
    observed: &Observed,
    recorded: &mut BTreeMap<String, Result<Values, String>>,
    guessed: &BTreeSet<String>,
) {
    for name in guessed {
        let Some(release) = desired.releases.get_mut(name) else { continue };
        let (Some(seen), Some(Ok(values))) = (ours(release, observed), recorded.get(name)) else { continue };
        keep_tags(&mut release.values, values);
        // Someone else's revision stays until the spec changes, and whether it did only the digest of our own last one would tell.
        if seen.attempt.as_ref().is_some_and(|attempt| attempt.revision != seen.revision) {
            release.inputs = seen.own_inputs.clone().unwrap_or_default();
        } else if release.values == *values
            && let Some(inputs) = &seen.inputs
        {
            release.inputs.clone_from(inputs);
            recorded.remove(name);
        }
        if let Some(catalog) = &seen.catalog {
            release.catalog.clone_from(catalog);
        }
    }
}

/// Takes the images for those of the newest revision where the values name the same ones: what the charts name themselves is not at hand.
fn same_images(desired: &mut Desired, observed: &Observed, recorded: &BTreeMap<String, Result<Values, String>>) {
    let tags: Path = ["images", "tags"].into_iter().collect();
    for (name, release) in &mut desired.releases {
        let (Some(seen), Some(Ok(values))) = (ours(release, observed), recorded.get(name)) else { continue };
        if get(&release.values, &tags) == get(values, &tags) {
            release.images = seen.images.clone().unwrap_or_default();
        }
    }
}

/// Images that only the chart names are mirrored by the operator, which has the chart.
fn keep_tags(values: &mut Values, recorded: &Values) {
    let tags: Path = ["images", "tags"].into_iter().collect();
    let recorded = get(recorded, &tags).and_then(|tags| tags.as_object());
    for (tag, image) in recorded.into_iter().flatten() {
        let path = tags.child(tag);
        if get(values, &path).is_none() {
            set(values, &path, image.clone());
        }
    }
}

/// What the APIs of services answer, by the operator's word in the status: nobody else is in the cluster's network.
pub fn answered(
    catalog: &Catalog,
    live: Option<&OpenStackDeployment>,
    releases: &BTreeMap<String, ReleaseKey>,
) -> BTreeMap<ReleaseKey, EndpointProbe> {
    let health = live.and_then(|live| live.status.as_ref()).map(|status| &status.health);
    let seen = releases.iter().filter_map(|(name, key)| {
        let asked = catalog.release(name)?.1.endpoint.as_ref()?;
        let application = asked.component.application.clone();
        let said = health?.get(&application)?.get(endpoint::COMPONENT)?;
        let trouble = (said.status != ComponentHealth::Ready).then(|| said.reason.clone());
        Some((key.clone(), EndpointProbe { application, service: asked.service.clone(), trouble }))
    });
    seen.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::keep_tags;

    #[test]
    fn images_that_only_the_chart_names_are_taken_to_be_as_they_are() {
        let tree = |value: Value| value.as_object().cloned().unwrap();
        let mut values = tree(json!({"images": {"tags": {"api": "mirror/api:2"}}}));
        keep_tags(&mut values, &tree(json!({"images": {"tags": {"api": "mirror/api:1", "test": "mirror/test:1"}}})));
        assert_eq!(values, tree(json!({"images": {"tags": {"api": "mirror/api:2", "test": "mirror/test:1"}}})));
    }
}
