use serde_json::{Value, json};

use super::*;
use crate::testing::files;
use osdpl_values::Path;

/// Returns a catalogue with the key trees of two charts, `front` and `store`.
fn catalog() -> Catalog {
    let front = "{annotations: {pod: {'*': read, default: read}}, release_uuid: read, \
                 pod: {replicas: {api: number}, affinity: {anti: {type: {default: string}}}, tolerations: map, priorityClassName: read, \
                 security_context: {'*': read, front: {pod: {runAsUser: number}}}}, \
                 conf: {front: {DEFAULT: {debug: boolean}, database: {max_pool_size: number}}}, \
                 endpoints: {identity: {port: {api: number}, auth: {admin: {username: string, password: string}}}}}";
    let store = "{volume: {size: string}, conf: {store: {max_poll_size: string}}}";
    let keys = [("values/keys/front.yaml", front), ("values/keys/store.yaml", store)];
    Catalog::load(&files(&keys)).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn warnings(field: &str, values: Value, unset: &[&str]) -> String {
    let mut layer = Layer::new(Origin::Field(field.into()), values.as_object().unwrap().clone());
    layer.unset = unset.iter().map(|path| Path::parse(path).unwrap()).enumerate().collect();
    let mut findings = Vec::new();
    check_layers(&[layer.clone(), layer], "front", &catalog(), &mut findings);
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const OWN: &str = "spec.services.front.releases.front.values";

#[test]
fn reports_a_typo_once_with_the_right_name() {
    assert_eq!(
        warnings(OWN, json!({"pod": {"replicass": {"api": 3}}, "colour": 1}), &["conf.frnt.DEFAULT.debug"]),
        "spec.services.front.releases.front.values: the values of chart front have no colour, pod.replicass (did you mean \"replicas\"?), \
         conf.frnt.DEFAULT.debug (did you mean \"front\"?): helm passes unknown keys on, but most likely no template reads them; correct or remove them"
    );
}

#[test]
fn accepts_keys_in_maps_that_users_fill() {
    for values in [
        json!({"conf": {"front": {"database": {"max_retries": 1}, "DEFAULT": {"verbose": true}}, "overrides": {"a": 1}}}),
        json!({"endpoints": {"identity": {"auth": {"nova": {"username": "nova"}}}}}),
        json!({"pod": {"tolerations": {"api": {"enabled": true}}, "affinity": {"anti": {"type": {"api": "required"}}}}}),
        json!({"global": {"any": 1}, "extraObjects": []}),
        json!({"annotations": {"pod": {"front_api": {"a.b/c": "d"}}}, "release_uuid": "1", "pod": {"priorityClassName": {"api": "high"}}}),
        json!({"pod": {"security_context": {"front": {"pod": {"runAsGroup": 1}}, "other": {"pod": {"fsGroup": 1}}}}}),
    ] {
        assert_eq!(warnings(OWN, values, &["conf.front.DEFAULT.log_config_append"]), "");
    }
}

#[test]
fn common_values_must_be_known_to_some_chart() {
    assert_eq!(warnings("spec.common.values", json!({"volume": {"size": "1Gi"}}), &[]), "");
    assert!(warnings("spec.common.values", json!({"volumes": {"size": "1Gi"}}), &[]).contains("have no volumes"));
    assert!(warnings(OWN, json!({"volume": {"size": "1Gi"}}), &[]).contains("have no volume"));
}

#[test]
fn reports_only_typos_in_maps_that_users_fill() {
    for (values, path, meant) in [
        (json!({"conf": {"front": {"DEFALT": {"debug": true}}}}), "conf.front.DEFALT", "DEFAULT"),
        (json!({"conf": {"front": {"DEFAULT": {"debgu": true}}}}), "conf.front.DEFAULT.debgu", "debug"),
        (json!({"endpoints": {"identity": {"prot": {"api": 1}}}}), "endpoints.identity.prot", "port"),
        (
            json!({"endpoints": {"identity": {"auth": {"admin": {"pasword": "a"}}}}}),
            "endpoints.identity.auth.admin.pasword",
            "password",
        ),
        (
            json!({"pod": {"security_context": {"front": {"pod": {"runAsUsr": 1}}}}}),
            "pod.security_context.front.pod.runAsUsr",
            "runAsUser",
        ),
        (
            json!({"pod": {"affinity": {"anti": {"type": {"defualt": "required"}}}}}),
            "pod.affinity.anti.type.defualt",
            "default",
        ),
    ] {
        let expected = format!("have no {path} (did you mean \"{meant}\"?): helm passes unknown keys on");
        let message = warnings(OWN, values, &[]);
        assert!(message.contains(&expected), "{expected}\n{message}");
    }
}

#[test]
fn group_values_must_be_known_to_a_chart_of_the_group() {
    let front = || json!({"conf": {"front": {"DEFAULT": {"debug": true}}}});
    assert_eq!(warnings("spec.common.openstack.values", front(), &[]), "");
    assert_eq!(warnings("spec.common.infra.values", json!({"volume": {"size": "1Gi"}}), &[]), "");
    let mut findings = Vec::new();
    let origin = Origin::Field("spec.common.infra.values".into());
    let layer = Layer::new(origin, front().as_object().unwrap().clone());
    check_layers(&[layer], "store", &catalog(), &mut findings);
    assert!(findings.len() == 1 && findings[0].message.contains("have no conf.front"), "{findings:?}");
}

#[test]
fn a_name_of_another_chart_is_not_a_typo() {
    assert_eq!(warnings(OWN, json!({"conf": {"front": {"database": {"max_poll_size": 1}}}}), &[]), "");
}

#[test]
fn checks_added_presets_but_not_built_in_ones() {
    let wrong = json!({"pod": {"replicass": {"api": 3}}});
    let layer = |file: &str| {
        let origin = Origin::File { file: file.into(), field: "fragments[0]".into() };
        Layer::new(origin, wrong.as_object().unwrap().clone())
    };
    let mut catalog = catalog();
    let source = "ConfigMap openstack/edge, key presets.edge.yaml";
    catalog.added.insert("presets/edge.yaml".into(), source.into());
    let mut findings = Vec::new();
    check_layers(&[layer("presets/small.yaml"), layer("presets/edge.yaml")], "front", &catalog, &mut findings);
    let fields: Vec<&str> = findings.iter().map(|finding| finding.location.field.as_str()).collect();
    assert_eq!(fields, [format!("{source} (fragments[0])")]);
    // One fragment of a catalogue file that a user added can contain values for several releases. So osdpl writes one
    // warning for each release that gets an unknown key from the fragment, although all these warnings name the same
    // location.
    for _ in 0..2 {
        check_layers(&[layer("presets/edge.yaml")], "store", &catalog, &mut findings);
    }
    let charts: Vec<bool> = findings.iter().map(|finding| finding.message.contains("values of chart store")).collect();
    assert_eq!(charts, [false, true], "{findings:?}");
}

#[test]
fn classifies_keys() {
    let catalog = catalog();
    for (path, expected) in [
        ("pod.replicas.api", KeyState::Has(KeyType::Number)),
        ("pod.replicas", KeyState::Has(KeyType::Map)),
        ("pod.priorityClassName.api", KeyState::Read),
        ("annotations", KeyState::Read),
        ("annotations.pod.front_api", KeyState::Free),
        ("conf.front.DEFAULT.verbose", KeyState::Free),
        ("conf.front.DEFAULT.debgu", KeyState::No(" (did you mean \"debug\"?)".into())),
        ("conf.front.database.max_poll_size", KeyState::Free),
        ("colour", KeyState::No(String::new())),
    ] {
        assert_eq!(classify_key(&catalog, "front", &Path::parse(path).unwrap()), Some(expected), "{path}");
    }
    assert_eq!(classify_key(&catalog, "nothing", &Path::parse("a").unwrap()), None);
}

#[test]
fn skips_charts_of_another_version() {
    let layer = Layer::new(Origin::Field(OWN.into()), json!({"colour": 1}).as_object().unwrap().clone());
    let missing = Layer::new(Origin::Field(OWN.into()), json!({"shape": 1}).as_object().unwrap().clone());
    let layered = |whole: &[Layer], partial: &[Layer]| ResolvedLayers {
        layers: [("front".to_owned(), whole.to_vec())].into(),
        partial: [("front".to_owned(), partial.to_vec())].into(),
        ..ResolvedLayers::default()
    };
    let count = |version: Value, layered: &ResolvedLayers| {
        let services = json!({"front": {"releases": {"front": {"version": version}}}});
        let spec = serde_json::from_value(json!({"openstackRelease": "2026.1", "services": services})).unwrap();
        warn_unknown_keys(&spec, &catalog(), layered).len()
    };
    for layered in [layered(&[layer], &[]), layered(&[], &[missing])] {
        assert_eq!((count(Value::Null, &layered), count(json!("9.9.9"), &layered)), (1, 0));
    }
}
