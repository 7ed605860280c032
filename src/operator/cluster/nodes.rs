//! Sets labels on nodes.
//!
//! osdpl applies the labels with a separate field manager, so that the API server refuses to overwrite labels that
//! others have set.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Cluster, Error, ErrorContext, Reader};
use osdpl_core::api::NODE_LABELS;
use osdpl_core::observed::{self, Labels};

/// The field manager with which osdpl applies labels to nodes.
const NODE_MANAGER: &str = "osdpl-nodes";

/// The prefix of a label's field path in the API server's message about a conflict.
const LABEL_FIELD: &str = ".metadata.labels.";

impl Cluster {
    /// Sets `labels` on a node, and removes all other labels that osdpl has set there. If someone else has set a label
    /// to another value, the label keeps that value.
    ///
    /// Does nothing if the node no longer exists, or a new node has its name.
    ///
    /// # Errors
    /// If a request to the API server fails.
    pub(crate) async fn label_node(&self, name: &str, uid: &str, labels: &Labels) -> Result<(), Error> {
        let what = || format!("labelling node {name}");
        let response = match self.apply_labels(name, uid, labels, false).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let conflicts = conflicts(&status);
                if conflicts.is_empty() {
                    return Ok(());
                }
                let ours = labels.iter().filter(|(key, _)| !conflicts.contains(key));
                let ours = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
                // Apply the labels without the conflicting ones. Now only osdpl's annotation can conflict. `force`
                // takes it over, because no one else should own it.
                self.apply_labels(name, uid, &ours, true).await
            }
            response => response,
        };
        match response {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
            other => other.with_context(what),
        }
    }

    async fn apply_labels(&self, name: &str, uid: &str, labels: &Labels, force: bool) -> Result<(), kube::Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        // Without the uid, the API server would create the node again if it was deleted meanwhile.
        let mut metadata = json!({"name": name, "uid": uid});
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
            metadata["annotations"] = json!({NODE_LABELS: observed::Node::annotation(labels)});
        }
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        let params = PatchParams { force, ..PatchParams::apply(NODE_MANAGER) };
        api.patch_metadata(name, &params, &Patch::Apply(body)).await.map(drop)
    }
}

impl Reader {
    /// Asks the API server whether a node exists, because the watch on nodes may lag.
    ///
    /// # Errors
    /// If a request to the API server fails.
    pub(super) async fn has_node(&self, name: &str) -> Result<bool, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(api.get_metadata_opt(name).await.with_context(|| format!("reading node {name}"))?.is_some())
    }
}

/// Returns the fields that another field manager has set to another value, according to the API server: the keys of
/// labels, and the field path of osdpl's annotation.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes.filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| cause.field.as_str());
    fields.map(|field| field.strip_prefix(LABEL_FIELD).unwrap_or(field).to_owned()).collect()
}
