//! Finds the presets and features that fit: those that leave the fewest values to override, tried in the catalogue's
//! order.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::candidates::{FieldCandidates, choices, field_candidates, sets};
use super::describe::{CloudInventory, distance};
use super::openstack::detect_openstack_release;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use crate::desired::{Facts, Selection, resolve};
use osdpl_values::{Path, changed_paths, coalesce, get, normalize_numbers, set};

/// The feature with the storage backend.
const STORAGE: &str = "storage";

/// The score of a refused spec; higher than the score of all values together.
const REFUSED: usize = 10_000;

/// The result of a trial.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// The spec has been changed.
    Kept,
    /// The change does not help.
    Worse,
    /// The spec would be refused.
    Refused,
}

/// A spec that is fitted to a running cloud.
pub(super) struct Fit<'a> {
    cloud: &'a CloudInventory<'a>,
    /// The best spec so far.
    pub(super) spec: OpenStackDeploymentSpec,
    best: usize,
}

impl<'a> Fit<'a> {
    /// Starts with the parts that are certain: the OpenStack release, and the names, namespaces and versions of the
    /// releases.
    pub(super) fn new(cloud: &'a CloudInventory<'a>) -> Self {
        let mut spec = OpenStackDeploymentSpec {
            openstack_release: detect_openstack_release(cloud.known, cloud.catalog).name,
            paused: true,
            ..OpenStackDeploymentSpec::default()
        };
        for (name, found) in &cloud.known.releases {
            let Some((service, release)) = cloud.catalog.release(name) else { continue };
            let own = spec.services.entry(service.to_owned()).or_default();
            let own = own.releases.entry(name.clone()).or_default();
            let other = |actual: &String, usual: &str| Some(actual.clone()).filter(|actual| actual != usual);
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

    /// Adds the presets that help: first those that install services, then sizes; of each kind the best one first.
    pub(super) fn presets(&mut self) {
        for installs in [true, false] {
            while let Some(better) = self.with_best_preset(installs) {
                *self = better;
            }
        }
    }

    /// Returns the fit with the one more preset that helps most.
    fn with_best_preset(&self, installs: bool) -> Option<Self> {
        let presets = self.cloud.catalog.presets.iter();
        let presets = presets.filter(|(_, preset)| preset.services.is_empty() != installs);
        let fits = presets.filter_map(|(name, _)| {
            let mut spec = self.spec.clone();
            spec.presets.push(name.clone());
            self.with(spec)
        });
        fits.filter(|fit| fit.best < self.best).min_by_key(|fit| fit.best)
    }

    /// Returns the fit with another spec; `None` if a running release would be blocked.
    fn with(&self, spec: OpenStackDeploymentSpec) -> Option<Self> {
        let mut fit = Self { spec, ..*self };
        fit.services();
        fit.best = distance(self.cloud, &fit.spec)?;
        Some(fit)
    }

    /// Tries the values found for each field of the spec, then each choice of each feature.
    pub(super) fn features(&mut self) {
        let candidates = field_candidates(self.cloud);
        for (field, values) in &candidates {
            for value in values {
                self.attempt(&[(field, value)]);
            }
        }
        for (name, feature) in &self.cloud.catalog.features {
            let path = Path::root().child("features").child(name);
            for (field, values) in choices(&feature.schema, &path) {
                for value in &values {
                    if self.attempt(&[(&field, value)]) == Outcome::Refused {
                        self.attempt_with_another_field((&field, value), &path, &candidates);
                    }
                }
            }
            for (field, members) in sets(&feature.schema, &path) {
                for member in members {
                    let mut all = self.value(&field).and_then(|all| all.as_array().cloned()).unwrap_or_default();
                    all.push(member);
                    self.attempt(&[(&field, &Value::Array(all))]);
                }
            }
        }
    }

    /// Tries a choice that is refused alone together with a candidate for another field of its feature, such as
    /// certificates together with an issuer.
    fn attempt_with_another_field(&mut self, choice: (&Path, &Value), feature: &Path, candidates: &[FieldCandidates]) {
        let open = candidates.iter().filter(|(field, _)| feature.covers(field) && self.value(field).is_none());
        let others: Vec<(&Path, &Value)> = open.filter_map(|(field, values)| Some((field, values.first()?))).collect();
        for one in others {
            if self.attempt(&[one, choice]) == Outcome::Kept {
                return;
            }
        }
    }

    /// Sets the fields and keeps them if the result is better.
    fn attempt(&mut self, fields: &[(&Path, &Value)]) -> Outcome {
        // `features.storage` describes the Ceph in use, so it is fixed, even if another choice needs fewer overrides.
        let is_storage = |field: &Path| field.keys().starts_with(&["features".into(), STORAGE.into()]);
        if self.cloud.storage.is_some() && fields.iter().any(|(field, _)| is_storage(field)) {
            return Outcome::Worse;
        }
        let Some(mut tree) = self.tree() else { return Outcome::Worse };
        if fields.iter().all(|(field, value)| get(&tree, field) == Some(value)) {
            return Outcome::Kept;
        }
        for (field, value) in fields {
            set(&mut tree, field, (*value).clone());
        }
        let Ok(spec) = serde_json::from_value::<OpenStackDeploymentSpec>(Value::Object(tree)) else {
            return Outcome::Worse;
        };
        match self.with(spec) {
            Some(fit) if fit.best < self.best => {
                *self = fit;
                Outcome::Kept
            }
            Some(fit) if fit.best < self.best.saturating_add(REFUSED) => Outcome::Worse,
            _ => Outcome::Refused,
        }
    }

    fn tree(&self) -> Option<Map<String, Value>> {
        let Ok(Value::Object(tree)) = serde_json::to_value(&self.spec) else { return None };
        Some(tree)
    }

    fn value(&self, field: &Path) -> Option<Value> {
        get(&self.tree()?, field).filter(|value| !value.is_null()).cloned()
    }

    /// Sets `enabled` for each service where the presets do not match the running cloud.
    fn services(&mut self) {
        let running: BTreeSet<&str> =
            self.cloud.known.releases.keys().filter_map(|name| Some(self.cloud.catalog.release(name)?.0)).collect();
        let presets = self.spec.presets.iter().filter_map(|name| self.cloud.catalog.presets.get(name));
        let implied: BTreeSet<&str> = presets.flat_map(|preset| &preset.services).map(String::as_str).collect();
        for service in self.cloud.catalog.services.keys() {
            let (runs, implied) = (running.contains(service.as_str()), implied.contains(service.as_str()));
            let enabled = (runs != implied).then_some(runs);
            if enabled.is_some() || self.spec.services.contains_key(service) {
                self.spec.services.entry(service.clone()).or_default().enabled = enabled;
            }
        }
    }
}

/// Returns the score of a spec: the number of values to override, and of services that the spec lists one by one.
///
/// Errors and missing releases add a penalty. Returns `None` if a running release would be blocked.
pub(super) fn score(
    cloud: &CloudInventory<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
    facts: &Facts,
) -> Option<usize> {
    let desired = resolve(spec, cloud.catalog, selection, facts);
    let errors = desired.findings.iter().filter(|finding| finding.level == Level::Error).count();
    let mut score = spec.services.values().filter(|service| service.enabled.is_some()).count();
    // A refusal weighs more than any value, so an accepted choice always wins.
    score += errors * REFUSED;
    for (name, found) in &cloud.known.releases {
        match desired.releases.get(name) {
            None => score += 1_000,
            Some(release) if release.blocked.is_some() => return None,
            Some(release) => {
                let mut wanted = coalesce(&found.source.defaults, &release.values);
                normalize_numbers(&mut wanted);
                score += changed_paths(&found.effective_values, &wanted).len();
            }
        }
    }
    // Each release that would be installed in addition is a penalty.
    score += desired.releases.keys().filter(|name| !cloud.known.releases.contains_key(*name)).count() * 100;
    Some(score)
}
