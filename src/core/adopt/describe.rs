//! Builds the spec that describes a running cloud: presets and features, and overrides for all other values of the
//! running releases.

use std::collections::BTreeMap;

use super::fit::Fit;
use super::inventory::CloudInventory;
use super::openstack::detect_openstack_release;
use super::overrides::compute_overrides;
use super::{Comparison, SecretContent, Secrets, compare_release};
use crate::api::{OpenStackDeploymentSpec, SecretKey, ValuesFrom, ValuesKind};
use crate::desired::{DesiredRelease, Finding, Selection, warn_unknown_keys};
use osdpl_values::CollectSorted;

/// The key under which a Secret stores helm values.
const VALUES_KEY: &str = "values.yaml";

/// The result of [`CloudInventory::describe`]: the spec and the Secrets that describe a running cloud, and what its
/// adoption would change.
pub struct Description {
    /// The spec that describes the cloud. It has `paused` set, so that the operator changes nothing before a person has
    /// checked the plan.
    pub spec: OpenStackDeploymentSpec,
    /// The Secrets that the spec references. A person must create them together with the `OpenStackDeployment`.
    pub secrets: Secrets,
    /// The changes that the first upgrade after the adoption would make in each running release, by the release's name
    /// in the catalogue.
    pub compared: BTreeMap<String, Comparison>,
    /// The releases that result from `spec`, by their names in the catalogue.
    pub wanted: BTreeMap<String, DesiredRelease>,
    /// The catalogue names of the releases in the spec that do not run in this cluster, such as releases that running
    /// releases need. The spec pauses these releases, so that the operator does not install them.
    pub installs: Vec<String>,
    /// The errors, warnings and notes about the spec.
    pub findings: Vec<Finding>,
}

impl CloudInventory<'_> {
    /// Builds the spec and the Secrets that describe the running cloud. The same inventory always gives the same
    /// description.
    pub fn describe(&self) -> Description {
        let mut fit = Fit::new(self);
        fit.presets();
        fit.features();
        let mut spec = fit.spec;
        let mut secrets: Secrets = self.storage.iter().map(|storage| storage.secret.clone()).collect_map();
        let selection = self.selected(&spec);
        self.credentials(&mut spec, &selection, &mut secrets);
        let mut facts = self.facts(&selection);
        let desired = self.resolved(&spec, &facts).desired;
        for (name, found) in &self.known.releases {
            let Some(release) = desired.releases.get(name) else { continue };
            let rest = compute_overrides(&found.source.defaults, &release.values, &found.source.config);
            let own = spec.services.entry(release.service.clone()).or_default();
            let own = own.releases.entry(name.clone()).or_default();
            own.overrides = rest.plain;
            if !rest.secret.is_empty() {
                let secret = format!("{}-adopted-{name}", self.name);
                own.values_from =
                    vec![ValuesFrom { kind: ValuesKind::Secret, name: secret.clone(), key: None, optional: false }];
                let reference = (ValuesKind::Secret, secret.clone(), VALUES_KEY.to_owned());
                facts.values_from.insert(reference, Ok(rest.secret.clone()));
                secrets.entry(secret).or_default().insert(VALUES_KEY.into(), SecretContent::Values(rest.secret));
            }
        }
        let installs: Vec<String> =
            desired.releases.keys().filter(|name| !self.known.releases.contains_key(*name)).cloned().collect();
        // `installs` are the releases in the spec that do not run in this cluster. Their services may run in another
        // cluster. So pause these releases in the spec: the operator then does not install them before a person has
        // checked where the services run.
        for name in &installs {
            let service = desired.releases[name].service.clone();
            spec.services.entry(service).or_default().releases.entry(name.clone()).or_default().paused = true;
        }
        remove_empty_overrides(&mut spec);
        let layered = self.resolved(&spec, &facts);
        let unread = warn_unknown_keys(&spec, self.catalog, &layered);
        let desired = layered.desired;
        let compared = self
            .known
            .releases
            .iter()
            .filter_map(|(name, found)| {
                Some((name.clone(), compare_release(desired.releases.get(name)?, &found.source)))
            })
            .collect_map();
        let mut findings = desired.findings;
        findings.extend(unread);
        findings.extend(detect_openstack_release(self.known, self.catalog).warning);
        Description { compared, findings, wanted: desired.releases, installs, spec, secrets }
    }

    /// Stores the credentials of running releases in `secrets`, in one Secret for each service, and adds references to
    /// these Secrets to the spec.
    fn credentials(&self, spec: &mut OpenStackDeploymentSpec, selection: &Selection, secrets: &mut Secrets) {
        for ((service, name), value) in self.usable_credentials(selection) {
            let secret = format!("{}-adopted-credentials-{}", self.name, service.replace('_', "-"));
            let key = SecretKey { name: secret.clone(), key: name.clone() };
            spec.services.entry(service.clone()).or_default().credentials.insert(name.clone(), key);
            secrets.entry(secret).or_default().insert(name.clone(), SecretContent::Text(value.clone()));
        }
    }
}

/// Removes the services and releases from `spec.services` for which the spec sets nothing.
fn remove_empty_overrides(spec: &mut OpenStackDeploymentSpec) {
    for service in spec.services.values_mut() {
        service.releases.retain(|_, release| *release != crate::api::ReleaseOverrides::default());
    }
    spec.services.retain(|_, service| *service != crate::api::ServiceOverrides::default());
}
