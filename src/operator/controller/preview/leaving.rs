//! A resource that is being deleted, and one that is not.

use kube::ResourceExt;

use crate::controller::gather::known;
use crate::controller::leftovers::leftovers;
use crate::controller::teardown::letting_go;
use crate::tasks::Observation;
use osdpl_core::api::{DeletionPolicy, OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Selection, select};
use osdpl_core::nodes::{self, NodeInventory};
use osdpl_core::observed::Observed;
use osdpl_core::plan::Plan;

pub fn is_leaving(deployment: &OpenStackDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

/// Whether it goes and leaves everything as it runs, labels of nodes too.
pub fn is_let_go(deployment: &OpenStackDeployment) -> bool {
    is_leaving(deployment) && deployment.spec.deletion_policy == Some(DeletionPolicy::Detach)
}

/// What is done then, whatever the spec says. What helm is in the middle of and nobody has heard of yet is called as the spec calls it.
pub fn plan(observed: &Observed, selection: &Selection) -> Plan {
    letting_go(observed, &known(selection))
}

/// What the spec means for the nodes, where they may be seen; on deletion the labels go once the releases are gone, where none stays that is not ours.
pub fn survey(
    deployment: &OpenStackDeployment,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    seen: &Observation,
) -> NodeInventory {
    match seen.nodes() {
        Some(_) if is_let_go(deployment) => NodeInventory::default(),
        Some(_) if is_leaving(deployment) && keeps_labels(deployment, spec, catalog, seen) => NodeInventory::default(),
        Some(all) if is_leaving(deployment) => {
            NodeInventory { changes: nodes::labels_to_remove(all), ..NodeInventory::default() }
        }
        Some(all) => nodes::build_inventory(spec, catalog, all),
        None => NodeInventory::default(),
    }
}

fn keeps_labels(
    deployment: &OpenStackDeployment,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    seen: &Observation,
) -> bool {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    leftovers(&select(&name, &namespace, spec, catalog), &seen.releases, catalog).needed.labels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::observed::ReleaseKey;
    use osdpl_core::testing::world::running_helm;

    #[test]
    fn a_release_that_helm_makes_for_the_first_time_is_let_go_by_the_name_that_the_catalogue_has_for_it() {
        let releases = json!({"horizon": {"name": "dashboard"}});
        let spec =
            json!({"openstackRelease": "2026.1", "presets": ["core"], "services": {"horizon": {"releases": releases}}});
        let catalog = osdpl_core::files::load_catalog(None).unwrap();
        let selection = select("cloud", "openstack", &serde_json::from_value(spec).unwrap(), &catalog);
        let running = [(ReleaseKey::new("openstack", "dashboard"), running_helm("new"))].into();
        let plan = plan(&Observed { running, ..Observed::default() }, &selection);
        assert_eq!(plan.decisions.keys().collect::<Vec<_>>(), ["horizon"]);
    }
}
