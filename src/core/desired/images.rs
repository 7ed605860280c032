//! `spec.images`: applies registry mirrors, digests and the pull policy to the container images in the values of charts
//! and of the catalogue.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{ChartInfo, Desired, DesiredRelease, Facts, Finding};
use crate::api::{Images, reason};
use crate::catalog::{Level, Release, did_you_mean};
use osdpl_values::{self as values, CollectSorted, Layer, Origin, Path, Values, canonical, get, merge_layers};

/// Returns the layer of values that sets the container images and the pull policy as `spec.images` requests; `None` if
/// `spec.images` changes neither. The images come from the chart's defaults and from `below`, the layers that this
/// layer overrides.
pub(super) fn layer(images: &Images, below: &[Layer], chart: Option<&ChartInfo>) -> Option<Layer> {
    let mut values = Values::new();
    if let Some(policy) = &images.pull_policy {
        values.insert("images".into(), json!({ "pull_policy": policy }));
    }
    if images.rewrites() {
        let tags: Map<String, Value> = tags(below, chart)
            .into_iter()
            .filter_map(|(tag, image)| Some((tag, Value::from(rewritten(images, &image)?))))
            .collect();
        if !tags.is_empty() {
            let slot = values.entry("images").or_insert_with(|| json!({}));
            slot["tags"] = Value::Object(tags);
        }
    }
    (!values.is_empty()).then(|| Layer::new(Origin::Field("spec.images".into()), values))
}

/// Returns the names of the release's images before `spec.images` changes them: the chart's defaults, overridden by the
/// layers `below`. The map's key is the image's key below `images.tags`.
fn tags(below: &[Layer], chart: Option<&ChartInfo>) -> BTreeMap<String, String> {
    let mut tags = chart.map(|chart| chart.images.clone()).unwrap_or_default();
    let path: Path = ["images", "tags"].into_iter().collect();
    if let Some(Value::Object(set)) = get(&merge_layers(below), &path) {
        tags.extend(set.iter().filter_map(|(tag, image)| Some((tag.clone(), image.as_str()?.to_owned()))));
    }
    tags
}

/// Returns a digest of the names of all images that a release uses: the chart's defaults, overridden by the merged
/// values. If the digest changes, the release's pods and Jobs run other images.
pub(super) fn digest(values: &Values, chart: Option<&ChartInfo>) -> String {
    let mut tags: BTreeMap<&str, Value> = BTreeMap::new();
    tags.extend(chart.iter().flat_map(|chart| &chart.images).map(|(tag, image)| (tag.as_str(), image.as_str().into())));
    if let Some(Value::Object(set)) = get(values, &["images", "tags"].into_iter().collect()) {
        tags.extend(set.iter().map(|(tag, image)| (tag.as_str(), image.clone())));
    }
    // A null in the values removes the chart's default image, so leave out the null.
    tags.retain(|_, image| !image.is_null());
    let mut text = values::digest([canonical(&json!(tags)).as_str()]);
    text.truncate(16);
    text
}

/// Returns the images in the release's list `floatingImages` that no digest pins: maps the name that pods use to the
/// field or value in which a user can pin the image. Returns `None` if the images of the chart are not known yet.
pub(super) fn floating(
    images: &Images,
    release: &Release,
    name: &str,
    values: &Values,
    chart: Option<&ChartInfo>,
) -> Option<BTreeMap<String, String>> {
    let chart = chart.filter(|chart| has_images(chart))?;
    let of = |key: &String| {
        let path: Path = ["images", "tags", key].into_iter().collect();
        let default = chart.images.get(key);
        let used = get(values, &path).and_then(Value::as_str).or(default.map(String::as_str))?;
        let own = |image: &&String| mirrored(&images.mirrors, image).as_ref().unwrap_or(image) == used;
        // `spec.images.digests` does not apply to an image that the user's values set.
        let field = default.filter(own).map_or_else(
            || format!("the value {path} of release {name}"),
            |image| format!("spec.images.digests[{image}]"),
        );
        (!used.contains('@')).then(|| (used.to_owned(), field))
    };
    Some(release.floating_images.iter().filter_map(of).collect_map())
}

