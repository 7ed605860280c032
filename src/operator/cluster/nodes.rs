//! Sets labels on nodes.
//!
//! osdpl applies its labels with a separate field manager. The first request has no `force`, so that the API server
//! refuses the request if it would overwrite a label that someone else has set.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams};
use osdpl_values::CollectSorted;
use serde_json::{Value, json};

use super::{Cluster, Error, ErrorContext, Reader};
use osdpl_core::api::NODE_LABELS;
use osdpl_core::nodes::LabelChange;
use osdpl_core::observed::{self, Labels};

/// The field manager with which osdpl applies labels to nodes.
const NODE_MANAGER: &str = "osdpl-nodes";

/// The beginning of a label's field path in the message with which the API server refuses a conflicting write.
const LABEL_FIELD: &str = ".metadata.labels.";

impl Cluster {
    /// Sets the labels in `change.labels` on a node, and removes the labels in `change.losses`. All other labels that
    /// osdpl has set on the node stay. If someone else has set a label to another value, the label keeps that value.
    ///
    /// Does nothing if the node no longer exists, or a new node has its name.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn label_node(&self, name: &str, change: &LabelChange) -> Result<(), Error> {
        let what = || format!("labelling node {name}");
        // A server-side apply removes each label that osdpl's field manager owns and that the request does not contain.
        // So the request must contain all labels that stay. Read them from the API server: the watch may lag, and
        // someone may have edited the annotation with which osdpl lists its labels.
        let api: Api<Node> = Api::all(self.client.clone());
        let found = api.get_metadata_opt(name).await.with_context(what)?;
        let Some(node) = found.filter(|node| node.metadata.uid.as_ref() == Some(&change.uid)) else { return Ok(()) };
        let mut listed = list_labels(&node.metadata, change);
        let response = match self.apply_labels(name, &change.uid, &listed, false).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let conflicts = conflicts(&status);
                if conflicts.is_empty() {
                    return Ok(());
                }
                // Apply only the labels without a conflict. Then only the annotation that lists osdpl's labels can
                // still conflict. No other field manager should own this annotation, so `force` makes osdpl its owner.
                for labels in listed.values_mut() {
                    labels.retain(|key, _| !conflicts.contains(key));
                }
                self.apply_labels(name, &change.uid, &listed, true).await
            }
            response => response,
        };
        match response {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
            other => other.with_context(what),
        }
    }

    /// Applies the labels of each cloud in `listed`, and the annotation that lists these labels. Removes all other
    /// labels that osdpl has set on the node.
    async fn apply_labels(
        &self,
        name: &str,
        uid: &str,
        listed: &BTreeMap<String, Labels>,
        force: bool,
    ) -> Result<(), kube::Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        // Without the uid, the API server would create the node again if it was deleted meanwhile.
        let mut metadata = json!({"name": name, "uid": uid});
        let labels: BTreeMap<_, _> = listed.values().flatten().collect_map();
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
            metadata["annotations"] = json!({NODE_LABELS: observed::Node::annotation(listed)});
        }
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        let params = PatchParams { force, ..PatchParams::apply(NODE_MANAGER) };
        api.patch_metadata(name, &params, &Patch::Apply(body)).await.map(drop)
    }
}

/// Returns the labels that osdpl's field manager must own on a node after `change`. The keys of the result are clouds.
///
/// The change affects one cloud; the labels of other clouds stay. An annotation on the node lists osdpl's labels by
/// cloud. If someone removed a label only from this annotation, osdpl's field manager still owns the label. The
/// function keeps such a label, and assigns it to the cloud that `change` affects. If this cloud does not want the
/// label, a later pass plans to remove the label, which needs approval.
fn list_labels(metadata: &ObjectMeta, change: &LabelChange) -> BTreeMap<String, Labels> {
    let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(NODE_LABELS));
    let node = observed::Node::new(None, metadata.labels.as_ref(), annotation.map(String::as_str));
    let mut listed = node.listed;
    listed.retain(|owner, labels| {
        labels.retain(|key, value| node.labels.get(key) == Some(value));
        !owner.is_empty() && *owner != change.owner
    });
    let is_lost = |key: &str, value: &str| change.losses.iter().any(|loss| loss.split_once('=') == Some((key, value)));
    let is_listed = |key: &str| listed.values().any(|labels| labels.contains_key(key));
    let mut ours = change.labels.clone();
    for (key, value) in applied_labels(metadata, &node.labels) {
        if !ours.contains_key(key) && !is_listed(key) && !is_lost(key, value) {
            ours.insert(key.clone(), value.clone());
        }
    }
    listed.insert(change.owner.clone(), ours);
    listed.retain(|_, labels| !labels.is_empty());
    listed
}

