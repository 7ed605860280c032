//! Tests warnings about values that additions to the catalogue set.

use super::*;

#[test]
fn checks_additions_with_their_location() {
    let preset = "preset: mine\ndescription: Mine.\nfragments:\n- releases:\n    front:\n      values: {conf: {opts: x, hosts: [b], region: RegionOne, password: \
                  an0ther}, manifests: {job: 'false'}, labels: null, auth: {admin: {region: R2}, x: {region: R2}}}\n    store:\n      values: {pod: {replicas: 3}, \
                  auth: {admin: s3cret}}\n";
    let warnings_for =
        |common: Value| warnings_with(json!({"presets": ["small", "mine"], "common": common}), &[(ADDED, preset)]);
    let found = warnings_for(json!({}));
    let at = |path: &str, release: &str| format!("spec.presets: {ADDED_AT} (fragments[0]), {path} of {release}: ");
    let expected = [
        format!("contradiction {}replaces the credential user of front only here, ", at("conf.password", "front")),
        format!(
            "contradiction {}the number of servers is 3 here and 2 in conf.replicas of front ",
            at("pod.replicas", "store")
        ),
        format!(
            "contradiction {}the region is R2 here and \"RegionOne\" in the cloud, ",
            at("auth.admin.region", "front")
        ),
        format!("contradiction {}the region is R2 here and \"RegionOne\" in the cloud, ", at("auth.x.region", "front")),
        format!(
            "hidden-key {}is a string where the chart has a map, and hides its keys a, b",
            at("conf.opts", "front")
        ),
        format!(
            "list-replaced {}replaces the list of presets/small.yaml (fragments[0]) and drops ",
            at("conf.hosts", "front")
        ),
        format!("type-changed {}is a string where the chart has a boolean", at("manifests.job", "front")),
    ];
    for expected in &expected {
        assert!(found.iter().any(|warning| warning.starts_with(expected)), "{expected}: {found:#?}");
    }
    assert_eq!(
        found.len(),
        expected.len(),
        "expected one warning for each mistake, and none about repeated values: {found:#?}"
    );
    let over = warnings_for(json!({"values": {"manifests": {"job": true}}}));
    assert!(
        !over.iter().any(|warning| warning.contains("manifests.job")),
        "a wrong value of an addition causes no warning if the user corrects the value: {over:#?}"
    );
}

#[test]
fn names_the_addition_whose_list_is_replaced() {
    let preset = "preset: mine\ndescription: Mine.\nfragments:\n- releases:\n    front:\n      values: {conf: {hosts: [x, y], colour: red}}\n";
    let own = json!({"front": {"releases": {"front": {"values": {"conf": {"hosts": ["x"], "colour": "red"}}}}}});
    let found = warnings_with(json!({"presets": ["small", "mine"], "services": own}), &[(ADDED, preset)]);
    let lost = format!("list-replaced {OWN}.conf.hosts: replaces the list of {ADDED_AT} (fragments[0]) and drops ");
    assert!(found.iter().any(|warning| warning.starts_with(&lost)), "{found:#?}");
    assert!(!found.iter().any(|warning| warning.contains("presets/mine.yaml")), "{found:#?}");
}

#[test]
fn reports_wrong_type_over_an_addition_of_wrong_type() {
    let preset = "preset: mine\ndescription: Mine.\nfragments:\n- releases:\n    front:\n      values: {manifests: {job: 'false'}}\n";
    let own = json!({"front": {"releases": {"front": {"values": {"manifests": {"job": [1]}}}}}});
    let found = warnings_with(json!({"presets": ["small", "mine"], "services": own}), &[(ADDED, preset)]);
    assert!(
        found.iter().any(|warning| warning.starts_with(&format!("type-changed {OWN}.manifests.job: is a list"))),
        "{found:#?}"
    );
}
