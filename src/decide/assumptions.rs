//! Adjusts the desired state for `osdpl plan`, which cannot get all data that the operator has. `osdpl plan` assumes
//! that the missing data has not changed since the newest record of the release.

use super::draft::Draft;
use super::plan::RecordedValues;
use super::requests::{Read, Response};
use super::snapshot::Assumed;
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{Observed, ObservedRelease};
use osdpl_values::{Path, Values, get, set};

/// Replaces the data about releases that `osdpl plan` lacks with the data in the newest record of each release.
///
/// Returns the values in the newest record of each release whose inputs change, so that `osdpl plan` can show which
/// values change.
pub(crate) fn adjust(
    draft: &mut Draft<'_>,
    assumed: &Assumed,
    desired: &mut Desired,
    observed: &Observed,
) -> RecordedValues {
    let mut recorded = RecordedValues::new();
    for (name, release) in &desired.releases {
        let is_same = |existing: &&ObservedRelease| existing.inputs.as_deref() == Some(release.inputs.as_str());
        let Some(existing) = ours(release, observed).filter(|existing| !is_same(existing)) else { continue };
        let read = Read::Values { release: release.key.clone(), revision: existing.revision, required: true };
        if let Some(Response::Values(values)) = draft.read(read).map(|received| &received.response) {
            recorded.insert(name.clone(), values.clone());
        }
    }
    assume_inputs(assumed, desired, observed, &mut recorded);
    if !assumed.has_charts {
        assume_images(desired, observed, &recorded);
    }
    recorded
}

/// Returns the observed release if its newest record has osdpl's labels and can be decoded.
fn ours<'a>(release: &DesiredRelease, observed: &'a Observed) -> Option<&'a ObservedRelease> {
    observed.releases.get(&release.key).filter(|existing| existing.attempt.is_some() && existing.undecodable.is_none())
}

/// Treats a release for which data is missing as unchanged if the values in its newest record equal the desired values,
/// or if someone else made its newest revision.
///
/// If osdpl made the newest revision and the values differ, `osdpl plan` shows that the release changes.
fn assume_inputs(assumed: &Assumed, desired: &mut Desired, observed: &Observed, recorded: &mut RecordedValues) {
    for name in &assumed.guessed {
        let Some(release) = desired.releases.get_mut(name) else { continue };
        let (Some(existing), Some(Ok(values))) = (ours(release, observed), recorded.get(name)) else { continue };
        keep_tags(&mut release.values, values);
        // If someone else made the newest revision, the operator keeps that revision until the spec changes.
        // `osdpl plan` lacks the data to decide whether the spec has changed. So assume that the spec has not changed:
        // take the inputs of the newest revision that osdpl itself made.
        if existing.attempt.as_ref().is_some_and(|attempt| attempt.revision != existing.revision) {
            release.inputs = existing.own_inputs.clone().unwrap_or_default();
        } else if release.values == **values
            && let Some(inputs) = &existing.inputs
        {
            release.inputs.clone_from(inputs);
            recorded.remove(name);
        }
        release.chart_identity.clone_from(&existing.chart);
        if let Some(catalog) = &existing.catalog {
            release.catalog.clone_from(catalog);
        }
    }
}

/// Treats the images of a release as unchanged if its desired values and the values in its newest record name the same
/// images.
///
/// The charts may name more images. `osdpl plan` has not read the charts, so it can't compare these images.
fn assume_images(desired: &mut Desired, observed: &Observed, recorded: &RecordedValues) {
    let tags: Path = ["images", "tags"].into_iter().collect();
    for (name, release) in &mut desired.releases {
        let (Some(existing), Some(Ok(values))) = (ours(release, observed), recorded.get(name)) else { continue };
        if get(&release.values, &tags) == get(values, &tags) {
            release.images = existing.images.clone().unwrap_or_default();
        }
    }
}

/// Adds the images in `recorded`, the values in the release's record, to the desired values `values`. Skips each image
/// whose key `values` already contains.
///
/// If the spec uses a mirror, the operator reads the names of images from the chart, rewrites them to the mirror, and
/// adds them to the values. `osdpl plan` may not have the chart, so it takes these images from the record.
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
