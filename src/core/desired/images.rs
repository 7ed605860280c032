//! `spec.images`: registry mirrors, digests and the pull policy, over whatever images the charts and the catalogue name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{ChartFact, Desired, DesiredRelease, Facts, Finding};
use crate::api::{Images, reason};
use crate::catalog::{Level, did_you_mean};
use osdpl_values::{self as values, Layer, Origin, Path, Values, canonical, fold, get};

/// The layer that `spec.images` means over `below`; `None` where it asks for nothing.
pub fn layer(images: &Images, below: &[Layer], chart: Option<&ChartFact>) -> Option<Layer> {
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

/// The images as they would be: the chart's defaults, then what the layers set.
fn tags(below: &[Layer], chart: Option<&ChartFact>) -> BTreeMap<String, String> {
    let mut tags = chart.map(|chart| chart.images.clone()).unwrap_or_default();
    let path: Path = ["images", "tags"].into_iter().collect();
    if let Some(Value::Object(set)) = get(&fold(below), &path) {
        tags.extend(set.iter().filter_map(|(tag, image)| Some((tag.clone(), image.as_str()?.to_owned()))));
    }
    tags
}

/// The digest of the images as they are in the end: a release with another one is given other programs.
pub fn digest(values: &Values, chart: Option<&ChartFact>) -> String {
    let mut tags: BTreeMap<&str, Value> = BTreeMap::new();
    tags.extend(chart.iter().flat_map(|chart| &chart.images).map(|(tag, image)| (tag.as_str(), image.as_str().into())));
    if let Some(Value::Object(set)) = get(values, &["images", "tags"].into_iter().collect()) {
        tags.extend(set.iter().map(|(tag, image)| (tag.as_str(), image.clone())));
    }
    // Null takes a chart's default away.
    tags.retain(|_, image| !image.is_null());
    let mut text = values::digest([canonical(&json!(tags)).as_str()]);
    text.truncate(16);
    text
}

/// What the image becomes, where it becomes another. The tag stays before the digest, for people: container runtimes go by the digest alone.
fn rewritten(images: &Images, image: &str) -> Option<String> {
    let mirrored = mirrored(&images.mirrors, image);
    match images.digests.get(image) {
        Some(digest) => Some(format!("{}@{digest}", mirrored.as_deref().unwrap_or(image))),
        None => mirrored,
    }
}

/// Digests of what no chart can name as an image: registry or path, and tag.
pub fn nameless(images: &Images) -> Vec<Finding> {
    let finding = |image: &String| Finding {
        level: Level::Warning,
        field: format!("spec.images.digests[{image}]"),
        message: format!(
            "pins nothing: {image:?} is no image as charts name them; write it with its registry and tag, such as quay.io/airshipit/nova:2026.1-ubuntu_noble, or take it out"
        ),
    };
    images.digests.keys().filter(|image| !is_image(image)).map(finding).collect()
}

/// Whether a text can be an image as the distribution specification has it, with a tag, or at least a path.
fn is_image(text: &str) -> bool {
    let is_written = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    text.contains(['/', ':']) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_written)
}

/// Digests that pin nothing: where the images of every release are known, a name that none has.
pub fn idle(images: &Images, desired: &Desired, facts: &Facts) -> Vec<Finding> {
    // A chart that is only told of comes without a version, or without its images.
    let known = |name: &String| facts.charts.get(name).and_then(|chart| chart.as_ref().ok()).is_some_and(has_images);
    let lacks_values =
        |release: &DesiredRelease| release.blocked.as_ref().is_some_and(|why| why.reason == reason::INPUTS);
    if images.digests.is_empty() || !desired.releases.keys().all(known) || desired.releases.values().any(lacks_values) {
        return Vec::new();
    }
    let path: Path = ["images", "tags"].into_iter().collect();
    let tags = desired.releases.values().filter_map(|release| get(&release.values, &path)?.as_object());
    let used: BTreeSet<&str> = tags.flat_map(|tags| tags.values().filter_map(Value::as_str)).collect();
    let charts: Vec<&ChartFact> = facts.charts.values().filter_map(|chart| chart.as_ref().ok()).collect();
    let near = |image: &str| {
        let named = charts.iter().flat_map(|chart| chart.images.values().map(String::as_str));
        did_you_mean(image, named.chain(used.iter().copied()))
    };
    let named = images.digests.keys().filter(|image| is_image(image));
    let idle = named.filter(|image| rewritten(images, image).is_none_or(|name| !used.contains(&*name)));
    let finding = |image: &String| Finding {
        level: Level::Warning,
        field: format!("spec.images.digests[{image}]"),
        message: format!(
            "pins nothing: no release has the image {image}{}; write it as its chart does, with the tag and before spec.images.mirrors, or take it out",
            near(image)
        ),
    };
    idle.map(finding).collect()
}

fn has_images(chart: &ChartFact) -> bool {
    !chart.version.is_empty() && !chart.images.is_empty()
}

/// The image with its longest matching prefix replaced; a prefix ends at a `/` or `:`.
fn mirrored(mirrors: &BTreeMap<String, String>, image: &str) -> Option<String> {
    let fits = mirrors.iter().filter_map(|(from, to)| {
        let rest = image.strip_prefix(from.as_str())?;
        (rest.starts_with('/') || rest.starts_with(':') || from.ends_with('/')).then_some((from.len(), to, rest))
    });
    fits.max_by_key(|(length, ..)| *length).map(|(_, to, rest)| format!("{to}{rest}"))
}
