//! Checks the numbers of pods. Without this check, only the API server would refuse an invalid number, in the middle of
//! an upgrade.

use serde_json::Value;

use crate::cloud::Cloud;
use crate::overrides::TYPE_CHANGED;
use osdpl_core::catalog::{KeyTree, KeyType};
use osdpl_core::finding::Finding;
use osdpl_values::{Path, Values, get, leaves};

/// A finding about an invalid number of pods.
pub(super) struct Count {
    /// The beginning of the finding's message. It names the release, and the path of the number in the release's
    /// values.
    ///
    /// Empty if the field of the finding already contains the path.
    prefix: String,
    /// The finding about the invalid number.
    pub finding: Finding,
}

impl Count {
    /// Whether the finding `other` reports that this number has the wrong type. If so, the caller can drop `other`,
    /// because [`Self::finding`] already reports the number.
    pub(crate) fn covers(&self, other: &Finding) -> bool {
        other.rule == TYPE_CHANGED && other.field() == self.finding.field() && other.message.starts_with(&self.prefix)
    }
}

/// Checks each value below `pod.replicas` for which upstream's chart expects a number.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Count> {
    let of_release = |(release, values): (&&str, &&Values)| invalid_counts(cloud, release, values);
    cloud.values.iter().flat_map(of_release).collect()
}

fn invalid_counts(cloud: &Cloud<'_>, release: &str, values: &Values) -> Vec<Count> {
    let counts_path: Path = ["pod", "replicas"].into_iter().collect();
    let counts = get(values, &counts_path).and_then(Value::as_object);
    let others = counts.into_iter().flat_map(leaves).filter(|(_, value)| !is_count(value));
    let invalid_count = |(path, value): (Path, &Value)| {
        let path: Path = counts_path.keys().iter().chain(path.keys()).cloned().collect();
        let key_type = cloud.read_chart_keys(release, |keys| keys.find(path.keys()).and_then(KeyTree::key_type))?;
        if key_type != Some(KeyType::Number) {
            return None;
        }
        let shown = if cloud.is_secret(release, &path) { "this".to_owned() } else { value.to_string() };
        let prefix = cloud.message_prefix(release, &path);
        let message = format!(
            "{prefix}{shown} is not a number of pods: the API server refuses the workload in the middle of the upgrade of {release}; write a whole number, 0 or more"
        );
        Some(Count { prefix, finding: Finding::error("values", cloud.field(release, &path), message) })
    };
    others.filter_map(invalid_count).collect()
}

/// Whether a value is a valid number of pods.
///
/// Null is valid, because it removes the chart's default. A string with a whole number, such as `"3"`, is valid,
/// because charts render the string without quotes.
fn is_count(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
        Value::String(text) => text.parse::<u32>().is_ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepts_only_whole_non_negative_counts() {
        for value in [json!(0), json!(3), json!(3.0), json!("3"), json!(null)] {
            assert!(is_count(&value), "{value}");
        }
        for value in [json!(-1), json!(1.5), json!("many"), json!(""), json!(true), json!([1]), json!({})] {
            assert!(!is_count(&value), "{value}");
        }
    }
}
