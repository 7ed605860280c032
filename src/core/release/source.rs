//! What a revision was made from: the values that helm was given, and the chart with its own defaults.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::decode::json;
use super::{Chart, Undecodable};
use osdpl_values::{Values, canonical, digest, plain_numbers};

/// Where a chart's templates are.
const TEMPLATES: &str = "templates/";

/// What a revision was made from. Secrets inside.
#[derive(Clone, PartialEq)]
pub struct Source {
    /// The values that helm was given, nulls included.
    pub config: Values,
    /// The chart.
    pub chart: Chart,
    /// The chart's own `values.yaml`; helm adds those of its dependencies under their names.
    pub defaults: Values,
    /// What identifies the chart as far as a record holds it, see [`imprint`].
    pub imprint: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    config: Option<Values>,
    chart: Option<ChartWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChartWire {
    metadata: Option<Value>,
    templates: Option<Vec<Template>>,
    values: Option<Values>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template {
    name: String,
    data: Option<String>,
}

/// Decodes what a revision was made from out of `data.release` of its Secret.
///
/// # Errors
/// What does not make a release of it.
pub fn decode_source(payload: &[u8]) -> Result<Source, Undecodable> {
    let wire: Wire = json(payload)?;
    let chart = wire.chart.unwrap_or_default();
    let metadata = chart.metadata.unwrap_or_default();
    let defaults = chart.values.unwrap_or_default();
    let mut templates = BTreeMap::new();
    for template in chart.templates.unwrap_or_default() {
        let content = STANDARD.decode(template.data.unwrap_or_default());
        let content = content.map_err(|_| Undecodable::NoRelease("a template of its chart is no base64".to_owned()))?;
        templates.insert(template.name, content);
    }
    let files = templates.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
    Ok(Source {
        imprint: imprint(files, &defaults, &dependencies(&metadata)),
        config: wire.config.unwrap_or_default(),
        chart: serde_json::from_value(metadata).unwrap_or_default(),
        defaults,
    })
}

/// What a record tells a chart by: its own templates and defaults. Charts within it are not recorded; `dependencies` are the names under which helm
/// adds their defaults. `files` come sorted by path.
pub fn imprint<'a>(
    files: impl Iterator<Item = (&'a str, &'a [u8])>,
    defaults: &Values,
    dependencies: &[String],
) -> String {
    let mut own = defaults.clone();
    own.retain(|key, _| !dependencies.contains(key));
    without_nulls(&mut own);
    plain_numbers(&mut own);
    let mut parts = vec![canonical(&Value::Object(own))];
    // What begins with a dot helm ignores in a folder and loads out of an archive.
    let is_template = |path: &str| path.strip_prefix(TEMPLATES).is_some_and(|name| !name.starts_with('.'));
    for (path, content) in files.filter(|(path, _)| is_template(path)) {
        parts.push(path.to_owned());
        parts.push(STANDARD.encode(content));
    }
    let mut text = digest(parts.iter().map(String::as_str));
    text.truncate(16);
    text
}

/// A default of null is none; a record may have it or not.
fn without_nulls(values: &mut Values) {
    values.retain(|_, value| !value.is_null());
    values.values_mut().filter_map(Value::as_object_mut).for_each(without_nulls);
}

/// The names that a chart's metadata gives to the charts within it.
pub fn dependencies(metadata: &Value) -> Vec<String> {
    let named = |dependency: &Value| {
        let name = dependency["alias"].as_str().filter(|alias| !alias.is_empty());
        name.or_else(|| dependency["name"].as_str()).map(str::to_owned)
    };
    let all = metadata["dependencies"].as_array().into_iter().flatten().filter_map(named);
    all.chain(["global".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(chart: &Value) -> Vec<u8> {
        let record = json!({"name": "keystone", "config": {"a": {"b": null}}, "chart": chart});
        STANDARD.encode(record.to_string()).into_bytes()
    }

    #[test]
    fn a_record_tells_the_values_the_chart_and_its_defaults() {
        let chart = json!({
            "metadata": {"name": "keystone", "version": "2026.1.0", "dependencies": [{"name": "helm-toolkit"}]},
            "templates": [{"name": "templates/a.yaml", "data": STANDARD.encode("kind: A")}],
            "values": {"a": {"b": 1.0}, "helm-toolkit": {"global": {}}},
        });
        let source = decode_source(&record(&chart)).unwrap();
        assert_eq!((source.chart.name.as_str(), source.chart.version.as_str()), ("keystone", "2026.1.0"));
        assert_eq!(Value::Object(source.config), json!({"a": {"b": null}}));
        let defaults: Values = serde_json::from_value(json!({"a": {"b": 1}})).unwrap();
        let files = [("Chart.yaml", b"x".as_slice()), ("templates/a.yaml", b"kind: A")];
        let same = imprint(files.into_iter(), &defaults, &["helm-toolkit".to_owned()]);
        assert_eq!(source.imprint, same, "as the chart itself has it");
        let other = [("templates/a.yaml", b"kind: B".as_slice())];
        assert_ne!(source.imprint, imprint(other.into_iter(), &defaults, &["helm-toolkit".to_owned()]));
    }

    #[test]
    fn what_is_no_record_is_an_error_that_quotes_nothing() {
        let chart = json!({"templates": [{"name": "templates/a.yaml", "data": "hunter22!"}]});
        let error = decode_source(&record(&chart)).err().unwrap().to_string();
        assert!(error.contains("a template of its chart is no base64") && !error.contains("hunter22"), "{error}");
        assert!(decode_source(b"bm90aGluZw==").is_err());
    }
}
