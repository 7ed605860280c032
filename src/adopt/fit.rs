//! Which presets and features fit: those that leave the fewest values to override, each tried in the catalogue's order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::describe::{Cloud, distance};
use super::openstack::runs;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use crate::desired::{Facts, Selection, resolve};
use crate::values::{Path, changed, coalesce, get, plain_numbers, set};

/// The feature that says where data are kept.
const STORAGE: &str = "storage";

/// A spec that is being fitted.
pub(super) struct Fit<'a> {
    cloud: &'a Cloud<'a>,
    /// The best so far.
    pub(super) spec: OpenStackDeploymentSpec,
    best: usize,
}

impl<'a> Fit<'a> {
    /// What is certain: the OpenStack release, and what is installed where, in which version.
    pub(super) fn new(cloud: &'a Cloud<'a>) -> Self {
        let mut spec = OpenStackDeploymentSpec {
            openstack_release: runs(cloud.known, cloud.catalog).name,
            paused: true,
            ..OpenStackDeploymentSpec::default()
        };
        for (name, found) in &cloud.known.releases {
            let Some((service, release)) = cloud.catalog.release(name) else { continue };
            let own = spec.services.entry(service.to_owned()).or_default();
            let own = own.releases.entry(name.clone()).or_default();
            let other = |is: &String, usual: &str| Some(is.clone()).filter(|is| is != usual);
            own.name = other(&found.key.name, name);
            own.namespace = other(&found.key.namespace, release.namespace.as_deref().unwrap_or(cloud.namespace));
            let locked = cloud.catalog.lock.get(&release.chart).map_or("", |pin| pin.version.as_str());
            own.version = other(&found.source.chart.version, locked);
        }
        if let Some(storage) = cloud.storage {
            spec.features.insert(STORAGE.into(), storage.feature.clone());
        }
        let mut fit = Self { cloud, spec, best: usize::MAX };
        fit.services();
        fit.best = distance(cloud, &fit.spec).unwrap_or(usize::MAX);
        fit
    }

    /// Adds the preset that helps most, as long as one does.
    pub(super) fn presets(&mut self) {
        loop {
            let free: Vec<&String> =
                self.cloud.catalog.presets.keys().filter(|preset| !self.spec.presets.contains(preset)).collect();
            let before = self.best;
            let mut better = None;
            for preset in free {
                let mut fit = Self { cloud: self.cloud, spec: self.spec.clone(), best: self.best };
                fit.spec.presets.push(preset.clone());
                fit.services();
                if let Some(distance) = distance(self.cloud, &fit.spec).filter(|distance| *distance < self.best) {
                    self.best = distance;
                    better = Some(fit.spec);
                }
            }
            match better {
                Some(spec) if self.best < before => self.spec = spec,
                _ => return,
            }
        }
    }

    /// Tries what the values themselves name for each field of the spec, then each choice that a feature has.
    pub(super) fn features(&mut self) {
        for (field, values) in named(self.cloud) {
            for value in values {
                self.attempt(&field, &value);
            }
        }
        for (name, feature) in &self.cloud.catalog.features {
            for (path, choices) in choices(&feature.schema, &Path::root().child("features").child(name)) {
                for value in choices {
                    self.attempt(&path, &value);
                }
            }
        }
    }

    /// Keeps a field's value where it helps.
    fn attempt(&mut self, field: &Path, value: &Value) {
        // What declares the Ceph that is in use stands, however few overrides another choice would leave.
        if self.cloud.storage.is_some() && field.keys().starts_with(&["features".into(), STORAGE.into()]) {
            return;
        }
        let Ok(Value::Object(mut tree)) = serde_json::to_value(&self.spec) else { return };
        if get(&tree, field) == Some(value) {
            return;
        }
        set(&mut tree, field, value.clone());
        let Ok(spec) = serde_json::from_value::<OpenStackDeploymentSpec>(Value::Object(tree)) else { return };
        let mut fit = Self { cloud: self.cloud, spec, best: self.best };
        fit.services();
        if let Some(distance) = distance(self.cloud, &fit.spec).filter(|distance| *distance < self.best) {
            (self.spec, self.best) = (fit.spec, distance);
        }
    }

