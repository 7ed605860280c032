//! The release that an object belongs to, by the annotations that helm writes on all objects except hooks (helm:
//! `action.checkOwnership`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::ReleaseKey;

/// helm's annotation on every object that is not a hook: the name of the release.
pub const RELEASE_NAME_ANNOTATION: &str = "meta.helm.sh/release-name";

/// helm's annotation on every object that is not a hook: the namespace of the release.
pub const RELEASE_NAMESPACE_ANNOTATION: &str = "meta.helm.sh/release-namespace";

/// Returns the release that an object belongs to, according to helm's annotations.
pub fn helm_owner(metadata: &ObjectMeta) -> Option<ReleaseKey> {
    let annotations = metadata.annotations.as_ref()?;
    Some(ReleaseKey::new(annotations.get(RELEASE_NAMESPACE_ANNOTATION)?, annotations.get(RELEASE_NAME_ANNOTATION)?))
}
