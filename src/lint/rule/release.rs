//! Refuses a spec that moves the cloud to another OpenStack release.

use std::collections::BTreeMap;

use serde_json::Value;

use osdpl_core::api::{OpenStackDeploymentSpec, ValuesFrom, ValuesKind};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::Unavailable;
use osdpl_core::finding::Finding;
use osdpl_values::{Values, get};

const FIELD: &str = "spec.openstackRelease";
/// The maximum number of image tags that one warning names.
const NAMED: usize = 5;

/// Refuses a spec whose OpenStack release differs from the deployed release, and warns about images that the spec pins.
/// Returns nothing if the catalogue does not have the OpenStack release, because the catalogue's own check reports
/// that.
///
/// osdpl refuses downgrades because databases can't be downgraded, and upgrades because osdpl does not implement
/// ordered upgrades yet.
pub(crate) fn check_release_move(deployed: &str, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<Finding> {
    let target = &spec.openstack_release;
    let Some(release) = catalog.openstack.get(target).filter(|_| deployed != target) else { return Vec::new() };
    let from = &release.upgrades_from;
    let unsupported = "osdpl does not support upgrades of OpenStack yet";
    let why = if deployed > target.as_str() {
        format!("{target} is older: databases can't be downgraded")
    } else if from.is_empty() || from.iter().any(|known| known == deployed) {
        unsupported.to_owned()
    } else {
        format!("{unsupported} ({target} will only be reachable from {})", from.join(" or "))
    };
    let message = format!("{deployed} is deployed, and {why}; set openstackRelease back to {deployed}");
    let mut found = vec![Finding::error("release-move", FIELD, message)];
    found.extend(
        pinned(spec).map(|(field, tags)| pinned_warning(field, &format!("the images of {tags} are"), deployed, target)),
    );
    found
}

/// Warns about objects of `valuesFrom` that pin images of another OpenStack release, if the spec changes the release.
///
/// The function ignores objects whose content is not known.
pub(crate) fn pinned_in_values_from(
    deployed: &str,
    spec: &OpenStackDeploymentSpec,
    values_from: &BTreeMap<(ValuesKind, String, String), Result<Values, Unavailable>>,
) -> Vec<Finding> {
    let target = &spec.openstack_release;
    if deployed == target {
        return Vec::new();
    }
    let releases = spec.services.iter().flat_map(|(service, entry)| {
        entry.releases.iter().map(move |(name, release)| (format!("spec.services.{service}.releases.{name}"), release))
    });
    let sources = releases.flat_map(|(field, release)| {
        let sources = release.values_from.iter().enumerate();
        sources.map(move |(index, source)| (format!("{field}.valuesFrom[{index}]"), source))
    });
    let values_of = |source: &ValuesFrom| {
        let key = source.key.clone().unwrap_or_else(|| "values.yaml".into());
        values_from.get(&(source.kind, source.name.clone(), key))?.as_ref().ok()
    };
    let found = sources.filter_map(|(field, source)| {
        let tags = outdated_tags(values_of(source)?, target)?;
        Some(pinned_warning(field, &format!("the images of {tags} in this object are"), deployed, target))
    });
    found.collect()
}

fn pinned_warning(field: String, which: &str, deployed: &str, target: &str) -> Finding {
    let message = format!(
        "{which} pinned, so they do not change when spec.openstackRelease moves from {deployed} to {target}; remove them, or use images of {target}"
    );
    Finding::warning("image-pinned", field, message)
}

/// Returns the keys in `images.tags` whose image names do not contain the OpenStack release `target`, as a list for
/// messages; `None` if there is no such key.
fn outdated_tags(values: &Values, target: &str) -> Option<String> {
    let tags = get(values, &["images", "tags"].into_iter().collect())?.as_object()?;
    let is_outdated = |image: &Value| image.as_str().is_some_and(|image| !image.contains(target));
    let names: Vec<&str> = tags.iter().filter(|(_, image)| is_outdated(image)).map(|(tag, _)| tag.as_str()).collect();
    let more = names.len().saturating_sub(NAMED);
    let shown = names.get(..NAMED.min(names.len()))?.join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}

/// Returns each field of the spec that pins images of another OpenStack release than `spec.openstackRelease`, with the
/// keys of these images.
fn pinned(spec: &OpenStackDeploymentSpec) -> impl Iterator<Item = (String, String)> {
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
    let all = common.into_iter().chain(own);
    all.filter_map(|(field, values)| {
        Some((format!("{field}.values.images.tags"), outdated_tags(values, &spec.openstack_release)?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(deployed: &str, spec: serde_json::Value) -> Vec<String> {
        let newer = "openstackRelease: '2026.1'\ndescription: x\nupgradesFrom: ['2025.2', '2025.1']\n";
        let files = osdpl_core::testing::files(&[("values/openstack/2026.1.yaml", newer)]);
        let catalog = Catalog::load(&files).unwrap();
        let found = check_release_move(deployed, &serde_json::from_value(spec).unwrap(), &catalog);
        found.iter().map(|finding| format!("{} {}: {}", finding.rule, finding.field(), finding.text())).collect()
    }

    #[test]
    fn refuses_a_release_move() {
        let expected = "release-move spec.openstackRelease: 2025.2 is deployed, and osdpl does not support upgrades of OpenStack yet; set openstackRelease back to 2025.2";
        assert_eq!(messages("2025.2", json!({"openstackRelease": "2026.1"})), [expected]);
        assert_eq!(messages("2026.1", json!({"openstackRelease": "2026.1"})), Vec::<String>::new());
        let skipped = messages("2024.1", json!({"openstackRelease": "2026.1"}));
        assert!(
            skipped[0].contains(
                "yet (2026.1 will only be reachable from 2025.2 or 2025.1); set openstackRelease back to 2024.1"
            ),
            "{skipped:?}"
        );
        let back = messages("2026.2", json!({"openstackRelease": "2026.1"}));
        assert!(back[0].ends_with(": databases can't be downgraded; set openstackRelease back to 2026.2"), "{back:?}");
    }

    #[test]
    fn warns_about_pinned_images_on_a_release_move() {
        let spec = json!({"openstackRelease": "2026.1", "services": {"front": {"releases": {"front": {"values": {"images": {"tags": {"front": "x:1"}}}}}}}});
        let found = messages("2025.2", spec);
        assert_eq!(
            found[1],
            "image-pinned spec.services.front.releases.front.values.images.tags: the images of front are pinned, so they do not change when \
             spec.openstackRelease moves from 2025.2 to 2026.1; remove them, or use images of 2026.1"
        );
    }

    #[test]
    fn warns_about_pinned_images_in_values_from() {
        let from = |name: &str| json!({"kind": "ConfigMap", "name": name});
        let own = json!({"front": {"valuesFrom": [from("unread"), from("plain"), from("pins")]}});
        let spec = json!({"openstackRelease": "2026.1", "services": {"front": {"releases": own}}});
        let values = |values: serde_json::Value| Ok(values.as_object().unwrap().clone());
        let key = |name: &str| (ValuesKind::ConfigMap, name.to_owned(), "values.yaml".to_owned());
        let known = BTreeMap::from([
            (key("unread"), Err(Unavailable::Missing(String::new()))),
            (key("plain"), values(json!({"images": {"pull_policy": "Always"}}))),
            (key("pins"), values(json!({"images": {"tags": {"front": "x:1"}}}))),
        ]);
        let spec = serde_json::from_value(spec).unwrap();
        let found = pinned_in_values_from("2025.2", &spec, &known);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].field(), "spec.services.front.releases.front.valuesFrom[2]");
        assert!(
            found[0].message.starts_with("the images of front in this object are pinned, so they do not change"),
            "{found:?}"
        );
        assert_eq!(pinned_in_values_from("2026.1", &spec, &known), []);
        let own = BTreeMap::from([(key("pins"), values(json!({"images": {"tags": {"front": "x:2026.1-noble"}}})))]);
        assert_eq!(
            pinned_in_values_from("2025.2", &spec, &own),
            [],
            "an image of the target release causes no warning"
        );
    }
}
