use serde_json::json;

use super::*;
use crate::catalog::tests::files;
use crate::values::Path;

/// A catalogue in which the charts have these defaults.
fn catalog() -> Catalog {
    let front = "{pod: {replicas: {api: number}, affinity: {anti: {type: {default: string}}}, tolerations: map}, \
                 conf: {front: {DEFAULT: {debug: boolean}}}, endpoints: {identity: {auth: {admin: {username: string}}}}}";
    let keys = [("values/keys/front.yaml", front), ("values/keys/store.yaml", "volume: {size: string}")];
    Catalog::load(&files(&keys)).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn told(field: &str, values: Value, unset: &[&str]) -> String {
    let mut layer = Layer::new(Origin::Field(field.into()), values.as_object().unwrap().clone());
    layer.unset = unset.iter().map(|path| Path::parse(path).unwrap()).collect();
    let mut findings = Vec::new();
    tell(&[layer.clone(), layer], "front", &catalog(), &mut findings);
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const OWN: &str = "spec.services.front.releases.front.values";

#[test]
fn a_wrong_letter_is_named_once_with_the_right_one() {
    assert_eq!(
        told(OWN, json!({"pod": {"replicass": {"api": 3}}, "colour": 1}), &["conf.frnt.DEFAULT.debug"]),
        "spec.services.front.releases.front.values: the values of chart front have no colour; pod.replicass, did you mean \"replicas\"?; \
         conf.frnt.DEFAULT.debug: helm is given what is written here, but most likely nothing reads it; correct the name, or take it out"
    );
}

#[test]
fn what_charts_leave_to_the_user_is_not_doubted() {
    for values in [
        json!({"conf": {"front": {"database": {"max_retries": 1}, "DEFAULT": {"verbose": true}}, "overrides": {"a": 1}}}),
        json!({"endpoints": {"identity": {"auth": {"nova": {"username": "nova"}}}}}),
        json!({"pod": {"tolerations": {"api": {"enabled": true}}, "affinity": {"anti": {"type": {"api": "required"}}}}}),
        json!({"global": {"any": 1}, "extraObjects": []}),
    ] {
        assert_eq!(told(OWN, values, &["conf.front.DEFAULT.log_config_append"]), "");
    }
}

#[test]
fn what_all_releases_are_given_must_be_known_to_one_of_their_charts() {
    assert_eq!(told("spec.common.values", json!({"volume": {"size": "1Gi"}}), &[]), "");
    assert!(told("spec.common.values", json!({"volumes": {"size": "1Gi"}}), &[]).contains("have no volumes"));
    assert!(told(OWN, json!({"volume": {"size": "1Gi"}}), &[]).contains("have no volume"));
}
