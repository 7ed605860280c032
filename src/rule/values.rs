//! The rules of `values/rules.yaml`: what must hold between the final values of releases.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Cloud, Judged};
use crate::catalog::{Level, Rule};
use crate::expr::Scope;
use crate::values::{Values, get};

/// What the rules say of a cloud.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    cloud.catalog.judgements.rules.iter().filter_map(|rule| said(rule, cloud)).collect()
}

fn said(rule: &Rule, cloud: &Cloud<'_>) -> Option<Judged> {
    let wanted: Option<BTreeMap<&String, &Values>> =
        rule.releases.iter().map(|name| Some((name, cloud.values.get(name.as_str())?))).collect();
    let values = wanted?.into_iter().map(|(name, values)| (name.clone(), Value::Object(values.clone())));
    let mut variables = cloud.selection.variables.clone();
    variables.insert("values".into(), Value::Object(values.collect::<Map<_, _>>()));
    // Where something is not set, the chart's default holds, which is not known here.
    if !rule.when.holds(&Scope::new(&variables)).unwrap_or_default() {
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
