//! Finds the namespaces of the cloud before the first plan names them. The releases task reads the bodies of release
//! records only in these namespaces.

use std::collections::BTreeSet;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Error, ResourceExt};
use osdpl_values::CollectSorted;

use super::RECHECK_INTERVAL;
use crate::tasks::problems::Problems;
use crate::tasks::watch::describe_error;
use osdpl_client::Scope;
use osdpl_client::Stored;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::observed::ReleaseKey;

/// The name of the activity in reports to [`Problems`] about failed attempts to list the `OpenStackDeployments`.
const LISTING: &str = "listing";

/// Returns the namespaces in which the releases task reads the bodies of records before the first plan: the namespaces
/// that the operator watches or, if it watches all namespaces, those that the `OpenStackDeployments` in the cluster
/// name.
///
/// Repeats a failed request. Returns no namespaces if the CRD does not exist or the API server forbids the request.
pub(super) async fn initial(client: &Client, scope: Scope, problems: &Problems) -> BTreeSet<String> {
    if let Scope::Namespaces(namespaces) = scope {
        return namespaces.into_iter().collect_set();
    }
    // Read the `OpenStackDeployments` as dynamic objects, because the API server may have stored an object that
    // violates the schema of this operator version.
    let resource = ApiResource::erase::<OpenStackDeployment>(&());
    let all: Api<Stored<DynamicObject>> = Api::all_with(client.clone(), &resource);
    loop {
        match all.list(&ListParams::default()).await {
            Ok(list) => {
                problems.report_success(LISTING, &resource.plural);
                return list.items.iter().flat_map(named_namespaces).collect_set();
            }
            Err(Error::Api(status)) if status.is_not_found() || status.is_forbidden() => return BTreeSet::new(),
            Err(error) => problems.report_failure(LISTING, &resource.plural, describe_error(&error)),
        }
        tokio::time::sleep(RECHECK_INTERVAL).await;
    }
}

/// Returns the namespaces that an `OpenStackDeployment` names in its metadata, spec and status.
pub(crate) fn named_namespaces(stored: &Stored<DynamicObject>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = stored.namespace().into_iter().collect_set();
    let Ok(deployment) = stored.content() else { return found };
    let owned = deployment.data["status"]["ownedReleases"].as_array().into_iter().flatten();
    found.extend(owned.filter_map(|key| Some(key.as_str()?.parse::<ReleaseKey>().ok()?.namespace)));
    let services = deployment.data["spec"]["services"].as_object().into_iter().flat_map(|services| services.values());
    let releases = services.filter_map(|service| service["releases"].as_object()).flat_map(|all| all.values());
    found.extend(releases.filter_map(|release| release["namespace"].as_str()).map(str::to_owned));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_namespaces_that_a_resource_names() {
        let deployment = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": "openstack"},
            "spec": {"services": {"nova": {"releases": {"nova": {"namespace": "compute"}}}, "heat": 7}},
            "status": {"ownedReleases": ["images/glance", 7, "nonsense"]},
        });
        let deployment = serde_json::from_str(&deployment.to_string()).unwrap();
        assert!(named_namespaces(&deployment).iter().eq(["compute", "images", "openstack"]));
    }
}
