//! What a spec may mean that has names which the catalogue does not have.
//!
//! `presets: [cmpute]` says that some preset is wanted, and not which: a check that asks for what a preset gives would be wrong to complain. So the spec
//! is read once for every name that may be meant, and what is said of each of these readings is said whatever the name comes to be. Where it may mean more
//! than [`MOST`], it is not read that often: its names are told of, and what its own fields say, until they are right.

use serde_json::Value;

use crate::api::OpenStackDeploymentSpec as Spec;
use crate::catalog::schema::{Nulls, faults};
use crate::catalog::{Catalog, nearest};

/// How often a spec is read at most: a slip or two in its names takes fewer, and each of them is a pass's and an answer's time.
pub(super) const MOST: usize = 64;

/// The specs that one with unknown names may mean, the plainest first; none of one whose names are known. `None` where there are more than [`MOST`].
pub(super) fn of(spec: &Spec, catalog: &Catalog) -> Option<Vec<Spec>> {
    let releases = releases(spec, catalog);
    let base = releases.last().unwrap_or(spec);
    let meant = presets(base, catalog).chain(services(base, catalog)).chain(features(base, catalog));
    let mut readings: Vec<Spec> = meant.take(MOST + 1).collect();
    if !readings.is_empty() {
        readings.push(with_nearest(base, catalog));
    }
    let readings: Vec<Spec> = releases.into_iter().rev().chain(readings).collect();
    (readings.len() <= MOST).then_some(readings)
}

/// With each OpenStack release that there is, where the spec's own is none.
fn releases(spec: &Spec, catalog: &Catalog) -> Vec<Spec> {
    if catalog.openstack.contains_key(&spec.openstack_release) {
        return Vec::new();
    }
    catalog.openstack.keys().map(|release| Spec { openstack_release: release.clone(), ..spec.clone() }).collect()
}

/// With each preset that is not named yet in the place of each that is none.
fn presets(spec: &Spec, catalog: &Catalog) -> impl Iterator<Item = Spec> {
    let unknown = (0..spec.presets.len()).filter(|place| !catalog.presets.contains_key(&spec.presets[*place]));
    let free = || catalog.presets.keys().filter(|preset| !spec.presets.contains(preset));
    unknown.flat_map(move |place| free().map(move |preset| (place, preset))).map(|(place, preset)| {
        let mut reading = spec.clone();
        reading.presets[place].clone_from(preset);
        reading
    })
}

/// With every service enabled of which nothing is said, where one is named that there is not: checks ask for one that is lacking, and there is one more.
fn services(spec: &Spec, catalog: &Catalog) -> Option<Spec> {
    spec.services.keys().find(|name| !catalog.services.contains_key(*name))?;
    let mut reading = spec.clone();
    for service in catalog.services.keys() {
        reading.services.entry(service.clone()).or_default().enabled.get_or_insert(true);
    }
    Some(reading)
}

/// With what is said of each feature that there is not said of each that takes it, and of which nothing is said yet.
fn features(spec: &Spec, catalog: &Catalog) -> impl Iterator<Item = Spec> {
    let unknown = spec.features.iter().filter(|(name, _)| !catalog.features.contains_key(*name));
    let free = || catalog.features.iter().filter(|(other, _)| !spec.features.contains_key(*other));
    let pairs = unknown.flat_map(move |(_, wanted)| free().map(move |(other, feature)| (wanted, other, feature)));
    let takes = |schema: &Value, wanted: &Value| faults(schema, wanted, "", Nulls::Kept).is_empty();
    pairs.filter(move |(wanted, _, feature)| takes(&feature.schema, wanted)).map(|(wanted, other, _)| {
        let mut reading = spec.clone();
        reading.features.insert(other.clone(), wanted.clone());
        reading
    })
}

