//! Keeps the sizes of existing volume claims in the values of releases.
//!
//! Kubernetes can't change the size in the claim template of a `StatefulSet`, and can't make a claim smaller. So the
//! values of a release keep the sizes of its existing claims, even if the catalogue has other sizes for new clouds.
//! Only a size in the values of `spec.common` or `spec.services` overrides the size of an existing claim, because the
//! user may have enlarged the claims and deleted the `StatefulSet`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Finding;
use super::source::Source;
use crate::catalog::{Catalog, ClaimOwner, Level};
use crate::observed::{Claim, Observed, ReleaseKey, Workload};
use osdpl_values::{CollectSorted, Layer, Origin, Path, Values, get, set};

/// The sizes of existing volume claims, by release and by the path of the value that sets the size.
pub type ClaimSizes = BTreeMap<String, BTreeMap<Path, String>>;

/// The origin of the layer with the sizes of existing volume claims.
const ORIGIN: &str = "the sizes of the release's existing volume claims";

/// Returns the sizes of the existing volume claims of `releases`. Leaves out a claim if the catalogue's `claimSizes`
/// does not say which value sets its size.
pub fn collect_claim_sizes(
    catalog: &Catalog,
    releases: &BTreeMap<String, ReleaseKey>,
    observed: &Observed,
    claims: &[Claim],
) -> ClaimSizes {
    let sizes = releases.iter().filter_map(|(name, key)| {
        let is_owned = |workload: &&Workload| workload.namespace == key.namespace && workload.release == key.name;
        let size = |owner: &ClaimOwner| match owner {
            ClaimOwner::StatefulSet(component) => {
                let mut owned = observed.workloads.iter().filter(is_owned);
                owned.find_map(|workload| workload.claim_size.clone().filter(|_| workload.component == *component))
            }
            ClaimOwner::Claim(name) => {
                let mut owned = claims.iter().filter(|claim| claim.release.as_ref() == Some(key));
                owned.find(|claim| claim.name == *name).map(|claim| claim.size.clone())
            }
        };
        let owners = &catalog.release(name)?.1.claim_sizes;
        let sizes = owners.iter().filter_map(|(path, owner)| Some((path.clone(), size(owner)?))).collect_map();
        (!sizes.is_empty()).then(|| (name.clone(), sizes))
    });
    sizes.collect_map()
}

/// Returns a layer with the sizes of existing claims that differ from the sizes in `layers`; `None` if no size differs.
/// `layers` are the layers of the catalogue, the presets and the features.
pub(super) fn layer(source: &Source<'_>, layers: &[Layer]) -> Option<Layer> {
    let mut kept = Values::new();
    for (path, size) in source.facts.claim_sizes.get(source.name)? {
        let wanted = layers.iter().rev().find_map(|layer| get(&layer.values, path));
        if wanted.is_some_and(|wanted| wanted != size.as_str()) {
            set(&mut kept, path, size.as_str().into());
        }
    }
    (!kept.is_empty()).then(|| Layer::new(Origin::Derived(ORIGIN.into()), kept))
}

/// Returns warnings about existing claims that are smaller than those of a new cloud, and about sizes in the spec that
/// Kubernetes can't apply, because they differ from the claim template of a `StatefulSet`, or are smaller than a claim.
/// `layers` are all layers of the release, including the layer that [`layer`] returns.
pub(super) fn findings(source: &Source<'_>, layers: &[Layer]) -> Vec<Finding> {
    let Some(sizes) = source.facts.claim_sizes.get(source.name) else { return Vec::new() };
    let findings = sizes.iter().filter_map(|(path, size)| {
        let owner = source.release.claim_sizes.get(path)?;
        let mut values = layers.iter().rev().filter_map(|layer| Some((&layer.origin, get(&layer.values, path)?)));
        let (origin, value) = values.next()?;
        let is_kept = matches!(origin, Origin::Derived(text) if text == ORIGIN);
        let wanted = if is_kept { values.next()?.1 } else { value };
        let wanted = wanted.as_str()?;
        let message = match (owner, bytes(size)?.partial_cmp(&bytes(wanted)?)?) {
            (_, Ordering::Less) if is_kept => format!(
                "{} {size}, but a new cloud gets {wanted}; enlarge it (\"Enlarge volumes\" on the guide's page Day 2), or set this value to {size} if that is enough",
                subject(owner)
            ),
            (ClaimOwner::StatefulSet(_), Ordering::Less | Ordering::Greater) if !is_kept => format!(
                "{} {size}, and Kubernetes can't change the claim template of a StatefulSet, so helm fails with {wanted}; remove this value, or, if you want larger volumes, first enlarge them (\"Enlarge volumes\" on the guide's page Day 2)",
                subject(owner)
            ),
            (ClaimOwner::Claim(_), Ordering::Greater) if !is_kept => format!(
                "{} {size}, and Kubernetes can't make a claim smaller, so helm fails with {wanted}; remove this value, or set it to {size} or more",
                subject(owner)
            ),
            _ => return None,
        };
        let field = format!("spec.services.{}.releases.{}.values.{path}", source.service, source.name);
        Some(Finding::new(Level::Warning, field, message))
    });
    findings.collect()
}

fn subject(owner: &ClaimOwner) -> String {
    match owner {
        ClaimOwner::StatefulSet(component) => format!("each volume of {component} has"),
        ClaimOwner::Claim(name) => format!("the volume claim {name} has"),
    }
}

