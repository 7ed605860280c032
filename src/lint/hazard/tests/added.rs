//! What someone added to the catalogue.

use super::*;

#[test]
fn what_someone_added_to_the_catalogue_is_judged_with_the_place_where_it_stands() {
    let preset = "preset: mine\ndescription: Mine.\nfragments:\n- releases:\n    front:\n      values: {conf: {opts: x, hosts: [b], region: RegionOne, password: \
                  an0ther}, manifests: {job: 'false'}, labels: null, auth: {admin: {region: R2}, x: {region: R2}}}\n    store:\n      values: {pod: {replicas: 3}, \
                  auth: {admin: s3cret}}\n";
    let told = |common: Value| told_with(json!({"presets": ["small", "mine"], "common": common}), &[(ADDED, preset)]);
    let found = told(json!({}));
    let at = |path: &str, release: &str| format!("spec.presets: {ADDED_AT} (fragments[0]), {path} of {release}: ");
    let expected = [
        format!(
            "contradiction {}takes the place of the credential user of front here alone, ",
            at("conf.password", "front")
        ),
        format!(
            "contradiction {}the number of servers is 3 here and 2 in conf.replicas of front ",
            at("pod.replicas", "store")
        ),
        format!(
            "contradiction {}the region is R2 where the cloud says \"RegionOne\", ",
            at("auth.admin.region", "front")
        ),
        format!("contradiction {}the region is R2 where the cloud says \"RegionOne\", ", at("auth.x.region", "front")),
        format!(
            "hidden-key {}is a string where the chart has a map, and hides its keys a, b",
            at("conf.opts", "front")
        ),
        format!("list-replaced {}replaces the list of presets/small.yaml (fragments[0]), ", at("conf.hosts", "front")),
        format!("type-changed {}is a string where the chart has a boolean", at("manifests.job", "front")),
    ];
    for expected in &expected {
        assert!(found.iter().any(|told| told.starts_with(expected)), "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "what says the same as others may differ in another cloud: {found:#?}");
    let over = told(json!({"values": {"manifests": {"job": true}}}));
    assert!(!over.iter().any(|told| told.contains("manifests.job")), "the user decides, and rightly: {over:#?}");
}

#[test]
fn a_list_that_replaces_one_of_somebodys_names_where_that_stands() {
    let preset = "preset: mine\ndescription: Mine.\nfragments:\n- releases:\n    front:\n      values: {conf: {hosts: [x, y], colour: red}}\n";
    let own = json!({"front": {"releases": {"front": {"values": {"conf": {"hosts": ["x"], "colour": "red"}}}}}});
    let found = told_with(json!({"presets": ["small", "mine"], "services": own}), &[(ADDED, preset)]);
    let lost = format!("list-replaced {OWN}.conf.hosts: replaces the list of {ADDED_AT} (fragments[0]), because ");
    assert!(found.iter().any(|told| told.starts_with(&lost)), "{found:#?}");
    assert!(!found.iter().any(|told| told.contains("presets/mine.yaml")), "{found:#?}");
}

#[test]
fn a_wrong_kind_over_somebodys_wrong_kind_is_ones_own_mistake_all_the_same() {
    let preset = "preset: mine\ndescription: Mine.\nfragments:\n- releases:\n    front:\n      values: {manifests: {job: 'false'}}\n";
    let own = json!({"front": {"releases": {"front": {"values": {"manifests": {"job": [1]}}}}}});
    let found = told_with(json!({"presets": ["small", "mine"], "services": own}), &[(ADDED, preset)]);
    assert!(
        found.iter().any(|told| told.starts_with(&format!("type-changed {OWN}.manifests.job: is a list"))),
        "{found:#?}"
    );
}
