//! Finds the presets and features that describe a running cloud best: those with which the spec needs the fewest
//! overrides.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::candidates::{FieldCandidates, choices, field_candidates, sets};
use super::describe::{CloudInventory, distance};
use super::openstack::detect_openstack_release;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use crate::desired::{Facts, Selection, resolve};
use osdpl_values::{Path, changed_paths, coalesce, get, normalize_numbers, set};

/// The name of the feature with the storage backend.
const STORAGE: &str = "storage";

/// The penalty that an error adds to the score of a spec. It exceeds the score that all values together can have, so a
/// spec without errors always wins.
const REFUSED: usize = 10_000;

/// The result of trying a change of the spec.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// The change improves the score, or the spec contained it before. [`Fit::spec`] contains it now.
    Kept,
    /// The change does not improve the score. [`Fit::spec`] does not contain it.
    Worse,
    /// With the change, the operator would refuse the spec or block a running release. [`Fit::spec`] does not contain
    /// it.
    Refused,
}

/// The search for the spec that fits a running cloud best.
pub(super) struct Fit<'a> {
    cloud: &'a CloudInventory<'a>,
    /// The spec with the lowest score so far.
    pub(super) spec: OpenStackDeploymentSpec,
    /// The score of `spec`; lower is better.
    best: usize,
}

impl<'a> Fit<'a> {
    /// Starts the search with a spec that has no presets, and no features besides the Ceph in use.
    ///
    /// This spec sets the OpenStack release, enables the services that run, and sets the names, namespaces and chart
    /// versions of releases where the catalogue has others.
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

    /// Adds presets to the spec one by one, each time the preset that improves the score most, until none improves it.
    ///
    /// First come presets that enable services, then those that only set values, such as sizes.
    pub(super) fn presets(&mut self) {
        for installs in [true, false] {
            while let Some(better) = self.with_best_preset(installs) {
                *self = better;
            }
        }
    }

    /// Returns this fit with one more preset, the one that improves the score most; `None` if no preset improves it.
    ///
    /// If `installs` is true, only presets that enable services are tried, else only presets that enable none.
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

    /// Returns a fit with another spec, its services and its score adjusted; `None` if that spec would block a running
    /// release.
    fn with(&self, spec: OpenStackDeploymentSpec) -> Option<Self> {
        let mut fit = Self { spec, ..*self };
        fit.services();
        fit.best = distance(self.cloud, &fit.spec)?;
        Some(fit)
    }

    /// Tries values for the fields of the spec, and keeps each value that improves the score.
    ///
    /// First come the values that running releases have, then all values that a feature's schema allows for
    /// enumerations, booleans and lists of enumerated members.
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

    /// Tries a choice that was refused alone together with a value for another field of its feature.
    ///
    /// For example, the operator refuses certificates without an issuer.
    fn attempt_with_another_field(&mut self, choice: (&Path, &Value), feature: &Path, candidates: &[FieldCandidates]) {
        let open = candidates.iter().filter(|(field, _)| feature.covers(field) && self.value(field).is_none());
        let others: Vec<(&Path, &Value)> = open.filter_map(|(field, values)| Some((field, values.first()?))).collect();
        for one in others {
            if self.attempt(&[one, choice]) == Outcome::Kept {
                return;
            }
        }
    }

    /// Sets these fields of the spec, and keeps their new values if the score improves.
    fn attempt(&mut self, fields: &[(&Path, &Value)]) -> Outcome {
        // With a declared Ceph, `features.storage` describes the Ceph in use. It must not change, even if another
        // choice needs fewer overrides.
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

    /// Sets `enabled` of each service that runs although no preset of the spec enables it, or the other way round.
    /// Removes `enabled` from the entries of other services.
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

/// Returns the score of a spec: the number of values that need an override, plus the number of services that the spec
/// enables or disables.
///
/// Each of the following adds a penalty: an error, a running release that the spec lacks, and a desired release that
/// does not run. Returns `None` if the spec would block a running release.
pub(super) fn score(
    cloud: &CloudInventory<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
    facts: &Facts,
) -> Option<usize> {
    let desired = resolve(spec, cloud.catalog, selection, facts);
    let errors = desired.findings.iter().filter(|finding| finding.level == Level::Error).count();
    let mut score = spec.services.values().filter(|service| service.enabled.is_some()).count();
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
    score += desired.releases.keys().filter(|name| !cloud.known.releases.contains_key(*name)).count() * 100;
    Some(score)
}
