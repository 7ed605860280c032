//! Compares the newest revision of an installed release with the desired release. The result is what an upgrade would
//! change.

use serde_json::Value;

use crate::desired::DesiredRelease;
use crate::observed::ComparisonResult;
use crate::release::RevisionSource;
use osdpl_values::{Values, changed_paths, coalesce, normalize_numbers, remove_nulls};

/// The values of a release before and after an upgrade to the desired release, and the differences. The values contain
/// secrets.
#[derive(Clone, PartialEq)]
pub struct Comparison {
    /// The values that the templates read now: the installed chart's defaults, with the overrides in helm's record
    /// merged into them.
    pub before: Values,
    /// The values that the installed chart's templates would read after the upgrade: the chart's defaults, with the
    /// desired release's values merged into them.
    pub after: Values,
    /// The changes that the upgrade would make: the chart, and the paths of the changed values.
    pub result: ComparisonResult,
}

/// Compares the chart and the values of an installed revision, `source`, with the desired release.
///
/// The function merges the recorded values and, separately, the desired values into the installed chart's defaults, and
/// compares the two results. So it does not find the defaults that differ in the desired version of the chart. For such
/// defaults, the result only says that the chart changes.
pub fn compare_release(release: &DesiredRelease, source: &RevisionSource) -> Comparison {
    let mut before = coalesce(&source.defaults, &source.config);
    let mut after = coalesce(&source.defaults, &release.values);
    clear_null_maps(&mut before, &mut after);
    for values in [&mut before, &mut after] {
        remove_nulls(values);
        normalize_numbers(values);
    }
    let paths: Vec<String> = changed_paths(&before, &after).iter().map(ToString::to_string).collect();
    let chart = other_chart(release, source);
    let same = paths.is_empty() && chart.is_none();
    let result = if same { ComparisonResult::Same } else { ComparisonResult::Differs { chart, paths } };
    Comparison { before, after, result }
}

/// Removes differences that templates can't see: where both `one` and `other` have a map that contains only nulls, the
/// function empties both maps.
///
/// Such maps can differ, because helm's merge keeps a key whose default is null, but removes a key whose override is
/// null. So a key can be missing in one of the two maps.
fn clear_null_maps(one: &mut Values, other: &mut Values) {
    for (key, value) in one {
        let (Value::Object(value), Some(Value::Object(counterpart))) = (value, other.get_mut(key)) else { continue };
        if value.values().chain(counterpart.values()).all(Value::is_null) {
            value.clear();
            counterpart.clear();
        } else {
            clear_null_maps(value, counterpart);
        }
    }
}

/// Returns how the chart in helm's record differs from the desired chart; `None` if it is the same chart.
///
/// The function compares versions only if osdpl knows the desired chart's version, and fingerprints only if osdpl knows
/// the desired chart's fingerprint.
fn other_chart(release: &DesiredRelease, source: &RevisionSource) -> Option<String> {
    let recorded = &source.chart;
    if recorded.name != release.chart {
        return Some(format!("the chart from {} to {}", recorded.name, release.chart));
    }
    let version = release.version.as_deref().filter(|version| !version.is_empty());
    if let Some(version) = version.filter(|version| *version != recorded.version) {
        return Some(format!("the chart's version from {} to {version}", recorded.version));
    }
    let other = release.fingerprint.as_ref().is_some_and(|fingerprint| *fingerprint != source.fingerprint);
    other.then(|| {
        format!("the content of the chart: the version stays {}, but templates or defaults differ", recorded.version)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::release::Chart;
    use crate::testing;

    fn map(value: Value) -> Values {
        serde_json::from_value(value).unwrap()
    }

    fn source(config: Value) -> RevisionSource {
        RevisionSource {
            config: map(config),
            chart: Chart { name: "store".into(), version: "1.2.3".into(), app_version: String::new() },
            defaults: map(
                json!({"pod": {"replicas": 1, "lifecycle": {"timeout": 30}}, "tags": ["a"], "cache": {"key": null}}),
            ),
            fingerprint: "fingerprint".into(),
        }
    }

    fn result(values: Value, config: Value, change: impl FnOnce(&mut DesiredRelease)) -> String {
        let mut release = testing::release("store");
        (release.version, release.fingerprint) = (Some("1.2.3".into()), Some("fingerprint".into()));
        release.values = map(values);
        change(&mut release);
        compare_release(&release, &source(config)).result.to_string()
    }

    #[test]
    fn compares_what_templates_see() {
        for (values, config) in [
            (json!({}), json!({})),
            (json!({"pod": {"replicas": 1}}), json!({})),
            (json!({"pod": {"replicas": 2}}), json!({"pod": {"replicas": 2.0}, "tags": ["a"]})),
            (json!({"endpoints": {"identity": {"namespace": null}}}), json!({})),
            (json!({"cache": {"key": null}}), json!({})),
            (json!({}), json!({"cache": {"key": null}})),
            (json!({"pod": {"lifecycle": null}}), json!({"pod": {"lifecycle": null, "unknown": null}})),
        ] {
            assert_eq!(
                result(values.clone(), config.clone(), |_| {}),
                "nothing would change",
                "{values} over {config}"
            );
        }
    }

    #[test]
    fn names_every_difference_with_the_chart_first() {
        let values = json!({"pod": {"replicas": 3, "lifecycle": null}});
        let differs = result(values.clone(), json!({}), |_| {});
        assert_eq!(differs, "it would change pod.lifecycle.timeout, pod.replicas");
        let newer = result(json!({}), json!({}), |release| release.version = Some("2.0.0".into()));
        assert_eq!(newer, "it would change the chart's version from 1.2.3 to 2.0.0");
        let forked = result(json!({}), json!({}), |release| release.fingerprint = Some("other".into()));
        assert!(forked.starts_with("it would change the content of the chart: the version stays"), "{forked}");
        let unknown = result(json!({}), json!({}), |release| (release.version, release.fingerprint) = (None, None));
        assert_eq!(
            unknown, "nothing would change",
            "the comparison reports no change of the chart if the version and the fingerprint of the desired chart are unknown"
        );
        let many = (0..9).map(|n| (format!("k{n}"), json!(n))).collect::<Values>();
        assert!(result(Value::Object(many), json!({}), |_| {}).ends_with("k4, k5 and 3 more"));
    }
}
