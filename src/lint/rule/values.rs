//! Checks the final values of releases against the rules in `values/rules.yaml`. Warns about an even number of servers
//! that decide by majority, such as database servers.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cloud::Cloud;
use osdpl_core::catalog::{Level, Rule, SeparateServers};
use osdpl_core::finding::Finding;
use osdpl_values::CollectSorted;
use osdpl_values::expr::Scope;
use osdpl_values::{Path, get};

/// Reports values that violate a rule of `values/rules.yaml`, and even numbers of servers that decide by majority.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let rules = &cloud.catalog.cross_checks.rules;
    let scope = scope(cloud, rules.iter().flat_map(|rule| &rule.releases).map(String::as_str));
    let are_selected = |rule: &&Rule| rule.releases.iter().all(|name| cloud.values.contains_key(name.as_str()));
    let found = rules.iter().filter(are_selected).filter_map(|rule| check_rule(rule, cloud, &scope));
    found.chain(cloud.values.keys().flat_map(|release| even_counts(cloud, release))).collect()
}

/// Returns the scope in which osdpl evaluates the expressions of `values/rules.yaml`.
///
/// The scope contains all variables of `cloud.selection.scope`, with the baselines of installed releases in the variable
/// `releases`. It also contains the variable `values`: the final values of `releases`.
pub(super) fn scope<'a>(cloud: &'a Cloud<'_>, releases: impl Iterator<Item = &'a str>) -> Scope<'a> {
    let names: BTreeSet<&str> = releases.collect_set();
    let values =
        names.into_iter().filter_map(|name| Some((name.to_owned(), Value::Object((*cloud.values.get(name)?).clone()))));
    let variables = [("values".to_owned(), Value::Object(values.collect())), ("releases".to_owned(), cloud.releases())];
    cloud.selection.scope.nested(variables.into_iter().collect())
}

/// Reports an even number of servers of a release, if these servers decide by majority.
fn even_counts(cloud: &Cloud<'_>, release: &str) -> Vec<Finding> {
    let Some((_, entry)) = cloud.catalog.release(release) else { return Vec::new() };
    let of_chart = cloud.catalog.cross_checks.separate_servers.iter().filter(|servers| servers.chart == entry.chart);
    let found = of_chart.filter_map(|SeparateServers { what, replicas, even, .. }| {
        let count = get(cloud.values.get(release)?, replicas)?.as_u64()?;
        let message = format!("an even number of {what} {even}; set an odd number");
        (count > 0 && count % 2 == 0).then(|| finding(cloud, release, replicas, Level::Warning, &message))
    });
    found.collect()
}

fn check_rule(rule: &Rule, cloud: &Cloud<'_>, scope: &Scope<'_>) -> Option<Finding> {
    // The condition can't be evaluated if it reads a value that no layer sets, because the scope does not contain the
    // charts' default values. Skip the rule in this case.
    if !rule.when.evaluate_condition(scope).unwrap_or_default() {
        return None;
    }
    let name = rule.releases.first()?;
    Some(finding(cloud, name, &rule.path, rule.level, &rule.message))
}

/// Returns the finding about a value of a release. Its message contains the value, unless the value is secret, a map or
/// a string with several lines.
fn finding(cloud: &Cloud<'_>, release: &str, path: &Path, level: Level, message: &str) -> Finding {
    let is_secret = cloud.is_secret(release, path);
    let value = cloud.values.get(release).and_then(|values| get(values, path));
    let value = value.filter(|value| !is_secret && !value.is_object());
    let value = value.filter(|value| value.as_str().is_none_or(|text| !text.contains('\n')));
    let current = value.map(|value| format!("{path} of {release} is {value}: ")).unwrap_or_default();
    let location = cloud.value_location(release, path);
    let addition = location.and_then(|location| Some(format!("{}: ", location.addition()?))).unwrap_or_default();
    Finding { level, ..Finding::warning("values", cloud.field(release, path), format!("{addition}{current}{message}")) }
}
