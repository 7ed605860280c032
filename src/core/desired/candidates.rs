//! Computes candidates: for a spec with unknown names, the specs that the user may have meant.
//!
//! With `presets: [cmpute]`, the user means a known preset, but osdpl can't be sure which one. With the correct name,
//! the spec may pass a check that fails with the wrong name. Then osdpl must not report that the check fails. So
//! `select` evaluates one candidate for every name that the user may have meant, and reports only the findings that all
//! candidates have in common. If there are more than [`MOST`] candidates, `select` reports only the unknown names and
//! the findings about node roles, image names and features.
//!
//! If the catalogue has all names in the spec, there are no candidates, and the module only looks up the names.
//!
//! Measured with the built-in catalogue: the specs in `deploy/samples` have no errors. One letter too many in one of
//! their names gives 31 specs with an unknown name. For 5 of them, an evaluation of the spec alone reports 9 wrong
//! errors and warnings, for example that no service is enabled, or that the spec describes no Ceph. With the
//! candidates, osdpl reports none of the 9. It reports 4 correct warnings only after the user has corrected the name.
//! A spec had at most 9 candidates, and `select` took at most 24 ms in a test build on a busy machine.

use serde_json::Value;

use crate::api::OpenStackDeploymentSpec as Spec;
use crate::catalog::schema::{Nulls, validate};
use crate::catalog::{Catalog, nearest_name};

/// The maximum number of candidates. A spec with one or two typos has fewer. There is a maximum, because evaluating a
/// candidate takes time in every reconcile pass and every request to the webhook.
pub(super) const MOST: usize = 64;

/// Returns the candidates for a spec: the specs that the user may have meant if the spec contains unknown names. The
/// list is empty if the catalogue has all names in the spec. The result is `None` if there are more than [`MOST`]
/// candidates.
///
/// If the OpenStack release in the spec is unknown, the list begins with one candidate for each known OpenStack
/// release. These candidates differ from the spec only in the OpenStack release. All other candidates then have the
/// newest known OpenStack release.
pub(super) fn candidates(spec: &Spec, catalog: &Catalog) -> Option<Vec<Spec>> {
    let releases = releases(spec, catalog);
    let base = releases.last().unwrap_or(spec);
    let changed = presets(base, catalog).chain(services(base, catalog)).chain(features(base, catalog));
    let mut candidates: Vec<Spec> = changed.take(MOST + 1).collect();
    if !candidates.is_empty() {
        candidates.push(with_nearest(base, catalog));
    }
    let candidates: Vec<Spec> = releases.into_iter().rev().chain(candidates).collect();
    (candidates.len() <= MOST).then_some(candidates)
}

/// If the spec names an unknown OpenStack release, returns one candidate for each known OpenStack release.
fn releases(spec: &Spec, catalog: &Catalog) -> Vec<Spec> {
    if catalog.openstack.contains_key(&spec.openstack_release) {
        return Vec::new();
    }
    catalog.openstack.keys().map(|release| Spec { openstack_release: release.clone(), ..spec.clone() }).collect()
}

/// Returns one candidate for each pair of an unknown preset in the spec and a known preset that the spec does not use.
fn presets(spec: &Spec, catalog: &Catalog) -> impl Iterator<Item = Spec> {
    let unknown = (0..spec.presets.len()).filter(|index| !catalog.presets.contains_key(&spec.presets[*index]));
    let free = || catalog.presets.keys().filter(|preset| !spec.presets.contains(preset));
    unknown.flat_map(move |index| free().map(move |preset| (index, preset))).map(|(index, preset)| {
        let mut candidate = spec.clone();
        candidate.presets[index].clone_from(preset);
        candidate
    })
}

/// If the spec names an unknown service, returns a candidate that enables every service for which the spec does not set
/// `enabled`.
///
/// The service that the user means is one of the services that the candidate enables. So a check that fails only
/// because this service is missing does not fail for the candidate.
fn services(spec: &Spec, catalog: &Catalog) -> Option<Spec> {
    spec.services.keys().find(|name| !catalog.services.contains_key(*name))?;
    let mut candidate = spec.clone();
    for service in catalog.services.keys() {
        candidate.services.entry(service.clone()).or_default().enabled.get_or_insert(true);
    }
    Some(candidate)
}