    /// Says of each service whether it is part of the cloud, where the presets do not say so already.
    fn services(&mut self) {
        let running: BTreeSet<&str> =
            self.cloud.known.releases.keys().filter_map(|name| Some(self.cloud.catalog.release(name)?.0)).collect();
        let presets = self.spec.presets.iter().filter_map(|name| self.cloud.catalog.presets.get(name));
        let implied: BTreeSet<&str> = presets.flat_map(|preset| &preset.services).map(String::as_str).collect();
        for service in self.cloud.catalog.services.keys() {
            let (runs, implied) = (running.contains(service.as_str()), implied.contains(service.as_str()));
            let said = (runs != implied).then_some(runs);
            if said.is_some() || self.spec.services.contains_key(service) {
                self.spec.services.entry(service.clone()).or_default().enabled = said;
            }
        }
    }
}

/// How many values would have to be overridden, and how many services are named one by one; `None` where the spec would be refused for what it
/// would not be without, or lacks something.
pub(super) fn score(
    cloud: &Cloud<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
    facts: &Facts,
) -> Option<usize> {
    let desired = resolve(spec, cloud.catalog, selection, facts);
    let errors = desired.findings.iter().filter(|finding| finding.level == Level::Error).count();
    let mut score = spec.services.values().filter(|service| service.enabled.is_some()).count();
    // Worse than any value, so that a choice which is refused loses against one that is not.
    score += errors * 10_000;
    for (name, found) in &cloud.known.releases {
        match desired.releases.get(name) {
            None => score += 1_000,
            Some(release) if release.blocked.is_some() => return None,
            Some(release) => {
                let mut wanted = coalesce(&found.source.defaults, &release.values);
                plain_numbers(&mut wanted);
                score += changed(&found.seen, &wanted).len();
            }
        }
    }
    // What would be installed beside what runs.
    score += desired.releases.keys().filter(|name| !cloud.known.releases.contains_key(*name)).count() * 100;
    Some(score)
}

/// What the releases' values have where the catalogue puts a field of the spec, whole: most often first.
fn named(cloud: &Cloud<'_>) -> Vec<(Path, Vec<Value>)> {
    let mut counts: BTreeMap<Path, BTreeMap<String, (usize, Value)>> = BTreeMap::new();
    for (name, found) in &cloud.known.releases {
        for (path, source) in cloud.catalog.bodies(name).flat_map(crate::catalog::Body::whole) {
            let (Some(field), Some(value)) = (field(&source), get(&found.seen, &path)) else { continue };
            if value.is_object() || value.is_array() || value.is_null() {
                continue;
            }
            let entry = counts.entry(field).or_default().entry(value.to_string());
            entry.or_insert_with(|| (0, value.clone())).0 += 1;
        }
    }
    let ordered = |values: BTreeMap<String, (usize, Value)>| {
        let mut values: Vec<_> = values.into_values().collect();
        values.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        values.into_iter().map(|(_, value)| value).take(2).collect()
    };
    counts.into_iter().map(|(field, values)| (field, ordered(values))).collect()
}

/// The field of the spec that an expression is, if it is one and no more: `features.network.tunnelInterface`, `spec.region`.
fn field(source: &str) -> Option<Path> {
    let plain =
        source.split('.').all(|key| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let path = Path::parse(source).ok().filter(|_| plain)?;
    match path.keys().split_first()? {
        (top, rest) if top == "spec" && matches!(rest, [one] if FIELDS.contains(&one.as_str())) => {
            Some(rest.iter().cloned().collect())
        }
        (top, rest) if top == "features" && rest.len() > 1 => Some(path),
        _ => None,
    }
}

/// The fields that a cloud which runs can tell.
const FIELDS: [&str; 3] = ["region", "storageClass", "publicDomain"];

/// Every field of a schema that has few values, with these.
fn choices(schema: &Value, at: &Path) -> Vec<(Path, Vec<Value>)> {
    let mut found = Vec::new();
    let properties = schema["properties"].as_object().cloned().unwrap_or_else(Map::new);
    for (name, property) in &properties {
        let path = at.child(name);
        if let Some(values) = property["enum"].as_array() {
            found.push((path, values.clone()));
        } else if property["type"] == "boolean" {
            found.push((path, vec![true.into(), false.into()]));
        } else {
            found.extend(choices(property, &path));
        }
    }
    found
}