/// Returns an image's name with the mirror and the digest that `spec.images` sets for it; `None` if `spec.images` sets
/// neither of the two.
///
/// If there is a digest, the name also keeps its tag, so that people see the version. Container runtimes ignore the
/// tag.
fn rewritten(images: &Images, image: &str) -> Option<String> {
    let mirrored = mirrored(&images.mirrors, image);
    match images.digests.get(image) {
        Some(digest) => Some(format!("{}@{digest}", mirrored.as_deref().unwrap_or(image))),
        None => mirrored,
    }
}

/// Returns a warning for each key of `spec.images.digests` that can't be the name of an image with a path or a tag (see
/// [`is_image`]).
pub(super) fn check_names(images: &Images) -> Vec<Finding> {
    let finding = |image: &String| {
        Finding::new(
            Level::Warning,
            format!("spec.images.digests[{image}]"),
            format!(
                "has no effect: {image:?} is not an image name as charts use it; write it with its registry and tag, such as quay.io/airshipit/nova:2026.1-ubuntu_noble, or remove the entry"
            ),
        )
    };
    images.digests.keys().filter(|image| !is_image(image)).map(finding).collect()
}

/// Whether a string can be the name of an image with a path or a tag, by the grammar of the OCI distribution
/// specification.
fn is_image(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    text.contains(['/', ':']) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed)
}

/// Returns a warning for each entry of `spec.images.digests` that names an image which no release uses. Returns no
/// warnings until osdpl knows the images of all releases.
pub(super) fn unused_digests(images: &Images, desired: &Desired, facts: &Facts) -> Vec<Finding> {
    // If the chart of a release or the data for its values is not available yet, osdpl does not know the release's
    // images. `spec.images.digests` could name one of these images, so do not warn yet.
    let known = |name: &String| facts.charts.get(name).and_then(|chart| chart.as_ref().ok()).is_some_and(has_images);
    let lacks_values =
        |release: &DesiredRelease| release.blocked.as_ref().is_some_and(|why| why.reason == reason::INPUTS);
    if images.digests.is_empty() || !desired.releases.keys().all(known) || desired.releases.values().any(lacks_values) {
        return Vec::new();
    }
    let path: Path = ["images", "tags"].into_iter().collect();
    let tags = desired.releases.values().filter_map(|release| get(&release.values, &path)?.as_object());
    let used: BTreeSet<&str> = tags.flat_map(|tags| tags.values().filter_map(Value::as_str)).collect_set();
    let charts: Vec<&ChartInfo> = facts.charts.values().filter_map(|chart| chart.as_ref().ok()).collect();
    let near = |image: &str| {
        let named = charts.iter().flat_map(|chart| chart.images.values().map(String::as_str));
        did_you_mean(image, named.chain(used.iter().copied()))
    };
    let named = images.digests.keys().filter(|image| is_image(image));
    let unused = named.filter(|image| rewritten(images, image).is_none_or(|name| !used.contains(&*name)));
    let finding = |image: &String| {
        Finding::new(
            Level::Warning,
            format!("spec.images.digests[{image}]"),
            format!(
                "has no effect: no release has the image {image}{}; write the name as the chart does, with the tag, and with the upstream registry, not the mirror; or remove the entry",
                near(image)
            ),
        )
    };
    unused.map(finding).collect()
}

fn has_images(chart: &ChartInfo) -> bool {
    !chart.version.is_empty() && !chart.images.is_empty()
}

/// Returns an image's name with the registry mirror from `mirrors`: the mirror replaces the longest key of `mirrors`
/// that is a prefix of the name. Returns `None` if no key is a prefix. A key is a prefix only if it ends with `/`, or
/// if `/` or `:` follows it in the name.
fn mirrored(mirrors: &BTreeMap<String, String>, image: &str) -> Option<String> {
    let fits = mirrors.iter().filter_map(|(from, to)| {
        let rest = image.strip_prefix(from.as_str())?;
        (rest.starts_with('/') || rest.starts_with(':') || from.ends_with('/')).then_some((from.len(), to, rest))
    });
    fits.max_by_key(|(length, ..)| *length).map(|(_, to, rest)| format!("{to}{rest}"))
}
