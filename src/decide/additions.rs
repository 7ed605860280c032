//! Decides which additions to the catalogue are approved.
//!
//! The spec names the `ConfigMap`s with additions, but people without the right to edit the spec may be able to edit
//! these `ConfigMap`s. So osdpl uses new content without a person's approval in only three cases: the spec sets
//! `approval: Automatic`, the spec names the digest of the content, or the status has no digest of this addition yet.
//! Any other new content waits until a person approves the target hash. osdpl stores the digests of the approved
//! contents in the status, because only the operator writes the status.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::plan::Policy;
use osdpl_values::CollectSorted;

/// Returns the names of the additions whose content differs from the approved content. The result leaves out an
/// addition whose digest the spec names, because the spec approves exactly this content.
pub(crate) fn changed(deployment: &OpenStackDeployment, catalog: &Catalog) -> BTreeSet<String> {
    let approved = |name: &String| deployment.status.as_ref()?.catalog.get(name);
    let unpinned = deployment.spec.catalog.iter().filter(|reference| reference.digest.is_none());
    let names = unpinned.map(|reference| &reference.name);
    let is_changed = |name: &&String| approved(name).is_some_and(|digest| catalog.additions.get(*name) != Some(digest));
    names.filter(is_changed).cloned().collect_set()
}

/// Returns the digests to store in the status at the end of this pass, by addition: the digest of the addition's
/// current content if that content is approved, and otherwise the digest in the previous status.
pub(crate) fn approved(
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    policy: &Policy,
    hash: &str,
) -> BTreeMap<String, String> {
    let mut approved = catalog.additions.clone();
    if !policy.approves(hash) {
        let before = deployment.status.iter().flat_map(|status| &status.catalog);
        let kept = before.filter(|(name, _)| policy.changed_additions.contains(*name));
        approved.extend(kept.map(|(name, digest)| (name.clone(), digest.clone())));
    }
    approved
}

#[cfg(test)]
mod tests {
    use osdpl_core::api::Approval;
    use serde_json::{Value, json};

    use super::*;

    fn deployment(catalog: &Value, status: &Value) -> OpenStackDeployment {
        serde_json::from_value(json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "nimbus"},
            "spec": {"openstackRelease": "2026.1", "catalog": catalog}, "status": {"catalog": status},
        }))
        .unwrap()
    }

    /// Returns the changed additions, and the digests that the status contains after a pass with `policy`. Each
    /// addition in the cluster has content with the digest `new`.
    fn decided(catalog: &Value, status: &Value, policy: Policy) -> (Vec<String>, Value) {
        let names = catalog.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned());
        let additions = names.map(|name| (name, "new".to_owned())).collect();
        let (deployment, mut catalog) = (deployment(catalog, status), Catalog::default());
        catalog.additions = additions;
        let policy = Policy { changed_additions: changed(&deployment, &catalog), ..policy };
        let approved = approved(&deployment, &catalog, &policy, "hash");
        (policy.changed_additions.into_iter().collect(), json!(approved))
    }

    #[test]
    fn only_changed_content_that_the_spec_does_not_pin_needs_approval() {
        let named =
            json!([{"name": "changed"}, {"name": "pinned", "digest": "new"}, {"name": "added"}, {"name": "same"}]);
        let status = json!({"changed": "old", "pinned": "old", "same": "new", "removed": "old"});
        let (changed, approved) = decided(&named, &status, Policy::default());
        assert_eq!(changed, ["changed"]);
        assert_eq!(approved, json!({"changed": "old", "pinned": "new", "added": "new", "same": "new"}));
    }

    #[test]
    fn approval_of_the_hash_approves_the_content() {
        let (named, status) = (json!([{"name": "edge"}]), json!({"edge": "old"}));
        let with = |policy| decided(&named, &status, policy).1;
        let of_hash = |hash: &str| Policy { approved: Some(hash.into()), ..Policy::default() };
        assert_eq!(with(of_hash("hash")), json!({"edge": "new"}));
        assert_eq!(with(of_hash("other")), json!({"edge": "old"}));
        assert_eq!(with(Policy { approval: Approval::Automatic, ..Policy::default() }), json!({"edge": "new"}));
    }
}
