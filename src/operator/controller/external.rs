//! Services outside: published where nothing of ours stands in their place, withdrawn when they are not wanted any more.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::memory::Memory;
use crate::cluster::Error;
use osdpl_core::desired::ExternalService;
use osdpl_core::observed::Observed;

impl Context {
    /// Those whose Service no release of ours holds any more: the uninstall comes first, and that waits for approval. To publish before would
    /// take a running service's Endpoints from under it.
    pub(super) fn vacant(
        &self,
        wanted: &BTreeMap<String, ExternalService>,
        observed: &Observed,
    ) -> BTreeMap<String, ExternalService> {
        let installed = observed.releases.values().filter(|seen| seen.is_ours() && seen.status != "uninstalled");
        let installed = installed.filter_map(|seen| seen.release.as_deref());
        let running = observed.running.keys().map(|key| key.name.as_str());
        let catalog = self.catalog();
        let services = installed.chain(running).filter_map(|release| Some(catalog.release(release)?.0));
        let held: BTreeSet<&str> = services.collect();
        wanted
            .iter()
            .filter(|(service, _)| !held.contains(service.as_str()))
            .map(|(service, external)| (service.clone(), external.clone()))
            .collect()
    }

    /// Takes back what is published and not among `wanted`; asks the API server only when that changed, and after a start.
    pub(super) async fn withdraw(
        &self,
        deployment: &str,
        wanted: &BTreeMap<String, ExternalService>,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let kept: BTreeSet<(String, String)> =
            wanted.values().map(|external| (external.namespace.clone(), external.service.clone())).collect();
        if memory.external.as_ref() != Some(&kept) {
            self.cluster.remove_external(deployment, &kept).await?;
            memory.external = Some(kept);
        }
        Ok(())
    }
}
