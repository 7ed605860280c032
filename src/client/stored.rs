//! Reads resources so that one unreadable resource does not make all others unreadable, too.
//!
//! kube parses a list of resources as a whole: it fails if one resource does not match its Rust type, or is nested too
//! deeply.

use std::borrow::Cow;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use osdpl_values::json_too_deep;

/// The maximum number of nested levels in a resource. osdpl does not read a resource with more levels, because serde
/// can parse at most 127 levels. The API server has no such limit.
const DEPTH: usize = 100;

/// A resource from the API server. If osdpl can't read the resource, the struct contains only its metadata.
#[derive(Clone, Debug)]
pub struct Stored<K> {
    metadata: ObjectMeta,
    content: Result<K, String>,
}

impl<K> Stored<K> {
    /// Returns the resource. If osdpl can't read it, returns why, and what the user can do. The log contains the same
    /// message.
    ///
    /// # Errors
    /// Returns an error if osdpl can't read the resource.
    pub fn content(&self) -> Result<&K, &str> {
        self.content.as_ref().map_err(String::as_str)
    }

    /// Returns the resource. If osdpl can't read it, returns why, and what the user can do.
    ///
    /// # Errors
    /// Returns an error if osdpl can't read the resource.
    pub fn into_content(self) -> Result<K, String> {
        self.content
    }
}

impl<K: Resource> Resource for Stored<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Stored<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Even if a resource is nested more deeply than serde permits, the next two lines do not fail: serde captures
        // the raw text, and skips unknown fields, without recursion.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
        let content = read(text.get());
        if let Err(problem) = &content {
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
            tracing::warn!(namespace, name, "osdpl can't read this resource, and ignores the resource: {problem}");
        }
        Ok(Self { metadata, content })
    }
}

fn read<K: DeserializeOwned>(text: &str) -> Result<K, String> {
    if let Some(field) = json_too_deep(text, DEPTH) {
        return Err(format!(
            "{field} is nested more than {DEPTH} levels deep; remove the field, or nest it less deeply"
        ));
    }
    serde_json::from_str(text).map_err(|error| {
        format!(
            "it does not match the CRD of this version of osdpl ({error}): apply the CRD (osdpl crd) and correct the \
             field that the error names, or return to the previous version of osdpl"
        )
    })
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use kube::api::{ObjectList, WatchEvent};
    use osdpl_core::api::OpenStackDeployment;
    use serde_json::json;

    use super::*;

    type Deployment = Stored<OpenStackDeployment>;

    fn resource(name: &str, spec: &str) -> String {
        let metadata = json!({"name": name, "namespace": "openstack"});
        format!(
            r#"{{"apiVersion":"osdpl.dev/v1alpha1","kind":"OpenStackDeployment","metadata":{metadata},"spec":{spec}}}"#
        )
    }

    #[test]
    fn unreadable_resources_do_not_affect_others() {
        let good = r#"{"openstackRelease": "2026.1"}"#;
        let deep =
            format!(r#"{{"openstackRelease":"2026.1","values":{{"a":{}{}}}}}"#, "[".repeat(9_000), "]".repeat(9_000));
        let other = r#"{"openstackRelease": "2026.1", "approval": "OfAnotherVersion"}"#;
        let items = [resource("good", good), resource("deep", &deep), resource("other", other)];
        let list = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{{}},"items":[{}]}}"#, items.join(","));
        let list: ObjectList<Deployment> = serde_json::from_str(&list).unwrap();
        let [good, deep, other] = &list.items[..] else { panic!("{list:?}") };
        assert!(good.content().is_ok() && deep.content().is_err());
        assert_eq!((deep.name_any().as_str(), other.name_any().as_str()), ("deep", "other"));
        let (deep, other) = (deep.content().unwrap_err(), other.content().unwrap_err());
        assert!(deep.starts_with("spec.values.a is nested more than 100 levels deep; remove the field"), "{deep}");
        assert!(other.contains("OfAnotherVersion") && other.contains("apply the CRD (osdpl crd)"), "{other}");
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, items[1]);
        let event: WatchEvent<Deployment> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Modified(stored) if stored.content().is_err()));
    }
}
