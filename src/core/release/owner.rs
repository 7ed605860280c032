//! The release that an object belongs to, by the annotations that helm writes on all objects except hooks (helm:
//! `action.checkOwnership`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Key;

/// helm's annotation on every object that is not a hook: the name of the release.
pub const NAME: &str = "meta.helm.sh/release-name";

/// helm's annotation on every object that is not a hook: the namespace of the release.
pub const NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Returns the release that an object belongs to, according to helm's annotations.
pub fn owner(metadata: &ObjectMeta) -> Option<Key> {
    let annotations = metadata.annotations.as_ref()?;
    Some(Key::new(annotations.get(NAMESPACE)?, annotations.get(NAME)?))
}
