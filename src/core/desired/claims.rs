//! Groups existing volume claims by storage class.
//!
//! If all existing claims of a release have the same storage class, the values of the release keep this class, even if
//! `spec.storageClass` now names another class.

use std::collections::BTreeMap;

use super::{Finding, Selection, release_overrides};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Level};
use crate::observed::{Claim, ClaimPhase, ReleaseKey};
use osdpl_values::leaves;

/// The names of the bound volume claims, by the release's catalogue name and by storage class. The map leaves out
/// claims that were never bound: they contain no data, so their class does not matter.
pub type ClaimClasses = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Groups the bound volume claims in `claims` by release and storage class. Leaves out claims that belong to none of
/// `releases`.
pub fn collect_claim_classes(claims: &[Claim], releases: &BTreeMap<String, ReleaseKey>) -> ClaimClasses {
    let mut found = ClaimClasses::new();
    for claim in claims.iter().filter(|claim| claim.phase == ClaimPhase::Bound) {
        let Some(class) = &claim.class else { continue };
        let owners = releases.iter().filter(|(_, key)| claim.release.as_ref() == Some(key));
        for (name, _) in owners {
            found.entry(name.clone()).or_default().entry(class.clone()).or_default().push(claim.name.clone());
        }
    }
    found
}

/// Returns the storage class of a release's existing claims; `None` if the claims have several classes, or if there are
/// no claims. The values of the release keep this class, even if the spec names another class.
pub(super) fn kept<'a>(classes: &'a ClaimClasses, name: &str) -> Option<&'a String> {
    let classes = classes.get(name).filter(|classes| classes.len() == 1)?;
    classes.keys().next()
}

/// Returns a warning if `spec.storageClass` differs from the storage class of existing claims.
///
/// `spec.storageClass` has no effect on existing claims, because Kubernetes allows no change to the class of a claim or
/// to the claim templates of a `StatefulSet`.
pub(super) fn finding(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    found: &ClaimClasses,
) -> Option<Finding> {
    let wanted = spec.storage_class.as_deref()?;
    let mut kept: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut mixed = Vec::new();
    for (name, classes) in found.iter().filter(|(name, _)| selection.releases.contains_key(*name)) {
        let own = catalog.release(name).and_then(|(service, _)| release_overrides(spec, service, name));
        // If the user sets the class of a claim in the release's values, do not warn about this claim, because
        // `spec.storageClass` does not determine its class.
        let chosen =
            |class: &str| own.is_some_and(|own| leaves(&own.overrides.values).iter().any(|(_, value)| *value == class));
        let mut others = classes.keys().filter(|class| *class != wanted && !chosen(class)).peekable();
        match classes.len() {
            1 => others.for_each(|class| kept.entry(class).or_default().push(name)),
            _ if others.peek().is_some() => mixed.push(several(name, classes)),
            _ => {}
        }
    }
    let kept = kept.into_iter().map(|(class, names)| format!("the claims of {} keep class {class}", names.join(", ")));
    let lines: Vec<String> = kept.chain(mixed).collect();
    (!lines.is_empty()).then(|| {
        Finding::new(
            Level::Warning,
            "spec.storageClass",
            format!(
                "{}, because Kubernetes can't change the StorageClass of a claim; only releases without claims use {wanted}",
                lines.join("; ")
            ),
        )
    })
}

/// Describes a release whose claims have different storage classes, for the warning about `spec.storageClass`.
fn several(name: &str, classes: &BTreeMap<String, Vec<String>>) -> String {
    let each: Vec<_> = classes.iter().map(|(class, claims)| format!("{class} ({})", claims.join(", "))).collect();
    format!("the claims of {name} keep their classes: {}", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, class: &str, phase: ClaimPhase) -> Claim {
        let release = Some(ReleaseKey::new("n", "mariadb"));
        Claim {
            namespace: "n".into(),
            name: name.into(),
            release,
            class: Some(class.into()),
            size: "1Gi".into(),
            phase,
        }
    }

    #[test]
    fn keeps_the_class_that_all_bound_claims_have() {
        let releases = BTreeMap::from([("mariadb".to_owned(), ReleaseKey::new("n", "mariadb"))]);
        let bound = |name, class| claim(name, class, ClaimPhase::Bound);
        let one = [bound("a", "slow"), claim("b", "nope", ClaimPhase::Pending)];
        let found = collect_claim_classes(&one, &releases);
        assert_eq!(kept(&found, "mariadb").map(String::as_str), Some("slow"));
        let found = collect_claim_classes(&[bound("a", "slow"), bound("b", "fast"), bound("c", "slow")], &releases);
        assert_eq!(kept(&found, "mariadb"), None);
        let message = "the claims of mariadb keep their classes: fast (b), slow (a, c)";
        assert_eq!(several("mariadb", &found["mariadb"]), message);
    }
}
