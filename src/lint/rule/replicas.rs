//! Numbers of pods that are none: the API server refuses what is to run them, half way through the upgrade.

use serde_json::Value;

use super::{Cloud, Judged};
use crate::hazard::TYPE_CHANGED;
use osdpl_core::catalog::{KeyTree, KeyType};
use osdpl_values::{Path, Values, get, leaves};

/// A number of pods that is none.
pub(super) struct Count {
    /// What stands before the message, where the field does not say it all.
    before: String,
    /// What is said of it.
    pub judged: Judged,
}

impl Count {
    /// Whether what is said of a value says again that this one is none.
    pub fn covers(&self, other: &Judged) -> bool {
        other.rule == TYPE_CHANGED && other.field == self.judged.field && other.message.starts_with(&self.before)
    }
}

/// What stands at `pod.replicas` of upstream's charts where they have a number, and is none of pods.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Count> {
    let of_release = |(release, values): (&&str, &&Values)| wrong(cloud, release, values);
    cloud.values.iter().flat_map(of_release).collect()
}

fn wrong(cloud: &Cloud<'_>, release: &str, values: &Values) -> Vec<Count> {
    let above: Path = ["pod", "replicas"].into_iter().collect();
    let Some((tree, counts)) = cloud.tree(release).zip(get(values, &above).and_then(Value::as_object)) else {
        return Vec::new();
    };
    let said = |(path, value): (Path, &Value)| {
        let path: Path = above.keys().iter().chain(path.keys()).cloned().collect();
        let is_number = tree.find(path.keys()).and_then(KeyTree::kind) == Some(KeyType::Number);
        if !is_number || is_count(value) {
            return None;
        }
        let shown = if cloud.decided(release, &path).1 { "this".to_owned() } else { value.to_string() };
        let before = cloud.before(release, &path);
        let message = format!(
            "{before}{shown} is no number of pods, and the API server refuses what is to run them, half way through the upgrade of {release}; write a whole number, 0 or more"
        );
        Some(Count { before, judged: Judged::error("values", cloud.field(release, &path), message) })
    };
    leaves(counts).into_iter().filter_map(said).collect()
}

/// A null takes the chart's own number away; a text ends in a manifest as it stands.
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
    fn a_number_of_pods_is_whole_and_not_below_none() {
        for value in [json!(0), json!(3), json!(3.0), json!("3"), json!(null)] {
            assert!(is_count(&value), "{value}");
        }
        for value in [json!(-1), json!(1.5), json!("many"), json!(""), json!(true), json!([1]), json!({})] {
            assert!(!is_count(&value), "{value}");
        }
    }
}