/// Returns those labels of a node that osdpl's field manager owns.
fn applied_labels<'a>(metadata: &ObjectMeta, labels: &'a Labels) -> impl Iterator<Item = (&'a String, &'a String)> {
    let entries = metadata.managed_fields.iter().flatten();
    let entries = entries.filter(|entry| entry.manager.as_deref() == Some(NODE_MANAGER));
    let fields: Vec<&Value> =
        entries.filter_map(|entry| Some(&entry.fields_v1.as_ref()?.0["f:metadata"]["f:labels"])).collect();
    labels.iter().filter(move |(key, _)| fields.iter().any(|fields| !fields[format!("f:{key}")].is_null()))
}

impl Reader {
    /// Asks the API server whether a node exists, because the watch on nodes may lag.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(super) async fn has_node(&self, name: &str) -> Result<bool, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(api.get_metadata_opt(name).await.with_context(|| format!("reading node {name}"))?.is_some())
    }
}

/// Returns the fields that the API server refused to write, because another field manager has set them to another
/// value.
///
/// A field is the key of a label, or the field path of osdpl's annotation.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes.filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| cause.field.as_str());
    fields.map(|field| field.strip_prefix(LABEL_FIELD).unwrap_or(field).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_the_labels_that_the_change_names() {
        let listed = |annotation: &str, applied: &[&str], losses: &[&str]| {
            let fields: serde_json::Map<_, _> = applied.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
            let metadata = json!({
                "labels": {"compute": "on", "switch": "on", "rack": "1"},
                "annotations": {NODE_LABELS: annotation},
                "managedFields": [
                    {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {"f:rack": {}}}}},
                    {"manager": NODE_MANAGER, "fieldsV1": {"f:metadata": {"f:labels": fields}}},
                ],
            });
            let change = LabelChange {
                uid: String::new(),
                owner: "b.cloud".into(),
                labels: [("gateway".to_owned(), "on".to_owned())].into(),
                gains: Vec::new(),
                losses: losses.iter().map(|loss| (*loss).to_owned()).collect(),
            };
            observed::Node::annotation(&list_labels(&serde_json::from_value(metadata).unwrap(), &change))
        };
        let both = ["compute", "switch"];
        for (annotation, losses, expected) in [
            ("", [].as_slice(), "b.cloud,compute=on,gateway=on,switch=on"),
            ("", &["switch=on"], "b.cloud,compute=on,gateway=on"),
            ("compute=on,switch=on", &["compute=on", "switch=on"], "b.cloud,gateway=on"),
            ("a.cloud,compute=on,switch=on", &[], "a.cloud,compute=on,switch=on,b.cloud,gateway=on"),
            ("a.cloud,compute=on,b.cloud,switch=on", &["switch=on"], "a.cloud,compute=on,b.cloud,gateway=on"),
            // The annotation is outdated: someone else has since changed the label `compute` and removed the label
            // `gone`.
            ("a.cloud,compute=off,gone=on", &["compute=on"], "b.cloud,gateway=on,switch=on"),
        ] {
            assert_eq!(listed(annotation, &both, losses), expected, "{annotation} {losses:?}");
        }
        assert_eq!(listed("", &[], &[]), "b.cloud,gateway=on", "labels of other writers are not osdpl's");
    }
}
