//! Labels of nodes.
//!
//! They are set by server-side apply with a separate field manager, so that the API server protects labels of others.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Cluster, Error, ErrorContext, Reader};
use osdpl_core::api::NODE_LABELS;
use osdpl_core::observed::{self, Labels};

/// The field manager of our labels.
const NODE_MANAGER: &str = "osdpl-nodes";

/// The prefix of a label's field in a conflict.
const LABEL_FIELD: &str = ".metadata.labels.";

impl Cluster {
    /// Sets our labels of a node to exactly these. Labels of others are kept, also if they conflict with ours.
    ///
    /// Does nothing if the node no longer exists, or another one has its name.
    ///
    /// # Errors
    /// When the API server refuses.
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
                // Only our annotation can still conflict, and no one else should own that.
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
        // With the uid, a node that was deleted meanwhile is not created again.
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
    /// Whether a node exists, read from the API server because the watch may lag.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) async fn has_node(&self, name: &str) -> Result<bool, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(api.get_metadata_opt(name).await.with_context(|| format!("reading node {name}"))?.is_some())
    }
}

/// Returns the labels that other field managers own with other values, and our annotation if it conflicts.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes.filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| cause.field.as_str());
    fields.map(|field| field.strip_prefix(LABEL_FIELD).unwrap_or(field).to_owned()).collect()
}
