//! The rules of `values/rules.yaml`: what must hold between the final values of releases.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cloud, Judged};
use crate::catalog::{Level, Rule};
use crate::expr::Scope;
use crate::values::get;

/// What the rules say of a cloud.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let rules = &cloud.catalog.judgements.rules;
    let named: BTreeSet<&str> = rules.iter().flat_map(|rule| &rule.releases).map(String::as_str).collect();
    let values =
        named.into_iter().filter_map(|name| Some((name.to_owned(), Value::Object((*cloud.values.get(name)?).clone()))));
    let mut variables = cloud.selection.variables.clone();
    variables.insert("values".into(), Value::Object(values.collect()));
    let scope = Scope::new(&variables);
    let are_there = |rule: &&Rule| rule.releases.iter().all(|name| cloud.values.contains_key(name.as_str()));
    rules.iter().filter(are_there).filter_map(|rule| said(rule, cloud, &scope)).collect()
}

fn said(rule: &Rule, cloud: &Cloud<'_>, scope: &Scope<'_>) -> Option<Judged> {
    // Where something is not set, the chart's default holds, which is not known here.
    if !rule.when.holds(scope).unwrap_or_default() {
        return None;
    }
    let name = rule.releases.first()?;
    let field = cloud.field(name, &rule.path);
    let (_, is_secret) = cloud.decided(name, &rule.path);
    let value = get(cloud.values.get(name.as_str())?, &rule.path).filter(|value| !is_secret && !value.is_object());
    let value = value.filter(|value| value.as_str().is_none_or(|text| !text.contains('\n')));
    let now = value.map(|value| format!("{} of {name} is {value}: ", rule.path)).unwrap_or_default();
    let judged = if rule.level == Level::Error { Judged::error } else { Judged::warning };
    Some(judged("values", field, format!("{now}{}", rule.message)))
}
