//! A status that was written and that the watch has not told of yet: a pass that comes in between would write it once more, and tell its events again.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::cluster::is_older;
use osdpl_core::api::OpenStackDeployment;

/// The last write of a status.
pub struct Written {
    /// When.
    pub at: Timestamp,
    /// The resource as it stands since, until the watch has told of it.
    resource: Option<OpenStackDeployment>,
}

impl Written {
    /// The answer to a write.
    pub fn new(resource: OpenStackDeployment, at: Timestamp) -> Self {
        Self { at, resource: Some(resource) }
    }

    /// The resource as it was answered, where the watch has told of an older state of it only.
    pub fn untold(&mut self, told: &OpenStackDeployment) -> Option<OpenStackDeployment> {
        let is_same = |resource: &&OpenStackDeployment| resource.uid() == told.uid();
        if self.resource.as_ref().filter(is_same).is_some_and(|resource| !is_older(told, resource)) {
            self.resource = None;
        }
        self.resource.as_ref().filter(is_same).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(uid: &str, version: &str, seen: i64) -> OpenStackDeployment {
        serde_json::from_value(json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "status": {"observedGeneration": seen},
            "metadata": {"name": "cloud", "uid": uid, "resourceVersion": version}, "spec": {"openstackRelease": "2026.1"},
        }))
        .unwrap()
    }

    #[test]
    fn the_status_that_was_written_stands_until_the_watch_tells_of_it() {
        let mut written = Written::new(deployment("1", "9", 2), Timestamp::UNIX_EPOCH);
        for before in ["7", "8"] {
            let untold = written.untold(&deployment("1", before, 1)).unwrap();
            assert_eq!(untold.status, deployment("1", "9", 2).status);
        }
        assert!(written.untold(&deployment("2", "7", 1)).is_none(), "another resource");
        assert!(written.untold(&deployment("1", "9", 2)).is_none());
        assert!(written.untold(&deployment("1", "8", 1)).is_none(), "the watch goes on from what it has told");
    }
}
