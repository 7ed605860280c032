//! Decodes, from a revision's record, the values that helm was given, and the chart with its default values.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::decode::json;
use super::{Chart, DecodeError};
use osdpl_values::{Values, canonical, digest, normalize_numbers};

/// The folder of a chart that contains its templates.
const TEMPLATES: &str = "templates/";

/// The values and the chart from which helm rendered a revision. The values contain secrets.
#[derive(Clone, PartialEq)]
pub struct RevisionSource {
    /// The values that helm was given, without the chart's defaults. A null in these values removes a default.
    pub config: Values,
    /// The name and version of the chart.
    pub chart: Chart,
    /// The default values in the chart's `values.yaml`. Under the name of each dependency of the chart, helm adds the
    /// default values of this dependency.
    pub defaults: Values,
    /// The digest of the chart's templates and defaults, see [`chart_fingerprint`].
    pub fingerprint: String,
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

/// Decodes the values and the chart of a revision from `data.release` of the record's Secret.
///
/// # Errors
/// Returns an error if the payload is not a release record.
pub fn decode_source(payload: &[u8]) -> Result<RevisionSource, DecodeError> {
    let wire: Wire = json(payload)?;
    let chart = wire.chart.unwrap_or_default();
    let metadata = chart.metadata.unwrap_or_default();
    let defaults = chart.values.unwrap_or_default();
    let mut templates = BTreeMap::new();
    for template in chart.templates.unwrap_or_default() {
        let content = STANDARD.decode(template.data.unwrap_or_default());
        let content =
            content.map_err(|_| DecodeError::NoRelease("a template of its chart is not base64".to_owned()))?;
        templates.insert(template.name, content);
    }
    let files = templates.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
    Ok(RevisionSource {
        fingerprint: chart_fingerprint(files, &defaults, &dependency_names(&metadata)),
        config: wire.config.unwrap_or_default(),
        chart: serde_json::from_value(metadata).unwrap_or_default(),
        defaults,
    })
}

/// Returns a digest of a chart's templates and default values, without its dependencies. The function returns the same
/// digest whether the caller reads the templates and values from the chart's files or from a release record.
///
/// The digest leaves out the dependencies, because a record does not contain the files of their charts. `dependencies`
/// are the keys of `defaults` under which helm adds the default values of the dependencies. `files` must be sorted by
/// path.
pub fn chart_fingerprint<'a>(
    files: impl Iterator<Item = (&'a str, &'a [u8])>,
    defaults: &Values,
    dependencies: &[String],
) -> String {
    let mut own = defaults.clone();
    own.retain(|key, _| !dependencies.contains(key));
    without_nulls(&mut own);
    normalize_numbers(&mut own);
    let mut parts = vec![canonical(&Value::Object(own))];
    // Skip files whose name begins with a dot. helm reads such files from an archive, but not from a folder. So if the
    // digest contained these files, one chart would have two digests.
    let is_template = |path: &str| path.strip_prefix(TEMPLATES).is_some_and(|name| !name.starts_with('.'));
    for (path, content) in files.filter(|(path, _)| is_template(path)) {
        parts.push(path.to_owned());
        parts.push(STANDARD.encode(content));
    }
    let mut text = digest(parts.iter().map(String::as_str));
    text.truncate(16);
    text
}

/// Removes nulls, so that they do not change the digest: a null default means the same as no default, and a record may
/// lack a null that the chart contains.
fn without_nulls(values: &mut Values) {
    values.retain(|_, value| !value.is_null());
    values.values_mut().filter_map(Value::as_object_mut).for_each(without_nulls);
}

/// Returns the top-level keys in a chart's default values that belong to its dependencies: the name or alias of each
/// dependency in the chart's `Chart.yaml`, and `global`.
pub fn dependency_names(metadata: &Value) -> Vec<String> {
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
    fn reads_values_chart_and_defaults() {
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
        let same = chart_fingerprint(files.into_iter(), &defaults, &["helm-toolkit".to_owned()]);
        assert_eq!(source.fingerprint, same, "the record and the files of the same chart have the same fingerprint");
        let other = [("templates/a.yaml", b"kind: B".as_slice())];
        assert_ne!(source.fingerprint, chart_fingerprint(other.into_iter(), &defaults, &["helm-toolkit".to_owned()]));
    }

    #[test]
    fn errors_do_not_quote_the_record() {
        let chart = json!({"templates": [{"name": "templates/a.yaml", "data": "hunter22!"}]});
        let error = decode_source(&record(&chart)).err().unwrap().to_string();
        assert!(error.contains("a template of its chart is not base64") && !error.contains("hunter22"), "{error}");
        assert!(decode_source(b"bm90aGluZw==").is_err());
    }
}
