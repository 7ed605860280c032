//! Searches for the presets and features that describe a running cloud best: with them, the spec needs the fewest
//! overrides.
//!
//! Measured with the clouds in `tests/catalogue/adopted.yaml`: the [`score`] of the spec without a search, after a
//! search for presets only, after a search for features only, and after both searches. A score of 1 000 or more means
//! that the spec lacks running releases, so the operator would not manage them.
//!
//! | cloud | no search | presets only | features only | both |
//! |---|---|---|---|---|
//! | the oldest OpenStack on Open vSwitch | 11 | 1 | 11 | 1 |
//! | OVN in another region | 1 057 | 1 045 | 12 | 0 |
//! | brokers of their own | 2 015 | 2 005 | 11 | 1 |
//! | load balancers, names and keys, made for a small cloud | 66 | 1 | 65 | 1 |
//! | three of each on Ceph | 54 | 1 | 51 | 1 |
//! | certificates on every endpoint | 193 | 183 | 11 | 1 |
//! | installed by osdpl and detached | 284 | 237 | 52 | 5 |

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::candidates::{FieldCandidates, choices, field_candidates, sets};
use super::inventory::CloudInventory;
use super::openstack::detect_openstack_release;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use crate::desired::{Facts, Selection, resolve};
use osdpl_values::{CollectSorted, Path, changed_paths, coalesce, get, normalize_numbers, set};

/// The name of the feature that selects the storage backend.
const STORAGE: &str = "storage";

/// The number that each error in a spec adds to its score. It is far more than the usual number of overrides, so the
/// search prefers specs without errors.
const REFUSED: usize = 10_000;

/// The result of a change of the spec that the search tried.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// The tried values improve the score, or [`Fit::spec`] had these values already. [`Fit::spec`] now contains the
    /// tried values.
    Kept,
    /// The changed spec has no better score, is not a valid [`OpenStackDeploymentSpec`], or changes the storage feature
    /// of a cloud that uses Ceph. [`Fit::spec`] stays as it is.
    Worse,
    /// With the changed spec, the operator would refuse the cloud, or could not run helm for a running release.
    /// [`Fit::spec`] stays as it is.
    Refused,
}

/// The state of the search for the spec that fits a running cloud best.
pub(super) struct Fit<'a> {
    cloud: &'a CloudInventory<'a>,
    /// The spec with the lowest score so far.
    pub(super) spec: OpenStackDeploymentSpec,
    /// The score of `spec`; lower is better.
    best: usize,
}

impl<'a> Fit<'a> {
    /// Starts the search with a spec without presets and features. If the cloud uses Ceph, `storage` is the only
    /// feature of the spec.
    ///
    /// The spec sets the OpenStack release and enables the services that run. It also sets the name, namespace and
    /// chart version of each running release where they differ from the catalogue.
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

    /// Adds presets to the spec, one in each round: the preset that improves the score most. Ends when no preset
    /// improves the score.
    ///
    /// First adds presets that enable services, then presets that only set values, such as sizes.
    pub(super) fn presets(&mut self) {
        for installs in [true, false] {
            while let Some(better) = self.with_best_preset(installs) {
                *self = better;
            }
        }
    }

    /// Returns a copy of this search with one more preset in the spec: the preset that improves the score most. Returns
    /// `None` if no preset improves the score.
    ///
    /// If `installs` is true, the method tries only presets that enable services, else only presets that enable none.
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

    /// Returns a copy of this search that continues from `spec`. Sets `enabled` of the services in `spec`, and computes
    /// the score of the result. Returns `None` if osdpl can't run helm for one of the running releases with this spec.
    fn with(&self, spec: OpenStackDeploymentSpec) -> Option<Self> {
        let mut fit = Self { spec, ..*self };
        fit.services();
        fit.best = distance(self.cloud, &fit.spec)?;
        Some(fit)
    }

    /// Tries values for the fields of the spec, and keeps each value that improves the score.
    ///
    /// The catalogue copies some fields of the spec to paths of helm values. For these fields, the method first tries
    /// the values that the running releases have at these paths. Then it tries the other values that the schemas of
    /// features allow: both values of a boolean, each value of an `enum`, and, for a list whose items have an `enum`,
    /// each possible item.
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
                        self.attempt_with_another_field(&field, value, &path, &candidates);
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

    /// Sets `field` to `value` together with a second field of the same feature. Tries each possible second field in
    /// turn, until the score improves. The caller has found that the operator would refuse a spec with `field` alone.
    ///
    /// For example, the operator refuses a spec that enables certificates but names no issuer for them.
    fn attempt_with_another_field(
        &mut self,
        field: &Path,
        value: &Value,
        feature: &Path,
        candidates: &[FieldCandidates],
    ) {
        let open = candidates.iter().filter(|(field, _)| feature.covers(field) && self.value(field).is_none());
        let others: Vec<(&Path, &Value)> = open.filter_map(|(field, values)| Some((field, values.first()?))).collect();
        for one in others {
            if self.attempt(&[one, (field, value)]) == Outcome::Kept {
                return;
            }
        }
    }

    /// Sets the given `fields` of the spec, and keeps the new values only if they improve the score.
    fn attempt(&mut self, fields: &[(&Path, &Value)]) -> Outcome {
        // If the cloud uses Ceph, `features.storage` declares the Ceph cluster that contains the cloud's data. The
        // search must not change this feature, even if the spec would then need fewer overrides.
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

    /// Sets `enabled` of each service for which the presets alone would be wrong: true if the service runs but no
    /// preset enables it, false if a preset enables the service but it does not run.
    ///
    /// Removes `enabled` from all other services.
    fn services(&mut self) {
        let running: BTreeSet<&str> =
            self.cloud.known.releases.keys().filter_map(|name| Some(self.cloud.catalog.release(name)?.0)).collect_set();
        let presets = self.spec.presets.iter().filter_map(|name| self.cloud.catalog.presets.get(name));
        let implied: BTreeSet<&str> = presets.flat_map(|preset| &preset.services).map(String::as_str).collect_set();
        for service in self.cloud.catalog.services.keys() {
            let (runs, implied) = (running.contains(service.as_str()), implied.contains(service.as_str()));
            let enabled = (runs != implied).then_some(runs);
            if enabled.is_some() || self.spec.services.contains_key(service) {
                self.spec.services.entry(service.clone()).or_default().enabled = enabled;
            }
        }
    }
}

/// Returns the [`score`] of a spec, which says how far the resulting cloud is from the running cloud. Returns `None` if
/// osdpl can't run helm for a running release with this spec.
fn distance(cloud: &CloudInventory<'_>, spec: &OpenStackDeploymentSpec) -> Option<usize> {
    let selection = cloud.selected(spec);
    let facts = cloud.facts(&selection);
    score(cloud, spec, &selection, &facts)
}

/// Returns the score of a spec; a lower score is better.
///
/// The score is the number of values that need an override, plus the number of services for which the spec sets
/// `enabled`, plus a penalty for each of the following: an error, a running release that the spec does not contain, and
/// a release in the spec that does not run.
///
/// Returns `None` if osdpl can't run helm for a running release with this spec.
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
