//! Reads the digests of the container images that a pod runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{OwnerKind, Spec, Status, owner};
use crate::health::RELEASE_GROUP;
use crate::observed::{ReleaseKey, RunningImages};

/// Returns the images that the containers of a pod run, with their digests, without init containers. Returns `None` if
/// the pod does not run, is being deleted, or belongs to no workload of a release, and if the name of each image
/// contains a digest.
///
/// The kubelet reports the digest of an image that it pulled as `NAME@sha256:…`. It reports no digest for an image that
/// someone loaded into the node's container runtime by hand, so the result leaves out this image.
pub fn running_images(metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<RunningImages> {
    let owner = owner(metadata).filter(|owner| owner.kind != OwnerKind::Job)?;
    let release = metadata.labels.as_ref()?.get(RELEASE_GROUP)?;
    if status.phase != "Running" || metadata.deletion_timestamp.is_some() {
        return None;
    }
    let digest = |name: &str| {
        let container = status.container_statuses.iter().find(|container| container.name == name)?;
        container.image_id.rsplit_once('@').map(|(_, digest)| digest).filter(|digest| is_digest(digest))
    };
    let tagged = spec.containers.iter().filter(|container| !container.image.contains('@'));
    let images = tagged.filter_map(|own| Some((own.image.clone(), digest(&own.name)?.to_owned())));
    let mut images: Vec<_> = images.collect();
    images.sort();
    images.dedup();
    let release = ReleaseKey::new(metadata.namespace.as_deref().unwrap_or_default(), release);
    (!images.is_empty()).then_some(RunningImages { release, workload: owner.name, images })
}

fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:");
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(kind: &str, spec: &Value, status: &Value) -> Option<RunningImages> {
        let owner = json!([{"apiVersion": "v1", "kind": kind, "name": "db", "uid": "o", "controller": true}]);
        let labels = json!({"release_group": "mariadb"});
        let metadata = json!({"name": "db-0", "namespace": "n", "labels": labels, "ownerReferences": owner});
        let of = |value: &Value| value.clone();
        running_images(
            &serde_json::from_value(metadata).unwrap(),
            &serde_json::from_value(of(spec)).unwrap(),
            &serde_json::from_value(of(status)).unwrap(),
        )
    }

    #[test]
    fn reads_digests_of_running_containers() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let image = "quay.io/db:latest";
        let spec = json!({"containers": [
            {"name": "db", "image": image}, {"name": "again", "image": image}, {"name": "loaded", "image": "x:1"},
            {"name": "pinned", "image": format!("quay.io/x:1@{digest}")}, {"name": "pulling", "image": "y:1"},
        ]});
        let status = |phase: &str| {
            json!({"phase": phase, "containerStatuses": [
                {"name": "db", "imageID": format!("docker-pullable://quay.io/db@{digest}")},
                {"name": "again", "imageID": format!("quay.io/db@{digest}")}, {"name": "loaded", "imageID": digest},
                {"name": "pinned", "imageID": format!("quay.io/x@{digest}")}, {"name": "pulling", "imageID": ""},
            ]})
        };
        let found = read("StatefulSet", &spec, &status("Running")).unwrap();
        let expected = vec![(image.to_owned(), digest.clone())];
        assert_eq!(
            (found.release, found.workload, found.images),
            (ReleaseKey::new("n", "mariadb"), "db".into(), expected)
        );
        assert_eq!(read("Job", &spec, &status("Running")), None, "the pods of a completed Job never change");
        assert_eq!(read("StatefulSet", &spec, &status("Failed")), None);
        let pinned = json!({"containers": [{"name": "pinned", "image": format!("quay.io/x:1@{digest}")}]});
        assert_eq!(read("StatefulSet", &pinned, &status("Running")), None);
    }
}
