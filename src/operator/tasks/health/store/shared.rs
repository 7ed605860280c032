//! Stores equal requirements of pods only once, to save memory: hundreds of pods of a `DaemonSet` may wait for the same
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use osdpl_core::health::pod::{Requirements, UnreadyPod};

/// The requirements of the pods that are not ready, such as the objects that the pods mount. Equal requirements are
/// stored only once.
#[derive(Default)]
pub(in crate::tasks::health) struct Templates(BTreeSet<Arc<Requirements>>);

impl Templates {
    /// Returns the pod, and stores its requirements only once: if equal requirements are stored already, the returned
    /// pod refers to these.
    ///
    /// Also drops requirements that no pod uses any more.
    pub(in crate::tasks::health) fn share(&mut self, mut pod: UnreadyPod) -> UnreadyPod {
        if let Some(known) = self.0.get(&pod.requirements) {
            pod.requirements = Arc::clone(known);
        } else {
            self.0.retain(|wants| Arc::strong_count(wants) > 1);
            self.0.insert(Arc::clone(&pod.requirements));
        }
        pod
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;
    use osdpl_core::health::pod::observe;
    use osdpl_core::scrub::Scrubber;

    fn pod(name: &str, service: &str) -> UnreadyPod {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "compute", "uid": "1", "controller": true}]);
        let metadata = json!({"name": name, "namespace": "openstack", "uid": name, "ownerReferences": owner});
        let environment = json!([{"name": "DEPENDENCY_SERVICE", "value": service}]);
        let spec = json!({"nodeName": name, "initContainers": [{"name": "init", "env": environment}]});
        let waiting = json!([{"name": "init", "state": {"running": {}}}]);
        let status = json!({"phase": "Pending", "initContainerStatuses": waiting});
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        let read = |value: Value| serde_json::from_value(value).unwrap();
        let spec = serde_json::from_value(spec).unwrap();
        observe(&metadata, &spec, &read(status), &Scrubber::default()).unwrap()
    }

    #[test]
    fn pods_share_equal_templates_and_unused_ones_are_dropped() {
        let mut templates = Templates::default();
        let first = templates.share(pod("n1", "openstack:keystone-api"));
        assert!(!first.requirements.waits.is_empty());
        let second = templates.share(pod("n2", "openstack:keystone-api"));
        assert!(Arc::ptr_eq(&first.requirements, &second.requirements));
        drop((first, second));
        let other = templates.share(pod("n1", "openstack:nova-api"));
        assert_eq!(templates.0.iter().collect::<Vec<_>>(), [&other.requirements]);
    }
}
