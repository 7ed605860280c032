//! Determines what a release depends on: the components that must be available before osdpl installs the release, and
//! the releases that the release's pods wait for.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use super::source::Source;
use super::{Finding, Provider};
use crate::catalog::{Component, Need};

impl Source<'_> {
    /// Returns the components that must be available before osdpl runs helm for the release, each with the release or
    /// external service that provides it.
    pub(super) fn needs(&self, findings: &mut Vec<Finding>) -> BTreeMap<Component, Provider> {
        let mut needs = BTreeMap::new();
        for need in self.applicable(&self.release.needs, findings) {
            let Some((service, provider)) = self.catalog.provider(&need.component) else { continue };
            // If the cloud has no provider of the component, the module `services` has already added an error.
            if self.selection.external.contains_key(service) {
                needs.insert(need.component.clone(), Provider::External(service.to_owned()));
            } else if self.selection.releases.contains_key(provider) {
                needs.insert(need.component.clone(), Provider::Release(provider.to_owned()));
            }
        }
        needs
    }

    /// Returns the releases of the cloud that this release's pods wait for, by catalogue name.
    pub(super) fn waits_for(&self, findings: &mut Vec<Finding>) -> BTreeSet<String> {
        let awaited = self.applicable(&self.release.waits_for, findings).into_iter();
        let providers = awaited.filter_map(|need| Some(self.catalog.provider(&need.component)?.1));
        providers.filter(|provider| self.selection.releases.contains_key(*provider)).map(str::to_owned).collect_set()
    }

    /// Returns those of `needs` whose condition (`when`) holds in this cloud.
    fn applicable<'n>(&self, needs: &'n [Need], findings: &mut Vec<Finding>) -> Vec<&'n Need> {
        let field = format!("spec.services (release {})", self.name);
        let location = self.catalog.service_location(self.service);
        let holds = |need: &&Need| super::conditions::holds(need.when.as_ref(), self.scope, location, &field, findings);
        needs.iter().filter(holds).collect()
    }
}
