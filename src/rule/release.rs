//! Moves from one OpenStack release to another.

use super::Judged;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::values::{Path, get};

const FIELD: &str = "spec.openstackRelease";

/// What is wrong with a spec's release where another one is deployed: database migrations go one way, and the upgrade's order is not built yet.
pub fn moved(deployed: &str, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<Judged> {
    let wanted = &spec.openstack_release;
    let Some(release) = catalog.openstack.get(wanted).filter(|_| deployed != wanted) else { return Vec::new() };
    let from = &release.upgrades_from;
    let way = if deployed > wanted.as_str() {
        format!(" (and {wanted} is older: databases do not go back)")
    } else if from.is_empty() || from.iter().any(|known| known == deployed) {
        String::new()
    } else {
        format!(" (and {wanted} is reached from {} only: no release may be skipped)", from.join(" or "))
    };
    let mut found = vec![Judged::error(
        "release-move",
        FIELD,
        format!("{deployed} is deployed, and moving to {wanted} is not supported yet{way}; set it back to {deployed}"),
    )];
    found.extend(pinned(spec).map(|field| {
        let message = format!(
            "these images are named outright, so that they stay what they are when spec.openstackRelease moves from {deployed} to {wanted}; take them out, or name those of {wanted}"
        );
        Judged::warning("image-pinned", field, message)
    }));
    found
}

/// The fields of the spec that name images.
fn pinned(spec: &OpenStackDeploymentSpec) -> impl Iterator<Item = String> {
    let common = [
        ("spec.common", &spec.common.all.values),
        ("spec.common.infra", &spec.common.infra.values),
        ("spec.common.openstack", &spec.common.openstack.values),
    ];
    let common = common.map(|(field, values)| (field.to_owned(), values));
    let own = spec.services.iter().flat_map(|(service, entry)| {
        entry
            .releases
            .iter()
            .map(move |(name, release)| (format!("spec.services.{service}.releases.{name}"), &release.overrides.values))
    });
    let tags: Path = ["images", "tags"].into_iter().collect();
    let named = common.into_iter().chain(own).filter(move |(_, values)| get(values, &tags).is_some());
    named.map(|(field, _)| format!("{field}.values.images.tags"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(deployed: &str, spec: serde_json::Value) -> Vec<String> {
        let newer = "openstackRelease: '2026.1'\ndescription: x\nupgradesFrom: ['2025.2', '2025.1']\n";
        let files = crate::catalog::tests::files(&[("values/openstack/2026.1.yaml", newer)]);
        let catalog = Catalog::load(&files).unwrap();
        let found = moved(deployed, &serde_json::from_value(spec).unwrap(), &catalog);
        found.iter().map(|judged| format!("{} {}: {}", judged.rule, judged.field, judged.message)).collect()
    }

    #[test]
    fn a_move_is_refused_with_what_else_is_wrong_with_it() {
        let said = "release-move spec.openstackRelease: 2025.2 is deployed, and moving to 2026.1 is not supported yet; set it back to 2025.2";
        assert_eq!(told("2025.2", json!({"openstackRelease": "2026.1"})), [said]);
        assert_eq!(told("2026.1", json!({"openstackRelease": "2026.1"})), Vec::<String>::new());
        let skipped = told("2024.1", json!({"openstackRelease": "2026.1"}));
        assert!(
            skipped[0]
                .contains("(and 2026.1 is reached from 2025.2 or 2025.1 only: no release may be skipped); set it back"),
            "{skipped:?}"
        );
        let back = told("2026.2", json!({"openstackRelease": "2026.1"}));
        assert!(back[0].contains("(and 2026.1 is older: databases do not go back); set it back to 2026.2"), "{back:?}");
    }

    #[test]
    fn images_that_are_named_outright_are_told_where_the_release_moves() {
        let spec = json!({"openstackRelease": "2026.1", "services": {"front": {"releases": {"front": {"values": {"images": {"tags": {"front": "x:1"}}}}}}}});
        let told = told("2025.2", spec);
        assert_eq!(
            told[1],
            "image-pinned spec.services.front.releases.front.values.images.tags: these images are named outright, so that they stay what they are when \
             spec.openstackRelease moves from 2025.2 to 2026.1; take them out, or name those of 2026.1"
        );
    }
}
