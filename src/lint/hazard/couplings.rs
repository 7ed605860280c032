//! What several charts must be told alike (`values/couplings.yaml`), and an override tells to some of them only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Cloud, Hazard, Spot};
use osdpl_core::catalog::{Coupling, entry_name};
use osdpl_values::{Layer, Path, Values, get, trace};

/// Something that a release is told.
struct Told {
    release: String,
    path: Path,
    value: Value,
    /// Where it is decided, where that is somebody's own word.
    spot: Option<Spot>,
    /// What decides it, for people.
    source: String,
    is_secret: bool,
}

/// Every contradiction that an override brings about.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Hazard> {
    // Where nobody says a word of their own, nobody contradicts.
    if !cloud.layers.values().flatten().any(|layer| cloud.spot(&layer.origin).is_some()) {
        return Vec::new();
    }
    let scope = &cloud.selection.scope;
    let judge = |coupling: &Coupling| {
        let expected = coupling.expected.as_ref().and_then(|expected| expected.evaluate(scope).ok());
        let servers: BTreeSet<&str> = cloud.layers.keys().map(|name| server_of(name, coupling, cloud)).collect();
        let of = |server| contradictions(coupling, &told(coupling, server, cloud), expected.as_ref());
        servers.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    cloud.catalog.judgements.couplings.iter().flat_map(judge).collect()
}

/// Whom a release is judged with: its own server where it has one, or is one, and else the one of all.
fn server_of<'a>(name: &str, coupling: &'a Coupling, cloud: &'a Cloud<'_>) -> &'a str {
    let Some(shared) = &coupling.server else { return "" };
    let own = cloud.layers.keys().find(|other| {
        let serves = other.strip_prefix(shared.as_str()).and_then(|rest| rest.strip_prefix('-'));
        serves.is_some_and(|served| served == name || *other == name)
    });
    own.unwrap_or(shared)
}

/// Everything that is said to a server and those that it serves, and, where somebody says any of it in their own words, the defaults of those that nobody tells.
fn told(coupling: &Coupling, server: &str, cloud: &Cloud<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    let mut silent = Vec::new();
    for wanted in &coupling.places {
        // What is said of the one of all is said of one's own.
        let named =
            |release: &str| if coupling.server.as_deref() == Some(release) { server } else { release }.to_owned();
        let wanted_of = wanted.release.as_deref().map(named);
        let is_meant = |name: &str| {
            wanted_of.as_ref().is_none_or(|release| release == name) && server_of(name, coupling, cloud) == server
        };
        for (name, layers) in cloud.layers.iter().filter(|(name, _)| is_meant(name)) {
            let values = cloud.values[name.as_str()];
            for path in expanded(&wanted.path, values) {
                match said(cloud, (name, layers), values, &path) {
                    Some(said) => told.push(said),
                    None => silent.push((name, path)),
                }
            }
        }
    }
    let Some(default) = coupling.default.as_ref().filter(|_| told.iter().any(|told| told.spot.is_some())) else {
        return told;
    };
    for (name, path) in silent.into_iter().filter(|(name, path)| cloud.tree(name).is_some_and(|tree| tree.knows(path)))
    {
        told.push(Told {
            release: name.clone(),
            path,
            value: default.clone(),
            spot: None,
            source: "the chart's default".into(),
            is_secret: false,
        });
    }
    told
}

fn said(cloud: &Cloud<'_>, (name, layers): (&str, &[Layer]), values: &Values, path: &Path) -> Option<Told> {
    let value = get(values, path).filter(|value| !value.is_null())?;
    let trace = trace(layers, path).into_iter().next()?;
    Some(Told {
        release: name.to_owned(),
        path: path.clone(),
        value: value.clone(),
        spot: cloud.spot(trace.origin).map(|spot| spot.at(path)),
        source: trace.origin.to_string(),
        is_secret: trace.secret,
    })
}

/// The paths that a pattern stands for in these values; itself where it has no `*`.
fn expanded(pattern: &Path, values: &Values) -> Vec<Path> {
    let Some(star) = pattern.keys().iter().position(|key| key == "*") else { return vec![pattern.clone()] };
    let above: Path = pattern.keys()[..star].iter().cloned().collect();
    let keys = get(values, &above).and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    let path = |key: &String| above.keys().iter().chain([key]).chain(&pattern.keys()[star + 1..]).cloned().collect();
    keys.map(path).filter(|path| get(values, path).is_some()).collect()
}

/// What of it is somebody's own word and agrees with nobody, each with one that it contradicts.
fn contradictions(coupling: &Coupling, told: &[Told], expected: Option<&Value>) -> Vec<Hazard> {
    let mut found: BTreeMap<(&Spot, &str), Hazard> = BTreeMap::new();
    for own in told {
        let Some(spot) = &own.spot else { continue };
        let remedy = if coupling.remedy.is_empty() { "make them equal" } else { &coupling.remedy };
        let against = match expected {
            Some(wanted) if *wanted != own.value => format!("is {} where the cloud says {wanted}", shown(own)),
            Some(_) => continue,
            None => {
                // Where all are such words, one of them is blamed: the first, and the user's before another's.
                let is_blamed =
                    |other: &&Told| other.value != own.value && other.spot.as_ref().is_none_or(|theirs| theirs >= spot);
                let Some(other) = told.iter().find(is_blamed) else { continue };
                let Told { release, path, source, .. } = other;
                format!("is {} here and {} in {path} of {release} ({source})", shown(own), shown(other))
            }
        };
        let before = spot.before(&own.release);
        let message = format!("{before}{} {against}, and both must agree: {}; {remedy}", coupling.what, coupling.why);
        // One place in what was added may speak of several releases.
        let of = spot.stands().map_or("", |_| own.release.as_str());
        found.entry((spot, of)).or_insert_with(|| Hazard { kind: "contradiction", field: spot.field.clone(), message });
    }
    found.into_values().collect()
}

fn shown(told: &Told) -> String {
    if told.is_secret { "a secret".into() } else { entry_name(&told.value) }
}
