//! Whose an object is, by the annotations that helm puts on everything it makes but hooks (helm: `action.checkOwnership`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Key;

/// helm's annotation on every object that is no hook: the release.
pub const NAME: &str = "meta.helm.sh/release-name";

/// helm's annotation beside [`NAME`]: the release's namespace.
pub const NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// The release that an object belongs to, where helm says so on it.
pub fn owner(metadata: &ObjectMeta) -> Option<Key> {
    let annotations = metadata.annotations.as_ref()?;
    Some(Key::new(annotations.get(NAMESPACE)?, annotations.get(NAME)?))
}
