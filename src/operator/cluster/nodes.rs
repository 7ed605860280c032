//! The labels of nodes: the operator's own, by server-side apply under a field manager of their own and never by force, so that the API server
//! itself keeps apart what others set.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Cluster, Error, Explain, Reader};
use osdpl_core::api::NODE_LABELS;
use osdpl_core::observed::{self, Labels};

/// The field manager of the labels that roles set.
pub const NODE_MANAGER: &str = "osdpl-nodes";

/// How the API server names a label in a conflict.
const LABEL_FIELD: &str = ".metadata.labels.";

impl Cluster {
    /// Gives a node exactly these labels of ours: others of ours go, those of others stay. Where someone else holds one of them with another value
    /// it is left to them; a node that is gone, or another one of its name, is left alone.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn label_node(&self, name: &str, uid: &str, labels: &Labels) -> Result<(), Error> {
        let what = || format!("labelling node {name}");
        let answer = match self.apply_labels(name, uid, labels, false).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let held = conflicts(&status);
                if held.is_empty() {
                    return Ok(());
                }
                let left = labels.iter().filter(|(key, _)| !held.contains(key));
                let left = left.map(|(key, value)| (key.clone(), value.clone())).collect();
                // What is left nobody else holds, but perhaps our own annotation, which is nobody else's.
                self.apply_labels(name, uid, &left, true).await
            }
            answer => answer,
        };
        match answer {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
            other => other.because(what),
        }
    }

    async fn apply_labels(&self, name: &str, uid: &str, labels: &Labels, force: bool) -> Result<(), kube::Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        // With the uid nothing is made anew of a node that went a moment ago.
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
    /// Whether there is a node of this name, by the API server's own word.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn has_node(&self, name: &str) -> Result<bool, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(api.get_metadata_opt(name).await.because(|| format!("reading node {name}"))?.is_some())
    }
}

/// The labels, and our annotation, that others hold with other values.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes.filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| cause.field.as_str());
    fields.map(|field| field.strip_prefix(LABEL_FIELD).unwrap_or(field).to_owned()).collect()
}
