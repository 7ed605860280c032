//! Reports overrides that break a *coupling*: a set of values of several charts that must be equal.
//!
//! `values/couplings.yaml` lists the couplings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cloud::{Cloud, Location};
use osdpl_core::catalog::{EqualSetting, entry_name};
use osdpl_core::finding::Finding;
use osdpl_values::{CollectSorted, Layer, Path, Values, get, trace};

/// A value of a release that a coupling requires to equal a value of another release.
struct CoupledValue {
    release: String,
    path: Path,
    value: Value,
    /// The location of the value; `None` if neither the user nor an addition sets the value.
    location: Option<Location>,
    /// The source of the value: the description of a layer, or "the chart's default".
    source: String,
    is_secret: bool,
}

/// Returns a finding for each override that breaks a coupling.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    // The check reports only values in layers of the user or of an addition. Skip a cloud that has no such layer.
    if !cloud.layers.values().flatten().any(|layer| cloud.layer_location(&layer.origin).is_some()) {
        return Vec::new();
    }
    let scope = &cloud.selection.scope;
    let check_coupling = |coupling: &EqualSetting| {
        let expected = coupling.expected.as_ref().and_then(|expected| expected.evaluate(scope).ok());
        let servers: BTreeSet<&str> = cloud.layers.keys().map(|name| server_of(name, coupling, cloud)).collect_set();
        let check_server =
            |server| contradictions(coupling, &coupled_values(coupling, server, cloud), expected.as_ref());
        servers.into_iter().flat_map(check_server).collect::<Vec<_>>()
    };
    cloud.catalog.cross_checks.couplings.iter().flat_map(check_coupling).collect()
}

/// Returns the release of the server, such as RabbitMQ, that the release `name` uses.
///
/// Coupled values of a release must equal those of its own server. For example, `nova` uses the server `rabbitmq-nova`,
/// and all other releases use the shared server `rabbitmq`. If `name` is a server itself, the function returns `name`.
/// The result is empty if the values of the coupling belong to no server.
fn server_of<'a>(name: &str, coupling: &'a EqualSetting, cloud: &'a Cloud<'_>) -> &'a str {
    let Some(shared) = &coupling.server else { return "" };
    let own = cloud.layers.keys().find(|other| {
        let serves = other.strip_prefix(shared.as_str()).and_then(|rest| rest.strip_prefix('-'));
        serves.is_some_and(|served| served == name || *other == name)
    });
    own.unwrap_or(shared)
}

/// Returns the values that a coupling requires to be equal: those of the release `server` and of the releases that use
/// it.
///
/// If no layer sets one of these values, the chart's default applies. The result contains such defaults only if the
/// user or an addition sets at least one of the other values.
fn coupled_values(coupling: &EqualSetting, server: &str, cloud: &Cloud<'_>) -> Vec<CoupledValue> {
    let mut values_set = Vec::new();
    let mut unset = Vec::new();
    for setting in &coupling.paths {
        // `values/couplings.yaml` names only the shared server, such as `rabbitmq`. If `server` is a separate
        // server, such as `rabbitmq-nova`, use `server` in place of the shared server.
        let with_own_server =
            |release: &str| if coupling.server.as_deref() == Some(release) { server } else { release }.to_owned();
        let coupled_release = setting.release.as_deref().map(with_own_server);
        let is_coupled = |name: &str| {
            coupled_release.as_ref().is_none_or(|release| release == name) && server_of(name, coupling, cloud) == server
        };
        for (name, layers) in cloud.layers.iter().filter(|(name, _)| is_coupled(name)) {
            let values = cloud.values[name.as_str()];
            for path in expand(&setting.path, values) {
                match coupled_value(cloud, name, layers, values, &path) {
                    Some(value) => values_set.push(value),
                    None => unset.push((name, path)),
                }
            }
        }
    }
    let Some(default) =
        coupling.default.as_ref().filter(|_| values_set.iter().any(|coupled| coupled.location.is_some()))
    else {
        return values_set;
    };
    for (name, path) in
        unset.into_iter().filter(|(name, path)| cloud.chart_keys(name).is_some_and(|keys| keys.has_path(path)))
    {
        values_set.push(CoupledValue {
            release: name.clone(),
            path,
            value: default.clone(),
            location: None,
            source: "the chart's default".into(),
            is_secret: false,
        });
    }
    values_set
}

fn coupled_value(
    cloud: &Cloud<'_>,
    name: &str,
    layers: &[Layer],
    values: &Values,
    path: &Path,
) -> Option<CoupledValue> {
    let value = get(values, path).filter(|value| !value.is_null())?;
    let trace = trace(layers, path).into_iter().next()?;
    Some(CoupledValue {
        release: name.to_owned(),
        path: path.clone(),
        value: value.clone(),
        location: cloud.layer_location(trace.origin).map(|location| location.child(path)),
        source: trace.origin.to_string(),
        is_secret: trace.secret,
    })
}

/// Returns the paths in `values` that match a pattern with one `*`.
///
/// A pattern without `*` is already a path, so the function returns the pattern itself.
fn expand(pattern: &Path, values: &Values) -> Vec<Path> {
    let Some(star) = pattern.keys().iter().position(|key| key == "*") else { return vec![pattern.clone()] };
    let above: Path = pattern.keys()[..star].iter().cloned().collect();
    let keys = get(values, &above).and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    let path = |key: &String| above.keys().iter().chain([key]).chain(&pattern.keys()[star + 1..]).cloned().collect();
    keys.map(path).filter(|path| get(values, path).is_some()).collect()
}

/// Returns a finding for each override in `values_set` that differs from `expected` or from another value of the
/// coupling.
///
/// `expected` is the value of the coupling's expression for this cloud. If `expected` is given, each override must
/// equal it. Otherwise all values in `values_set` must be equal.
fn contradictions(coupling: &EqualSetting, values_set: &[CoupledValue], expected: Option<&Value>) -> Vec<Finding> {
    let mut found: BTreeMap<(&Location, &str), Finding> = BTreeMap::new();
    for own in values_set {
        let Some(location) = &own.location else { continue };
        let remedy = if coupling.remedy.is_empty() { "set equal values" } else { &coupling.remedy };
        let contradiction = match expected {
            Some(expected) if *expected != own.value => {
                format!("is {} here and {expected} in the cloud", describe(own))
            }
            Some(_) => continue,
            None => {
                // If two overrides contradict each other, report only the override whose location sorts first. The
                // locations of the user's values sort before locations in additions.
                let is_contradicted = |other: &&CoupledValue| {
                    other.value != own.value && other.location.as_ref().is_none_or(|other| other >= location)
                };
                let Some(other) = values_set.iter().find(is_contradicted) else { continue };
                let CoupledValue { release, path, source, .. } = other;
                format!("is {} here and {} in {path} of {release} ({source})", describe(own), describe(other))
            }
        };
        let prefix = location.message_prefix(&own.release);
        let message = format!(
            "{prefix}{} {contradiction}, but both values must be equal: {}; {remedy}",
            coupling.what, coupling.why
        );
        // A value in an addition may apply to several releases. Add one finding for each of these releases.
        let release = location.addition().map_or("", |_| own.release.as_str());
        found
            .entry((location, release))
            .or_insert_with(|| Finding::warning("contradiction", location.field.clone(), message));
    }
    found.into_values().collect()
}

/// Returns a value as text for a message; for a secret value, the text `a secret`.
fn describe(coupled: &CoupledValue) -> String {
    if coupled.is_secret { "a secret".into() } else { entry_name(&coupled.value) }
}