/// Returns the number of bytes of a Kubernetes quantity such as `768Mi`; `None` if the text is no such quantity.
fn bytes(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Facts, resolve, select};
    use super::*;

    const STORE: &str = "service: store\ndescription: A database.\ngroup: infra\ncredentials: {admin: {}}\nreleases:\n  store:\n    claimSizes: {volume.size: store/server, backup.size: store-backup}\n\
        \x20   components: {store/server: StatefulSet}\n    values: {volume: {size: 20Gi}, backup: {size: 5Gi}, age: '${string(release.baseline)}'}\n";

    fn catalog() -> Catalog {
        let preset = "preset: one\ndescription: One.\nservices: [store]\nchecks:\n- {when: releases.store.baseline < 1, level: warning, field: spec.presets, message: It is old.}\n";
        Catalog::load(&crate::testing::files(&[("values/services/store.yaml", STORE), ("presets/one.yaml", preset)]))
            .unwrap()
    }

    /// Returns the values and the warnings of the release `store`. `sizes` are the sizes of its existing claims, each
    /// with the path of the value that sets the size. `own` are the release's values in the spec.
    fn resolved(sizes: &[(&str, &str)], own: &Value, baselines: &[(&str, u32)]) -> (Value, String) {
        let catalog = catalog();
        let spec = json!({"openstackRelease": "2026.1", "presets": ["one"],
            "services": {"store": {"releases": {"store": {"values": own}}}}});
        let spec = serde_json::from_value(spec).unwrap();
        let selection = select("cloud", "openstack", &spec, &catalog);
        let sizes = sizes.iter().map(|(path, size)| (Path::parse(path).unwrap(), (*size).to_owned())).collect_map();
        let facts = Facts {
            claim_sizes: [("store".to_owned(), sizes)].into(),
            baselines: baselines.iter().map(|(name, baseline)| ((*name).to_owned(), *baseline)).collect_map(),
            ..Facts::default()
        };
        let desired = resolve(&spec, &catalog, &selection, &facts);
        let warnings = desired.findings.iter().filter(|finding| finding.level == Level::Warning);
        let warnings: Vec<String> = warnings.map(ToString::to_string).collect();
        (Value::Object(desired.releases["store"].values.clone()), warnings.join("\n"))
    }

    #[test]
    fn existing_claims_keep_their_sizes() {
        let none = json!({});
        let (values, warnings) = resolved(&[], &none, &[]);
        assert_eq!((values["volume"]["size"].clone(), warnings), (json!("20Gi"), String::new()));
        let (values, warnings) = resolved(&[("volume.size", "5Gi"), ("backup.size", "9Gi")], &none, &[]);
        assert_eq!((values["volume"]["size"].clone(), values["backup"]["size"].clone()), (json!("5Gi"), json!("9Gi")));
        assert!(warnings.contains("each volume of store/server has 5Gi, but a new cloud gets 20Gi"), "{warnings}");
        assert!(!warnings.contains("store-backup"), "a larger claim is no problem: {warnings}");
    }

    #[test]
    fn warns_about_sizes_in_the_spec_that_kubernetes_cannot_apply() {
        let own = |size: &str| json!({"volume": {"size": size}, "backup": {"size": "9Gi"}});
        let live = [("volume.size", "5Gi"), ("backup.size", "5Gi")];
        let (values, warnings) = resolved(&live, &own("50Gi"), &[]);
        assert_eq!(values["volume"]["size"], "50Gi");
        assert!(warnings.contains("so helm fails with 50Gi"), "{warnings}");
        assert!(
            !warnings.contains("store-backup"),
            "Kubernetes can enlarge a claim that belongs to no StatefulSet: {warnings}"
        );
        assert_eq!(
            resolved(&live, &own("5120Mi"), &[]).1,
            "",
            "osdpl does not warn about a size that the claims already have"
        );
        let smaller = resolved(&[("backup.size", "10Gi")], &own("20Gi"), &[]).1;
        let expected = "spec.services.store.releases.store.values.backup.size: the volume claim store-backup has 10Gi, and Kubernetes can't make a claim smaller, so helm fails with 9Gi; remove this value, or set it to 10Gi or more";
        assert_eq!(smaller, expected);
    }

    #[test]
    fn an_installed_release_keeps_its_baseline() {
        let none = json!({});
        let (values, warnings) = resolved(&[], &none, &[]);
        assert_eq!((values["age"].clone(), warnings), (json!(super::super::BASELINE.to_string()), String::new()));
        let (values, warnings) = resolved(&[], &none, &[("store", 0)]);
        assert_eq!((values["age"].clone(), warnings.contains("It is old.")), (json!("0"), true));
    }

    #[test]
    fn finds_claims_by_component_and_name() {
        let key = ReleaseKey::new("openstack", "store");
        let releases = [("store".to_owned(), key.clone())].into();
        let mut server = crate::testing::available("store", "store/server", 1);
        server.claim_size = Some("5Gi".into());
        let foreign = Workload { release: "other".into(), claim_size: Some("1Gi".into()), ..server.clone() };
        let observed = Observed { workloads: vec![foreign, server], ..Observed::default() };
        let claim = Claim {
            namespace: "openstack".into(),
            name: "store-backup".into(),
            release: Some(key),
            class: None,
            size: "7Gi".into(),
            phase: crate::observed::ClaimPhase::Bound,
        };
        let sizes = collect_claim_sizes(&catalog(), &releases, &observed, &[claim]);
        let texts = sizes["store"].iter().map(|(path, size)| format!("{path} {size}")).collect::<Vec<_>>();
        assert_eq!(texts, ["backup.size 7Gi", "volume.size 5Gi"]);
    }
}
