//! Provides the catalogue and data about the cluster to the webhook. The webhook validates a spec before the API server
//! stores the resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use kube::ResourceExt as _;
use osdpl_values::CollectSorted;

use super::{CatalogBuild, Context};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes;
use osdpl_core::observed::{ClusterInfo, Observed};
use osdpl_core::openstack::{Access, describe_instance, is_compute, recorded_access};
use osdpl_decide::{NO_PASSWORD, access_releases, advise, may_delete_instances, owned_releases};
use osdpl_lint::rule;
use osdpl_maintenance::OpenStackClient;

impl Context {
    /// Reads from the API server the additions (ConfigMaps with catalogue files) that `spec` names in `namespace`.
    /// Returns a function that builds the catalogue with these additions.
    ///
    /// Neither function changes the catalogue that passes use.
    pub async fn catalog_for(self: &Arc<Self>, namespace: &str, spec: &OpenStackDeploymentSpec) -> CatalogBuild {
        let named = self.cluster.read_additions(namespace, &spec.catalog, |_| None).await;
        let context = Arc::clone(self);
        Box::new(move || context.catalog.extended_with(&named))
    }

    /// Returns the properties of the cluster that the webhook needs to check the spec of a cloud. `owner` is the
    /// cloud's owner label.
    ///
    /// The result contains the nodes and storage classes from the watches. If the spec contains CIDRs, they must not
    /// overlap with the IP ranges of Services, so the function reads these ranges from the API server. If the watches
    /// have not completed their first lists, the result is empty.
    pub async fn cluster_info_for(
        &self,
        owner: &str,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
    ) -> ClusterInfo {
        // Return an empty result before the first lists are complete, because an incomplete list of nodes would cause
        // wrong findings.
        if self.tasks.ready().now_or_never().is_none() {
            return ClusterInfo::default();
        }
        let observed = self.tasks.observe();
        let changes =
            observed.nodes().map(|all| nodes::build_inventory(spec, catalog, all, owner).changes).unwrap_or_default();
        let mut services = Vec::new();
        if rule::names_networks(spec) {
            match self.cluster.service_networks().await {
                Ok(networks) => services = networks,
                Err(error) => {
                    tracing::info!(%error, "the webhook can't read the networks of Services, so it does not compare them with the networks of the spec");
                }
            }
        }
        osdpl_decide::cluster_info(spec, catalog, observed.nodes(), observed.storage_classes(), &changes, services)
    }

    /// Returns why the webhook refuses the deletion of a resource; `None` if it admits the deletion.
    ///
    /// The webhook refuses the deletion while Nova reports instances, or while osdpl can't query Nova. It always admits
    /// the deletion in three cases: Nova is not deployed, the namespace of the resource is being deleted, or
    /// [`may_delete_instances`] allows the deletion.
    ///
    /// Standbys also run this function, because the API server may send an admission request to any pod of the
    /// operator.
    pub async fn deletion_obstacle(
        &self,
        deployment: &OpenStackDeployment,
        client: &OpenStackClient,
    ) -> Option<String> {
        let namespace = deployment.namespace().unwrap_or_default();
        let catalog = self.catalog.catalog();
        let is_nova = |name: &String| {
            let endpoint = catalog.release(name).and_then(|(_, release)| release.endpoint.as_ref());
            endpoint.is_some_and(is_compute)
        };
        let children = deployment.status.iter().flat_map(|status| &status.children);
        let has_nova = children.into_iter().any(|(name, child)| is_nova(name) && child.revision.is_some());
        let is_terminating = self.inputs.namespaces().terminating.contains(&namespace);
        if !has_nova || is_terminating || may_delete_instances(deployment) {
            return None;
        }
        let setting = self.setting.borrow().clone();
        let access = match setting.as_ref().map(|setting| setting.nova()) {
            Some(access) => access.cloned().map_err(str::to_owned),
            // Only the active operator knows Nova's URLs and credentials from its last plan. A standby makes no plans,
            // so it reads them from the release records.
            None => self.recorded_access(deployment, &catalog).await,
        };
        let found = match access {
            Ok(access) => client.find_instance(&access).await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        let problem = match found {
            Ok(found) => describe_instance(&found?),
            Err(why) => format!("osdpl can't query Nova for instances: {why}"),
        };
        Some(advise(&problem, deployment))
    }

    /// Returns the URLs and the credentials for queries of Nova, from the release records. The error says why osdpl
    /// can't determine them.
    async fn recorded_access(&self, deployment: &OpenStackDeployment, catalog: &Catalog) -> Result<Access, String> {
        if !self.tasks.is_ready() {
            return Err("this operator has not read the cluster yet (try the deletion again soon)".to_owned());
        }
        let observation = self.tasks.observe();
        let (releases, owned) = ((*observation.releases).clone(), owned_releases(deployment));
        let observed = Observed { releases, owned, ..Observed::default() };
        let mut recorded = BTreeMap::new();
        for (name, key, release) in access_releases(catalog, &observed) {
            let values = self.cluster.reader().recorded_values(key, release.revision).await;
            recorded.insert(name, (key, values.map_err(|error| error.to_string())??));
        }
        let recorded = recorded.iter().map(|(name, (key, values))| (*name, (*key, values))).collect_map();
        recorded_access(catalog, &recorded).ok_or_else(|| NO_PASSWORD.to_owned())
    }
}
