//! Sends the requests of the maintenance controller to the API server.
//!
//! The controller watches only the NodeMaintenances. To read other objects, each pass sends requests to the API server.

use std::fmt::Debug;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use osdpl_client::{Error, ErrorContext, Scope, Stored};
use osdpl_core::api::{
    MAINTENANCE_FINALIZER, MANAGER, NODE_MAINTENANCE, NodeMaintenance, NodeMaintenanceStatus, RETRY,
};
use osdpl_core::catalog::Component;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::objects::{Node, Pod, StatefulSet};

/// A client of the API server. Each method fails if the API server refuses the request or is unreachable.
pub(crate) struct Cluster {
    client: Client,
}

impl Cluster {
    /// Creates a `Cluster` that sends its requests through kube's `client`.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the [`Api`] for requests about NodeMaintenance resources.
    pub(crate) fn maintenances(&self) -> Api<NodeMaintenance> {
        Api::all(self.client.clone())
    }

    /// Returns the [`Api`] for lists and watches of NodeMaintenance resources. These requests succeed even if osdpl
    /// can't parse some of the resources.
    pub(crate) fn stored_maintenances(&self) -> Api<Stored<NodeMaintenance>> {
        Api::all(self.client.clone())
    }

    /// Lists all maintenances that osdpl can parse.
    pub(crate) async fn list_maintenances(&self) -> Result<Vec<NodeMaintenance>, Error> {
        let all = self.stored_maintenances().list(&ListParams::default()).await;
        let all = all.with_context(|| "listing NodeMaintenances".into())?;
        Ok(all.items.iter().filter_map(|stored| stored.content().ok()).cloned().collect())
    }

    /// Reads a maintenance; `None` if it does not exist.
    pub(crate) async fn get_maintenance(&self, name: &str) -> Result<Option<NodeMaintenance>, Error> {
        self.maintenances().get_opt(name).await.with_context(|| format!("reading NodeMaintenance {name}"))
    }

    /// Adds osdpl's finalizer to a maintenance if `present` is true, else removes the finalizer.
    ///
    /// Fails if someone has changed the NodeMaintenance since osdpl read it.
    pub(crate) async fn set_finalizer(&self, maintenance: &NodeMaintenance, present: bool) -> Result<(), Error> {
        let mut finalizers = maintenance.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != MAINTENANCE_FINALIZER);
        finalizers.extend(present.then(|| MAINTENANCE_FINALIZER.to_owned()));
        self.patch_metadata(maintenance, "finalizers", json!(finalizers)).await
    }

    /// Removes the annotation with which a person requested a retry.
    ///
    /// Fails if someone has changed the NodeMaintenance since osdpl read it.
    pub(crate) async fn remove_retry_annotation(&self, maintenance: &NodeMaintenance) -> Result<(), Error> {
        self.patch_metadata(maintenance, "annotations", json!({RETRY: null})).await
    }

    /// Changes a field in the `metadata` of a NodeMaintenance; does nothing if the NodeMaintenance was deleted.
    async fn patch_metadata(&self, maintenance: &NodeMaintenance, field: &str, value: Value) -> Result<(), Error> {
        let name = maintenance.name_any();
        let mut metadata = version(maintenance);
        metadata[field] = value;
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.maintenances().patch(&name, &merge_params(), &patch).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).with_context(|| format!("changing NodeMaintenance {name}")),
        }
    }

    /// Writes the status of a maintenance if `status` differs from the status that osdpl has read; returns the
    /// NodeMaintenance with the new status.
    ///
    /// Fails if someone has changed the NodeMaintenance since osdpl read it. So an operator that has lost its Lease
    /// can't overwrite the status that the new holder of the Lease has written.
    pub(crate) async fn publish_status(
        &self,
        maintenance: NodeMaintenance,
        status: &NodeMaintenanceStatus,
    ) -> Result<NodeMaintenance, Error> {
        if maintenance.status.as_ref() == Some(status) {
            return Ok(maintenance);
        }
        let name = maintenance.name_any();
        let (api_version, kind) = (NodeMaintenance::api_version(&()), NodeMaintenance::kind(&()));
        let metadata = version(&maintenance);
        let patch = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status});
        let params = PatchParams::apply(MANAGER).force();
        match self.maintenances().patch_status(&name, &params, &Patch::Apply(patch)).await {
            Err(kube::Error::Api(response)) if response.is_not_found() => Ok(maintenance),
            other => other.with_context(|| format!("writing the status of NodeMaintenance {name}")),
        }
    }

    /// Reads a node; `None` if it does not exist.
    pub(crate) async fn get_node(&self, name: &str) -> Result<Option<Node>, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        api.get_opt(name).await.with_context(|| format!("reading node {name}"))
    }

    /// Cordons a node for the maintenance named `by`; uncordons it if `by` is `None`.
    ///
    /// Fails if the node has changed since osdpl read it: someone else may have cordoned the node since then.
    pub(crate) async fn set_cordon(&self, node: &Node, by: Option<&str>) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let name = node.name_any();
        let metadata = json!({"resourceVersion": node.resource_version(), "annotations": {NODE_MAINTENANCE: by}});
        let unschedulable = by.map(|_| true);
        let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"unschedulable": unschedulable}}));
        let what = || format!("{} node {name}", if by.is_some() { "cordoning" } else { "uncordoning" });
        api.patch_metadata(&name, &merge_params(), &patch).await.map(drop).with_context(what)
    }

    /// Lists the pods on a node, but only pods in the namespaces of `scope`.
    pub(crate) async fn list_pods_on(&self, node: &str, scope: &Scope) -> Result<Vec<Pod>, Error> {
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        self.list(scope, &params, || format!("listing the pods on {node}")).await
    }

    /// Lists the pods of a component of the cloud.
    pub(crate) async fn list_pods_of(&self, namespace: &str, component: &Component) -> Result<Vec<Pod>, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let Component { application, component } = component;
        let params = ListParams::default().labels(&format!("application={application},component={component}"));
        Ok(api.list(&params).await.with_context(|| format!("listing the pods of {application}/{component}"))?.items)
    }

    /// Reads the desired number of pods of a StatefulSet; `None` if the StatefulSet does not exist.
    pub(crate) async fn get_replicas(&self, namespace: &str, name: &str) -> Result<Option<i32>, Error> {
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.with_context(|| format!("reading StatefulSet {namespace}/{name}"))?;
        Ok(found.map(|set| set.spec.replicas))
    }

    /// Lists all disruption budgets in the namespaces in `scope`.
    pub(crate) async fn list_budgets(&self, scope: &Scope) -> Result<Vec<PodDisruptionBudget>, Error> {
        self.list(scope, &ListParams::default(), || "listing PodDisruptionBudgets".into()).await
    }

    async fn list<K>(&self, scope: &Scope, params: &ListParams, what: impl Fn() -> String) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let mut found = Vec::new();
        for api in scope.apis::<K>(&self.client) {
            found.extend(api.list(params).await.with_context(&what)?.items);
        }
        Ok(found)
    }
}

/// Returns metadata that makes the API server refuse a write if someone has changed the NodeMaintenance since osdpl
/// read it.
fn version(maintenance: &NodeMaintenance) -> Value {
    json!({"uid": maintenance.uid(), "resourceVersion": maintenance.resource_version()})
}

fn merge_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }
}
