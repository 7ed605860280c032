//! Stores what osdpl knows about pods. Stores equal data of several pods only once, to save memory: hundreds of pods of
//! a `DaemonSet` may wait for the same objects and run the same images.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::tasks::partial::{Partial, Pod};
use osdpl_core::health::pod::{Requirements, UnreadyPod, observe, running_images};
use osdpl_core::observed::RunningImages;
use osdpl_core::scrub::Scrubber;

/// What osdpl knows about a pod.
#[derive(Debug, PartialEq)]
pub(in crate::tasks::health) struct WatchedPod {
    /// The pod, if it is not ready. The box saves memory, because most pods are ready.
    pub(super) unready: Option<Box<UnreadyPod>>,
    /// The images that the pod runs, with their digests; `None` if the pod does not run, or if all names of its images
    /// contain a digest.
    images: Option<Arc<RunningImages>>,
}

impl WatchedPod {
    /// Reads a pod; `None` if osdpl needs to know nothing about it. `scrubber` removes secrets from messages of
    /// Kubernetes. `requirements` and `images` contain the data that pods share.
    pub(in crate::tasks::health) fn read(
        Partial { metadata, spec, status, .. }: &Partial<Pod>,
        scrubber: &Scrubber,
        requirements: &mut Shared<Requirements>,
        images: &mut Shared<RunningImages>,
    ) -> Option<Self> {
        let unready = observe(metadata, spec, status, scrubber).map(|mut pod| {
            pod.requirements = requirements.share(pod.requirements);
            Box::new(pod)
        });
        let images = running_images(metadata, spec, status).map(|running| images.share(Arc::new(running)));
        (unready.is_some() || images.is_some()).then_some(Self { unready, images })
    }
}

/// Data that several pods share. Equal values are stored only once.
pub(in crate::tasks::health) struct Shared<T>(BTreeSet<Arc<T>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> Shared<T> {
    /// Returns the stored value that equals `value`. If there is none, stores `value`, and drops the values that no pod
    /// uses any more.
    fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.0.get(&value) {
            return Arc::clone(known);
        }
        self.0.retain(is_used);
        self.0.insert(Arc::clone(&value));
        value
    }

    /// Returns the values that pods use now, sorted. Callers must copy the values: with a reference to a value, the
    /// value would count as used after its last pod is gone.
    pub(super) fn used(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter(|value| is_used(value)).map(AsRef::as_ref)
    }
}

fn is_used<T>(value: &Arc<T>) -> bool {
    Arc::strong_count(value) > 1
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(pod: Value, requirements: &mut Shared<Requirements>, images: &mut Shared<RunningImages>) -> WatchedPod {
        let pod = serde_json::from_value(pod).unwrap();
        WatchedPod::read(&pod, &Scrubber::default(), requirements, images).unwrap()
    }

    fn pod(name: &str, spec: &Value, status: &Value) -> Value {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "compute", "uid": "1", "controller": true}]);
        let labels = json!({"release_group": "nova"});
        let metadata = json!({"name": name, "namespace": "n", "uid": name, "ownerReferences": owner, "labels": labels});
        json!({"metadata": metadata, "spec": spec, "status": status})
    }

    #[test]
    fn pods_share_equal_requirements_and_unused_ones_are_dropped() {
        let (mut requirements, mut images) = (Shared::default(), Shared::default());
        let mut starting = |name: &str, service: &str| {
            let environment = json!([{"name": "DEPENDENCY_SERVICE", "value": service}]);
            let spec = json!({"nodeName": name, "initContainers": [{"name": "init", "env": environment}]});
            let waiting = json!([{"name": "init", "state": {"running": {}}}]);
            let status = json!({"phase": "Pending", "initContainerStatuses": waiting});
            *read(pod(name, &spec, &status), &mut requirements, &mut images).unready.unwrap()
        };
        let first = starting("n1", "openstack:keystone-api");
        assert!(!first.requirements.waits.is_empty());
        let second = starting("n2", "openstack:keystone-api");
        assert!(Arc::ptr_eq(&first.requirements, &second.requirements));
        drop((first, second));
        let other = starting("n1", "openstack:nova-api");
        assert_eq!(requirements.0.iter().collect::<Vec<_>>(), [&other.requirements]);
    }

    #[test]
    fn lists_the_images_of_existing_pods() {
        let (mut requirements, mut images) = (Shared::default(), Shared::default());
        let mut running = |name: &str, digit: &str| {
            let spec = json!({"containers": [{"name": "c", "image": "x:latest"}]});
            let image_id = format!("x@sha256:{}", digit.repeat(64));
            let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "c", "imageID": image_id}]});
            let pod = read(pod(name, &spec, &status), &mut requirements, &mut images);
            assert_eq!(pod.unready, None);
            (pod, images.used().map(|running| running.images[0].1[7..8].to_owned()).collect::<Vec<_>>())
        };
        let (_first, used) = running("n1", "a");
        assert_eq!(used, ["a"]);
        let (second, used) = running("n2", "b");
        assert_eq!(used, ["a", "b"]);
        drop(second);
        assert_eq!(running("n2", "a").1, ["a"]);
    }
}