/// With the nearest name in the place of each that there is not: what is most likely meant.
fn with_nearest(spec: &Spec, catalog: &Catalog) -> Spec {
    let mut reading = spec.clone();
    for preset in reading.presets.iter_mut().filter(|preset| !catalog.presets.contains_key(*preset)) {
        if let Some(near) = nearest(preset, catalog.presets.keys().map(String::as_str)) {
            near.clone_into(preset);
        }
    }
    for (name, said) in spec.services.iter().filter(|(name, _)| !catalog.services.contains_key(*name)) {
        if let Some(near) = nearest(name, catalog.services.keys().map(String::as_str)) {
            reading.services.entry(near.to_owned()).or_insert_with(|| said.clone());
        }
    }
    for (name, said) in spec.features.iter().filter(|(name, _)| !catalog.features.contains_key(*name)) {
        if let Some(near) = nearest(name, catalog.features.keys().map(String::as_str)) {
            reading.features.entry(near).or_insert_with(|| said.clone());
        }
    }
    reading
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::MOST;
    use crate::catalog::Catalog;
    use crate::desired::select;
    use crate::testing::files;

    const SHADE: &str = r"feature: shade
description: Its shade.
schema: {type: object, properties: {depth: {type: integer}}}
default: {}
checks:
- {level: error, field: spec.features.shade.depth, message: is too deep, when: has(features.shade.depth) && features.shade.depth > 3}
- {level: error, field: spec.features.shade, message: asks for blue, when: has(features.shade.depth) && features.colour.name != 'blue'}
- {level: error, field: spec.features.shade, message: is none of t1, when: has(features.shade.depth) && openstack.tag == 't1'}
- {level: error, field: spec.features.shade, message: asks for extra, when: has(features.shade.depth) && !services.extra.enabled}
";
    const SKY: &str =
        "preset: sky\ndescription: A blue one.\nservices: [store, front]\nfeatures: {colour: {name: blue}}\n";
    const EXTRA: &str = "service: extra\ndescription: One more.\ngroup: openstack\nreleases:\n  extra: {components: {extra/api: Deployment}}\n";

    /// What is said but for what the services need.
    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn said(spec: Value) -> Vec<String> {
        let added =
            [("values/features/shade.yaml", SHADE), ("presets/sky.yaml", SKY), ("values/services/extra.yaml", EXTRA)];
        let catalog = Catalog::load(&files(&added)).unwrap();
        let mut whole =
            json!({"openstackRelease": "2026.1", "presets": ["small"], "features": {"shade": {"depth": 5}}});
        osdpl_values::merge(whole.as_object_mut().unwrap(), spec.as_object().unwrap().clone());
        let selection = select("cloud", "openstack", &serde_json::from_value(whole).unwrap(), &catalog);
        assert!(selection.is_refused() && selection.certificates.is_empty());
        selection.findings.iter().map(ToString::to_string).collect()
    }

    const DEEP: &str = "spec.features.shade.depth: is too deep";
    const BLUE: &str = "spec.features.shade: asks for blue";
    const OLD: &str = "spec.features.shade: is none of t1";
    const LACKS: &str = "spec.features.shade: asks for extra";

    #[test]
    fn checks_that_no_preset_could_answer_are_told_beside_one_that_there_is_not() {
        assert_eq!(said(json!({})), [DEEP, BLUE, OLD, LACKS], "the others are told where all names are known");
        let refused = "spec.presets[0]: there is no preset \"smal\", did you mean \"small\"?; there are sky, small";
        assert_eq!(said(json!({"presets": ["smal"]})), [refused, DEEP, OLD, LACKS], "sky is blue");
    }

    #[test]
    fn a_service_or_a_feature_that_there_is_not_may_be_the_one_that_is_lacking() {
        let service = said(json!({"services": {"one-more": {"enabled": true}}}));
        assert_eq!(service[1..], [DEEP, BLUE, OLD], "{}", service[0]);
        let feature = said(json!({"features": {"paint": {"name": "blue"}}}));
        assert_eq!(feature[1..], [DEEP, OLD, LACKS], "{}", feature[0]);
        let other = said(json!({"features": {"paint": {"nonsense": 1}}}));
        assert_eq!(other[1..], [DEEP, BLUE, OLD, LACKS], "no feature takes it: {}", other[0]);
    }

    #[test]
    fn names_that_may_mean_too_much_are_told_of_alone_beside_what_no_name_can_change() {
        let paints = |count: usize| -> Value {
            let paints = (0..count).map(|number| (format!("paint{number}"), json!({"name": "blue"})));
            json!({"features": paints.collect::<serde_json::Map<_, _>>()})
        };
        let few = said(paints(MOST - 1));
        assert_eq!(few[MOST - 1..], [DEEP, OLD, LACKS], "one reading each, and one with the nearest name");
        let many = said(paints(MOST));
        assert!(many.len() == MOST && many.iter().all(|told| told.contains("there is no feature")), "{many:?}");
        let mut misshapen = paints(MOST);
        misshapen["features"]["shade"] = json!({"depth": "deep"});
        let many = said(misshapen);
        assert!(many.len() == MOST + 1 && many[MOST].starts_with("spec.features.shade.depth: \"deep\" is"), "{many:?}");
    }

    #[test]
    fn an_openstack_release_that_there_is_not_leaves_what_holds_for_every_one() {
        let said = said(json!({"openstackRelease": "2062.1"}));
        assert_eq!(said[1..], [DEEP, BLUE, OLD, LACKS], "{}", said[0]);
    }

    #[test]
    fn what_asks_a_feature_of_the_wrong_shape_is_not_judged_and_the_rest_is() {
        let said = said(json!({"features": {"colour": {"name": "green"}}}));
        assert!(said[0].starts_with("spec.features.colour.name: \"green\" is not one of"), "{said:?}");
        assert_eq!(said[1..], [DEEP, OLD, LACKS]);
    }
}
