//! A status that was written and that the watch has not told of yet: a pass that comes in between would write it once more, and tell its events again.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::api::{OpenStackDeployment, OpenStackDeploymentStatus};

/// A status as it was written.
pub struct Written {
    /// When.
    pub at: Timestamp,
    /// The resource over which it was written: its uid and its version.
    over: (Option<String>, Option<String>),
    status: OpenStackDeploymentStatus,
}

impl Written {
    /// A status that was written over this state of the resource.
    pub fn new(deployment: &OpenStackDeployment, status: OpenStackDeploymentStatus, at: Timestamp) -> Self {
        Self { at, over: state(deployment), status }
    }

    /// The resource with the status that it has by now; `None` where the watch has told of a later state.
    pub fn told(&self, deployment: &OpenStackDeployment) -> Option<OpenStackDeployment> {
        (self.over == state(deployment))
            .then(|| OpenStackDeployment { status: Some(self.status.clone()), ..deployment.clone() })
    }
}

fn state(deployment: &OpenStackDeployment) -> (Option<String>, Option<String>) {
    (deployment.uid(), deployment.resource_version())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(version: &str, status: &Value) -> OpenStackDeployment {
        serde_json::from_value(json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "status": status,
            "metadata": {"name": "cloud", "uid": "1", "resourceVersion": version}, "spec": {"openstackRelease": "2026.1"},
        }))
        .unwrap()
    }

    #[test]
    fn the_status_that_was_written_stands_until_the_watch_tells_of_another_state() {
        let (before, after) = (json!({"observedGeneration": 1}), json!({"observedGeneration": 2}));
        let status = deployment("7", &after).status.unwrap();
        let written = Written::new(&deployment("7", &before), status.clone(), Timestamp::UNIX_EPOCH);
        let told = written.told(&deployment("7", &before)).unwrap();
        assert_eq!(told.status, Some(status));
        assert!(written.told(&deployment("8", &after)).is_none());
        assert!(written.told(&deployment("9", &before)).is_none(), "somebody else wrote the status meanwhile");
    }
}