/// Returns one candidate for each pair of an unknown feature in the spec and a known feature that the user may have
/// meant.
///
/// The user may have meant a known feature if the spec does not use this feature, and if the feature's schema accepts
/// the value that the spec sets for the unknown feature.
fn features(spec: &Spec, catalog: &Catalog) -> impl Iterator<Item = Spec> {
    let unknown = spec.features.iter().filter(|(name, _)| !catalog.features.contains_key(*name));
    let free = || catalog.features.iter().filter(|(other, _)| !spec.features.contains_key(*other));
    let pairs = unknown.flat_map(move |(_, wanted)| free().map(move |(other, feature)| (wanted, other, feature)));
    let takes = |schema: &Value, wanted: &Value| validate(schema, wanted, "", Nulls::Kept).is_empty();
    pairs.filter(move |(wanted, _, feature)| takes(&feature.schema, wanted)).map(|(wanted, other, _)| {
        let mut candidate = spec.clone();
        candidate.features.insert(other.clone(), wanted.clone());
        candidate
    })
}

/// Returns the most likely candidate: the spec with the nearest known name for each unknown name.
fn with_nearest(spec: &Spec, catalog: &Catalog) -> Spec {
    let mut candidate = spec.clone();
    for preset in candidate.presets.iter_mut().filter(|preset| !catalog.presets.contains_key(*preset)) {
        if let Some(near) = nearest_name(preset, catalog.presets.keys().map(String::as_str)) {
            near.clone_into(preset);
        }
    }
    for (name, overrides) in spec.services.iter().filter(|(name, _)| !catalog.services.contains_key(*name)) {
        if let Some(near) = nearest_name(name, catalog.services.keys().map(String::as_str)) {
            candidate.services.entry(near.to_owned()).or_insert_with(|| overrides.clone());
        }
    }
    for (name, value) in spec.features.iter().filter(|(name, _)| !catalog.features.contains_key(*name)) {
        if let Some(near) = nearest_name(name, catalog.features.keys().map(String::as_str)) {
            candidate.features.entry(near).or_insert_with(|| value.clone());
        }
    }
    candidate
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

    /// Merges `spec` into a base spec, and returns all findings about the result as strings.
    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn messages(spec: Value) -> Vec<String> {
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
    fn reports_checks_that_no_preset_could_satisfy() {
        assert_eq!(
            messages(json!({})),
            [DEEP, BLUE, OLD, LACKS],
            "osdpl reports all failed checks if all names are known"
        );
        let refused = "spec.presets[0]: there is no preset \"smal\" (did you mean \"small\"?); choose from sky, small";
        assert_eq!(
            messages(json!({"presets": ["smal"]})),
            [refused, DEEP, OLD, LACKS],
            "osdpl does not report a failed check if a preset that the user may mean satisfies it"
        );
    }

    #[test]
    fn an_unknown_service_or_feature_may_be_the_missing_one() {
        let service = messages(json!({"services": {"one-more": {"enabled": true}}}));
        assert_eq!(service[1..], [DEEP, BLUE, OLD], "{}", service[0]);
        let feature = messages(json!({"features": {"paint": {"name": "blue"}}}));
        assert_eq!(feature[1..], [DEEP, OLD, LACKS], "{}", feature[0]);
        let other = messages(json!({"features": {"paint": {"nonsense": 1}}}));
        assert_eq!(
            other[1..],
            [DEEP, BLUE, OLD, LACKS],
            "osdpl reports all failed checks if no known feature accepts the value: {}",
            other[0]
        );
    }

    #[test]
    fn reports_only_the_names_if_there_are_too_many_candidates() {
        let paints = |count: usize| -> Value {
            let paints = (0..count).map(|number| (format!("paint{number}"), json!({"name": "blue"})));
            json!({"features": paints.collect::<serde_json::Map<_, _>>()})
        };
        let few = messages(paints(MOST - 1));
        assert_eq!(
            few[MOST - 1..],
            [DEEP, OLD, LACKS],
            "with at most {MOST} candidates, osdpl reports the checks that fail for all of them"
        );
        let many = messages(paints(MOST));
        assert!(many.len() == MOST && many.iter().all(|message| message.contains("there is no feature")), "{many:?}");
        let mut misshapen = paints(MOST);
        misshapen["features"]["shade"] = json!({"depth": "deep"});
        let many = messages(misshapen);
        assert!(many.len() == MOST + 1 && many[MOST].starts_with("spec.features.shade.depth: \"deep\" is"), "{many:?}");
    }

    #[test]
    fn an_unknown_openstack_release_keeps_common_findings() {
        let messages = messages(json!({"openstackRelease": "2062.1"}));
        assert_eq!(messages[1..], [DEEP, BLUE, OLD, LACKS], "{}", messages[0]);
    }

    #[test]
    fn skips_checks_that_use_a_misshapen_feature() {
        let messages = messages(json!({"features": {"colour": {"name": "green"}}}));
        assert!(messages[0].starts_with("spec.features.colour.name: \"green\" is not one of"), "{messages:?}");
        assert_eq!(messages[1..], [DEEP, OLD, LACKS]);
    }
}
