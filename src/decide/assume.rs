//! Assumptions where the decision is made beside the operator: releases of which something is not known are taken to be as they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::Draft;
use super::requests::{Answer, Read};
use super::snapshot::Assumed;
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{Observed, ObservedRelease};
use osdpl_values::{Path, Values, get, set};

/// Recorded values by release, or why they can't be read.
pub type RecordedValues = BTreeMap<String, Result<Arc<Values>, String>>;

/// Adjusts the desired state; returns the recorded values of releases that are not up to date.
pub fn adjust(draft: &mut Draft<'_>, assumed: &Assumed, desired: &mut Desired, observed: &Observed) -> RecordedValues {
    let mut recorded = RecordedValues::new();
    for (name, release) in &desired.releases {
        let is_same = |seen: &&ObservedRelease| seen.inputs.as_deref() == Some(release.inputs.as_str());
        let Some(seen) = ours(release, observed).filter(|seen| !is_same(seen)) else { continue };
        let read = Read::Values { release: release.key.clone(), revision: seen.revision, required: true };
        if let Some(Answer::Values(values)) = draft.read(read).map(|answered| &answered.answer) {
            recorded.insert(name.clone(), values.clone());
        }
    }
    up_to_date(assumed, desired, observed, &mut recorded);
    if !assumed.has_charts {
        same_images(desired, observed, &recorded);
    }
    recorded
}

fn ours<'a>(release: &DesiredRelease, observed: &'a Observed) -> Option<&'a ObservedRelease> {
    observed.releases.get(&release.key).filter(|seen| seen.attempt.is_some() && seen.undecodable.is_none())
}

/// Takes releases of which something is guessed for up to date when their recorded values are the desired ones, and for changed by the spec
/// otherwise.
fn up_to_date(assumed: &Assumed, desired: &mut Desired, observed: &Observed, recorded: &mut RecordedValues) {
    for name in &assumed.guessed {
        let Some(release) = desired.releases.get_mut(name) else { continue };
        let (Some(seen), Some(Ok(values))) = (ours(release, observed), recorded.get(name)) else { continue };
        keep_tags(&mut release.values, values);
        // Someone else's revision stays until the spec changes. Only the digest of our own last one tells whether it did.
        if seen.attempt.as_ref().is_some_and(|attempt| attempt.revision != seen.revision) {
            release.inputs = seen.own_inputs.clone().unwrap_or_default();
        } else if release.values == **values
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

/// Takes the images for those of the newest revision where the values name the same ones: the charts, which name others, are not at hand.
fn same_images(desired: &mut Desired, observed: &Observed, recorded: &RecordedValues) {
    let tags: Path = ["images", "tags"].into_iter().collect();
    for (name, release) in &mut desired.releases {
        let (Some(seen), Some(Ok(values))) = (ours(release, observed), recorded.get(name)) else { continue };
        if get(&release.values, &tags) == get(values, &tags) {
            release.images = seen.images.clone().unwrap_or_default();
        }
    }
}

/// Keeps the recorded images that only the chart names: the operator mirrors them, and has the chart.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::keep_tags;

    #[test]
    fn keeps_images_that_only_the_chart_names() {
        let tree = |value: Value| value.as_object().cloned().unwrap();
        let mut values = tree(json!({"images": {"tags": {"api": "mirror/api:2"}}}));
        keep_tags(&mut values, &tree(json!({"images": {"tags": {"api": "mirror/api:1", "test": "mirror/test:1"}}})));
        assert_eq!(values, tree(json!({"images": {"tags": {"api": "mirror/api:2", "test": "mirror/test:1"}}})));
    }
}
