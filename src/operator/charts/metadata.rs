//! Reads the fields of a `Chart.yaml` that the store needs, and converts the file to the canonical form from which the
//! digest of a chart is computed.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::contents::{Contents, within_chart};
use super::problem::ChartProblem;

const FILE: &str = "Chart.yaml";

/// The fields of a `Chart.yaml` that the store reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    /// The chart's name.
    pub name: String,
    /// The version of the chart.
    pub version: String,
    /// The version of the software that the chart installs. osdpl shows this version to users.
    #[serde(default)]
    pub app_version: Option<String>,
    /// The type of the chart: `application` (the default) or `library`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The dependencies of the chart: charts that its folder `charts/` must contain.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// A dependency of a chart: one entry of `dependencies` in its `Chart.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Dependency {
    /// The name of the required chart.
    pub name: String,
    /// The repository of the required chart. A `file://` path is relative to the folder of the chart that requires it.
    #[serde(default)]
    pub repository: String,
}

impl Metadata {
    /// Parses the `Chart.yaml` in the files of a chart.
    pub(super) fn of(contents: &Contents) -> Result<Self, ChartProblem> {
        Self::parse(contents.get(FILE).ok_or(ChartProblem::NoChartYaml)?)
    }

    /// Parses the text of a `Chart.yaml`. Rejects a name or version that would be unsafe as part of a file name.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ChartProblem> {
        let metadata: Self = yaml(FILE, text)?;
        let refuse = |field, value: &str, why| Err(ChartProblem::Metadata { field, value: value.to_owned(), why });
        if !is_name(&metadata.name) {
            return refuse(
                "name",
                &metadata.name,
                "is not a chart name: only letters, digits, '-', '_' and '.' are allowed",
            );
        }
        if !is_version(&metadata.version) {
            return refuse("version", &metadata.version, "is not a version such as 1.2.3 or 2026.1.7+0ee5ade");
        }
        Ok(metadata)
    }

    /// Rejects a chart whose `Chart.yaml` has another name or version than `name` and `version`.
    pub(super) fn check_identity(&self, name: &str, version: &str) -> Result<(), ChartProblem> {
        if self.name != name {
            return Err(ChartProblem::OtherName { expected: name.to_owned(), found: self.name.clone() });
        }
        if self.version != version {
            return Err(ChartProblem::OtherVersion { expected: version.to_owned(), found: self.version.clone() });
        }
        Ok(())
    }

    /// Whether the chart only provides templates for other charts and cannot be installed.
    pub(crate) fn is_library(&self) -> bool {
        self.kind.as_deref() == Some("library")
    }
}

/// Parses a YAML file of a chart. `path` is the path of the file for error messages.
pub(super) fn yaml<T: DeserializeOwned>(path: &str, content: &[u8]) -> Result<T, ChartProblem> {
    let text = std::str::from_utf8(content).map_err(|_| ChartProblem::Yaml(format!("{path}: it is not UTF-8")))?;
    osdpl_values::yaml::parse(path, text).map_err(|error| ChartProblem::Yaml(error.to_string()))
}

/// Whether the text is a valid name of a chart. A valid name is also safe as the name of a file.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether the text has the form of a version that helm accepts: semantic versioning, also with a `v` before it, or
/// with only one or two numbers.
pub(super) fn is_version(text: &str) -> bool {
    let (numbers, rest) = match text.find(['-', '+']) {
        Some(end) => text.split_at(end),
        None => (text, ""),
    };
    let numbers: Vec<_> = numbers.strip_prefix('v').unwrap_or(numbers).split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 128
        && numbers.len() <= 3
        && numbers.iter().all(is_number)
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
}

/// Returns the canonical form of the `Chart.yaml` of a chart or of its dependency: JSON with sorted keys.
///
/// The canonical form leaves out each field that is null, false, or an empty string, list or map, because helm omits
/// such a field when it rewrites the file (`omitempty`). Returns `None` for any other file, and for a file that is not
/// a YAML map.
pub(super) fn canonical(path: &str, content: &[u8]) -> Option<String> {
    if within_chart(path) != FILE {
        return None;
    }
    let Ok(Value::Object(mut fields)) = yaml(path, content) else { return None };
    if let Some(Value::Array(dependencies)) = fields.get_mut("dependencies") {
        dependencies
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|fields| fields.retain(|_, value| is_set(value)));
    }
    fields.retain(|_, value| is_set(value));
    Some(osdpl_values::canonical(&Value::Object(fields)))
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}
