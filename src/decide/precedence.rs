//! Which resource rules: there is one cloud per cluster.

use kube::ResourceExt;

use super::leaving::is_finalized as is_over;
use osdpl_core::api::OpenStackDeployment;

/// The resource that rules instead of this one, as `namespace/name`: the oldest of the cluster, by creation, then uid. One of which all was done, and that
/// somebody else's finalizer holds, rules nothing any more.
pub fn older<'a>(
    all: impl IntoIterator<Item = &'a OpenStackDeployment>,
    than: Option<&OpenStackDeployment>,
) -> Option<String> {
    let age =
        |d: &OpenStackDeployment| (d.metadata.creation_timestamp.clone().map(|time| time.0), d.metadata.uid.clone());
    let oldest = all.into_iter().filter(|other| !is_over(other)).min_by_key(|other| age(other))?;
    than.is_none_or(|this| age(oldest) < age(this))
        .then(|| format!("{}/{}", oldest.namespace().unwrap_or_default(), oldest.name_any()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use osdpl_core::api::FINALIZER;

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn made(name: &str, year: u16, more: Value) -> OpenStackDeployment {
        let mut metadata = json!({"name": name, "namespace": "openstack", "uid": name});
        metadata["creationTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec = json!({"openstackRelease": "2026.1"});
        let whole = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": metadata, "spec": spec});
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn the_oldest_rules_until_all_was_done_of_it() {
        let deleted = "2026-11-21T00:00:00Z";
        let leaving =
            |finalizers: &[&str]| made("first", 2024, json!({"deletionTimestamp": deleted, "finalizers": finalizers}));
        let new = made("second", 2026, json!({}));
        let rules = |first: &OpenStackDeployment| older([first, &new], Some(&new));
        assert_eq!(rules(&made("first", 2024, json!({}))).as_deref(), Some("openstack/first"));
        assert_eq!(rules(&leaving(&["foregroundDeletion", FINALIZER])).as_deref(), Some("openstack/first"));
        let over = leaving(&["foregroundDeletion"]);
        assert_eq!(rules(&over), None);
        assert_eq!(older([&over, &new], Some(&over)), None, "the new one is younger");
        assert_eq!(older([&over, &new], None).as_deref(), Some("openstack/second"));
    }
}
