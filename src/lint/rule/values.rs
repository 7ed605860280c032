//! The rules of `values/rules.yaml`: what must hold between the final values of releases, and how many servers decide by majority.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cloud, Judged};
use osdpl_core::catalog::{Apart, Level, Rule};
use osdpl_values::expr::Scope;
use osdpl_values::{Path, get};

/// What the rules say of a cloud.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let rules = &cloud.catalog.judgements.rules;
    let scope = scope(cloud, rules.iter().flat_map(|rule| &rule.releases).map(String::as_str));
    let are_there = |rule: &&Rule| rule.releases.iter().all(|name| cloud.values.contains_key(name.as_str()));
    let said = rules.iter().filter(are_there).filter_map(|rule| said(rule, cloud, &scope));
    said.chain(cloud.values.keys().flat_map(|release| even(cloud, release))).collect()
}

/// What expressions of `values/rules.yaml` see: what all see, and the final values of these releases.
pub(super) fn scope<'a>(cloud: &'a Cloud<'_>, releases: impl Iterator<Item = &'a str>) -> Scope<'a> {
    let named: BTreeSet<&str> = releases.collect();
    let values =
        named.into_iter().filter_map(|name| Some((name.to_owned(), Value::Object((*cloud.values.get(name)?).clone()))));
    let variables = [("values".to_owned(), Value::Object(values.collect()))].into_iter().collect();
    cloud.selection.scope.inner(variables)
}

/// The servers of a release that decide by majority, where there is an even number of them.
fn even(cloud: &Cloud<'_>, release: &str) -> Vec<Judged> {
    let Some((_, entry)) = cloud.catalog.release(release) else { return Vec::new() };
    let of_chart = cloud.catalog.judgements.apart.iter().filter(|apart| apart.chart == entry.chart);
    let even = of_chart.filter_map(|Apart { what, replicas, even, .. }| {
        let count = get(cloud.values.get(release)?, replicas)?.as_u64()?;
        let message = format!("an even number of {what} {even}; set an odd number");
        (count > 0 && count % 2 == 0).then(|| told(cloud, release, replicas, (Level::Warning, &message)))
    });
    even.collect()
}

fn said(rule: &Rule, cloud: &Cloud<'_>, scope: &Scope<'_>) -> Option<Judged> {
    // Where something is not set, the chart's default holds, which is not known here.
    if !rule.when.holds(scope).unwrap_or_default() {
        return None;
    }
    let name = rule.releases.first()?;
    Some(told(cloud, name, &rule.path, (rule.level, &rule.message)))
}

/// What is said of a value of a release, with the value where it may be shown.
fn told(cloud: &Cloud<'_>, release: &str, path: &Path, (level, message): (Level, &str)) -> Judged {
    let (_, is_secret) = cloud.decided(release, path);
    let value = cloud.values.get(release).and_then(|values| get(values, path));
    let value = value.filter(|value| !is_secret && !value.is_object());
    let value = value.filter(|value| value.as_str().is_none_or(|text| !text.contains('\n')));
    let now = value.map(|value| format!("{path} of {release} is {value}: ")).unwrap_or_default();
    let stands =
        cloud.spot_of(release, path).and_then(|spot| Some(format!("{}: ", spot.stands()?))).unwrap_or_default();
    Judged { level, ..Judged::warning("values", cloud.field(release, path), format!("{stands}{now}{message}")) }
}
