//! One revision against one wish.

use serde_json::Value;

use crate::desired::DesiredRelease;
use crate::observed::Verdict;
use crate::release::Source;
use osdpl_values::{Values, changed, coalesce, plain_numbers, without_nulls};

/// A revision and what is wanted in its place. Secrets inside.
#[derive(Clone, PartialEq)]
pub struct Compared {
    /// What templates saw.
    pub before: Values,
    /// What they would see.
    pub after: Values,
    /// What that comes to.
    pub verdict: Verdict,
}

/// Compares what a revision was made from with what is wanted. Both lie over the defaults of the recorded chart: where that is not the wanted one,
/// the verdict says so first.
pub fn compare(release: &DesiredRelease, source: &Source) -> Compared {
    let mut before = coalesce(&source.defaults, &source.config);
    let mut after = coalesce(&source.defaults, &release.values);
    level(&mut before, &mut after);
    for values in [&mut before, &mut after] {
        without_nulls(values);
        plain_numbers(values);
    }
    let paths: Vec<String> = changed(&before, &after).iter().map(ToString::to_string).collect();
    let chart = other_chart(release, source);
    let same = paths.is_empty() && chart.is_none();
    let verdict = if same { Verdict::Same } else { Verdict::Differs { chart, paths } };
    Compared { before, after, verdict }
}

/// Empties maps that hold nothing but nulls on both sides: a default of null that was taken away leaves a map with nothing in it, and one that was
/// left alone a map with a null, and templates find nothing in either.
fn level(one: &mut Values, other: &mut Values) {
    for (key, value) in one {
        let (Value::Object(value), Some(Value::Object(beside))) = (value, other.get_mut(key)) else { continue };
        if value.values().chain(beside.values()).all(Value::is_null) {
            value.clear();
            beside.clear();
        } else {
            level(value, beside);
        }
    }
}

/// How the recorded chart is another one than the wanted. What is not known of the wanted one makes no difference.
fn other_chart(release: &DesiredRelease, source: &Source) -> Option<String> {
    let recorded = &source.chart;
    if recorded.name != release.chart {
        return Some(format!("the chart from {} to {}", recorded.name, release.chart));
    }
    let version = release.version.as_deref().filter(|version| !version.is_empty());
    if let Some(version) = version.filter(|version| *version != recorded.version) {
        return Some(format!("the chart's version from {} to {version}", recorded.version));
    }
    let other = release.imprint.as_ref().is_some_and(|imprint| *imprint != source.imprint);
    other.then(|| {
        format!("the chart, which has other templates or defaults under the same version {}", recorded.version)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::release::Chart;
    use crate::testing::world;

    fn map(value: Value) -> Values {
        serde_json::from_value(value).unwrap()
    }

    fn source(config: Value) -> Source {
        Source {
            config: map(config),
            chart: Chart { name: "store".into(), version: "1.2.3".into(), app_version: String::new() },
            defaults: map(
                json!({"pod": {"replicas": 1, "lifecycle": {"timeout": 30}}, "tags": ["a"], "cache": {"key": null}}),
            ),
            imprint: "imprint".into(),
        }
    }

    fn said(values: Value, config: Value, change: impl FnOnce(&mut DesiredRelease)) -> String {
        let mut release = world::release("store");
        (release.version, release.imprint) = (Some("1.2.3".into()), Some("imprint".into()));
        release.values = map(values);
        change(&mut release);
        compare(&release, &source(config)).verdict.to_string()
    }

    #[test]
    fn what_templates_see_counts_and_not_how_it_was_written() {
        for (values, config) in [
            (json!({}), json!({})),
            (json!({"pod": {"replicas": 1}}), json!({})),
            (json!({"pod": {"replicas": 2}}), json!({"pod": {"replicas": 2.0}, "tags": ["a"]})),
            (json!({"endpoints": {"identity": {"namespace": null}}}), json!({})),
            (json!({"cache": {"key": null}}), json!({})),
            (json!({}), json!({"cache": {"key": null}})),
            (json!({"pod": {"lifecycle": null}}), json!({"pod": {"lifecycle": null, "unknown": null}})),
        ] {
            assert_eq!(said(values.clone(), config.clone(), |_| {}), "nothing would change", "{values} over {config}");
        }
    }

    #[test]
    fn every_difference_is_named_the_chart_first() {
        let values = json!({"pod": {"replicas": 3, "lifecycle": null}});
        let differs = said(values.clone(), json!({}), |_| {});
        assert_eq!(differs, "it would change pod.lifecycle.timeout, pod.replicas");
        let newer = said(json!({}), json!({}), |release| release.version = Some("2.0.0".into()));
        assert_eq!(newer, "it would change the chart's version from 1.2.3 to 2.0.0");
        let forked = said(json!({}), json!({}), |release| release.imprint = Some("other".into()));
        assert!(forked.starts_with("it would change the chart, which has other templates or defaults"), "{forked}");
        let unknown = said(json!({}), json!({}), |release| (release.version, release.imprint) = (None, None));
        assert_eq!(unknown, "nothing would change", "without charts the recorded one is taken to be the wanted");
        let many = (0..9).map(|n| (format!("k{n}"), json!(n))).collect::<Values>();
        assert!(said(Value::Object(many), json!({}), |_| {}).ends_with("k4, k5 and 3 more"));
    }
}
