//! Reads what templates of charts can query about the cluster: its version and its APIs.

use std::collections::BTreeSet;

use kube::client::APIGroupDiscovery;

use super::{Error, ErrorContext, Reader};
use crate::helm::template::Capabilities;

impl Reader {
    /// Returns the Kubernetes version and the APIs of the cluster, because the output of templates may depend on both.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        let version = self.client.apiserver_version().await.with_context(|| "reading the cluster's version".into())?;
        let groups =
            self.client.list_api_groups_aggregated().await.with_context(|| "listing the cluster's APIs".into())?;
        Ok(Capabilities { kubernetes: Some(version.git_version), versions: api_versions(&groups.items) })
    }
}

/// Returns the API versions and kinds in the format of `.Capabilities.APIVersions` in helm (function `GetVersionSet`).
fn api_versions(groups: &[APIGroupDiscovery]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for group in groups {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        for version in &group.versions {
            let group_version = format!("{name}/{}", version.version.as_deref().unwrap_or_default());
            let subresources = version.resources.iter().flat_map(|resource| &resource.subresources);
            let kinds = version.resources.iter().map(|resource| &resource.response_kind);
            let kinds = kinds.chain(subresources.map(|resource| &resource.response_kind));
            let kinds = kinds.filter_map(|kind| kind.as_ref()?.kind.as_deref());
            found.extend(kinds.filter(|kind| !kind.is_empty()).map(|kind| format!("{group_version}/{kind}")));
            found.insert(group_version);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_kinds_and_group_versions() {
        let kind = |kind: &str| json!({"responseKind": {"kind": kind}});
        let mut scaler = kind("VerticalPodAutoscaler");
        scaler["subresources"] = json!([kind("Scale"), {"subresource": "status"}]);
        let group = json!({
            "metadata": {"name": "autoscaling.k8s.io"},
            "versions": [{"version": "v1", "resources": [scaler, {"resource": "unnamed"}]}, {"version": "v1beta2"}],
        });
        assert_eq!(
            api_versions(&[serde_json::from_value(group).unwrap()]),
            [
                "autoscaling.k8s.io/v1",
                "autoscaling.k8s.io/v1/Scale",
                "autoscaling.k8s.io/v1/VerticalPodAutoscaler",
                "autoscaling.k8s.io/v1beta2"
            ]
        );
    }
}
