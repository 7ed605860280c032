//! Nodes that are taken out for a while: the resource, the node's cordon, and what must be known of its pods. Nothing of it is watched.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::{Cluster, Error, Explain, MANAGER};
use osdpl_core::api::{MAINTENANCE_FINALIZER, NODE_MAINTENANCE, NodeMaintenance, NodeMaintenanceStatus, RETRY};
use osdpl_core::catalog::Component;

impl Cluster {
    fn maintenance_api(&self) -> Api<NodeMaintenance> {
        Api::all(self.client.clone())
    }

    /// Every maintenance.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn maintenances(&self) -> Result<Vec<NodeMaintenance>, Error> {
        let all = self.maintenance_api().list(&ListParams::default()).await;
        Ok(all.because(|| "listing NodeMaintenances".into())?.items)
    }

    /// One as it is now.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn maintenance(&self, name: &str) -> Result<Option<NodeMaintenance>, Error> {
        self.maintenance_api().get_opt(name).await.because(|| format!("reading NodeMaintenance {name}"))
    }

    /// Puts our finalizer on it, or takes it off, guarded by the resource's version.
    ///
    /// # Errors
    /// When the API server refuses, or someone else changed it meanwhile.
    pub async fn hold_maintenance(&self, maintenance: &NodeMaintenance, wanted: bool) -> Result<(), Error> {
        let mut finalizers = maintenance.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != MAINTENANCE_FINALIZER);
        finalizers.extend(wanted.then(|| MAINTENANCE_FINALIZER.to_owned()));
        let patch = json!({"finalizers": finalizers, "resourceVersion": maintenance.resource_version()});
        self.patch_maintenance(maintenance, patch).await
    }

    /// Takes away the annotation that asks for another try.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn forgive_maintenance(&self, maintenance: &NodeMaintenance) -> Result<(), Error> {
        self.patch_maintenance(maintenance, json!({"annotations": {RETRY: null}})).await
    }

    async fn patch_maintenance(&self, maintenance: &NodeMaintenance, metadata: Value) -> Result<(), Error> {
        let name = maintenance.name_any();
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.maintenance_api().patch(&name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).because(|| format!("changing NodeMaintenance {name}")),
        }
    }

    /// Writes its status where it differs from the one that stands; returns it as it is after that.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn publish_maintenance(
        &self,
        maintenance: NodeMaintenance,
        status: &NodeMaintenanceStatus,
    ) -> Result<NodeMaintenance, Error> {
        if maintenance.status.as_ref() == Some(status) {
            return Ok(maintenance);
        }
        let name = maintenance.name_any();
        let (version, kind) = (NodeMaintenance::api_version(&()), NodeMaintenance::kind(&()));
        let patch = json!({"apiVersion": version, "kind": kind, "status": status});
        let params = PatchParams::apply(MANAGER).force();
        match self.maintenance_api().patch_status(&name, &params, &Patch::Apply(patch)).await {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(maintenance),
            other => other.because(|| format!("writing the status of NodeMaintenance {name}")),
        }
    }

    /// A node; none where there is none of that name.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn node(&self, name: &str) -> Result<Option<Node>, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        api.get_opt(name).await.because(|| format!("reading node {name}"))
    }

    /// Cordons a node for this maintenance, or takes that back, guarded by the node's version: someone else may cordon it at the same moment.
    ///
    /// # Errors
    /// When the API server refuses, or someone else changed the node meanwhile.
    pub async fn cordon(&self, node: &Node, by: Option<&str>) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let name = node.name_any();
        let metadata = json!({"resourceVersion": node.resource_version(), "annotations": {NODE_MAINTENANCE: by}});
        let cordoned = by.map(|_| true);
        let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"unschedulable": cordoned}}));
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let what = || format!("{} node {name}", if by.is_some() { "cordoning" } else { "uncordoning" });
        api.patch(&name, &params, &patch).await.map(drop).because(what)
    }

    /// The pods on a node.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, Error> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        Ok(api.list(&params).await.because(|| format!("listing the pods on {node}"))?.items)
    }

    /// The pods of a component.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn pods_of(&self, namespace: &str, component: &Component) -> Result<Vec<Pod>, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let Component { application, component } = component;
        let params = ListParams::default().labels(&format!("application={application},component={component}"));
        Ok(api.list(&params).await.because(|| format!("listing the pods of {application}/{component}"))?.items)
    }

    /// How many pods a `StatefulSet` is to have; none where it is not there.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn replicas_of(&self, namespace: &str, name: &str) -> Result<Option<i32>, Error> {
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.because(|| format!("reading StatefulSet {namespace}/{name}"))?;
        // Where unset the API server writes 1.
        Ok(found.map(|set| set.spec.and_then(|spec| spec.replicas).unwrap_or(1)))
    }

    /// Every disruption budget.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn budgets(&self) -> Result<Vec<PodDisruptionBudget>, Error> {
        let api: Api<PodDisruptionBudget> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await.because(|| "listing PodDisruptionBudgets".into())?.items)
    }
}
