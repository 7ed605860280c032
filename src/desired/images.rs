//! `spec.images`: registry mirrors and the pull policy, over whatever images the charts and the catalogue name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::ChartFact;
use crate::api::Images;
use crate::values::{self, Layer, Origin, Path, Values, canonical, fold, get};

/// The layer that `spec.images` means over `below`; `None` where it asks for nothing.
pub fn layer(images: &Images, below: &[Layer], chart: Option<&ChartFact>) -> Option<Layer> {
    let mut values = Values::new();
    if let Some(policy) = &images.pull_policy {
        values.insert("images".into(), json!({ "pull_policy": policy }));
    }
    if !images.mirrors.is_empty() {
        let tags: Map<String, Value> = tags(below, chart)
            .into_iter()
            .filter_map(|(tag, image)| Some((tag, Value::from(mirrored(&images.mirrors, &image)?))))
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

/// The image with its longest matching prefix replaced; a prefix ends at a `/` or `:`.
fn mirrored(mirrors: &BTreeMap<String, String>, image: &str) -> Option<String> {
    let fits = mirrors.iter().filter_map(|(from, to)| {
        let rest = image.strip_prefix(from.as_str())?;
        (rest.starts_with('/') || rest.starts_with(':') || from.ends_with('/')).then_some((from.len(), to, rest))
    });
    fits.max_by_key(|(length, ..)| *length).map(|(_, to, rest)| format!("{to}{rest}"))
}
