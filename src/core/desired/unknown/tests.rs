use serde_json::{Value, json};

use super::*;
use crate::testing::files;
use osdpl_values::Path;

/// A catalogue in which the charts have these defaults.
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
fn told(field: &str, values: Value, unset: &[&str]) -> String {
    let mut layer = Layer::new(Origin::Field(field.into()), values.as_object().unwrap().clone());
    layer.unset = unset.iter().map(|path| Path::parse(path).unwrap()).enumerate().collect();
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
         conf.frnt.DEFAULT.debug, did you mean \"front\"?: helm is given what is written here, but most likely nothing reads it; correct the name, or take it out"
    );
}

#[test]
fn what_charts_leave_to_the_user_is_not_doubted() {
    for values in [
        json!({"conf": {"front": {"database": {"max_retries": 1}, "DEFAULT": {"verbose": true}}, "overrides": {"a": 1}}}),
        json!({"endpoints": {"identity": {"auth": {"nova": {"username": "nova"}}}}}),
        json!({"pod": {"tolerations": {"api": {"enabled": true}}, "affinity": {"anti": {"type": {"api": "required"}}}}}),
        json!({"global": {"any": 1}, "extraObjects": []}),
        json!({"annotations": {"pod": {"front_api": {"a.b/c": "d"}}}, "release_uuid": "1", "pod": {"priorityClassName": {"api": "high"}}}),
        json!({"pod": {"security_context": {"front": {"pod": {"runAsGroup": 1}}, "other": {"pod": {"fsGroup": 1}}}}}),
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

#[test]
fn below_what_is_the_users_only_slips_are_told_of() {
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
        let expected = format!("have no {path}, did you mean \"{meant}\"?: helm is given");
        let told = told(OWN, values, &[]);
        assert!(told.contains(&expected), "{expected}\n{told}");
    }
}

#[test]
fn what_a_group_is_given_must_be_known_to_a_chart_of_that_group() {
    let front = || json!({"conf": {"front": {"DEFAULT": {"debug": true}}}});
    assert_eq!(told("spec.common.openstack.values", front(), &[]), "");
    assert_eq!(told("spec.common.infra.values", json!({"volume": {"size": "1Gi"}}), &[]), "");
    let mut findings = Vec::new();
    let origin = Origin::Field("spec.common.infra.values".into());
    let layer = Layer::new(origin, front().as_object().unwrap().clone());
    tell(&[layer], "store", &catalog(), &mut findings);
    assert!(findings.len() == 1 && findings[0].message.contains("have no conf.front"), "{findings:?}");
}

#[test]
fn what_another_chart_calls_so_is_no_slip() {
    assert_eq!(told(OWN, json!({"conf": {"front": {"database": {"max_poll_size": 1}}}}), &[]), "");
}

#[test]
fn a_preset_that_someone_added_is_looked_at_and_ours_are_not() {
    let wrong = json!({"pod": {"replicass": {"api": 3}}});
    let layer = |file: &str| {
        let origin = Origin::File { file: file.into(), field: "fragments[0]".into() };
        Layer::new(origin, wrong.as_object().unwrap().clone())
    };
    let mut catalog = catalog();
    let stands = "ConfigMap openstack/edge, key presets.edge.yaml";
    catalog.added.insert("presets/edge.yaml".into(), stands.into());
    let mut findings = Vec::new();
    tell(&[layer("presets/small.yaml"), layer("presets/edge.yaml")], "front", &catalog, &mut findings);
    let fields: Vec<&str> = findings.iter().map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields, [format!("{stands} (fragments[0])")]);
    // One fragment says something to each release, and several may be wrong.
    for _ in 0..2 {
        tell(&[layer("presets/edge.yaml")], "store", &catalog, &mut findings);
    }
    let charts: Vec<bool> = findings.iter().map(|finding| finding.message.contains("values of chart store")).collect();
    assert_eq!(charts, [false, true], "{findings:?}");
}

#[test]
fn a_chart_has_a_key_reads_it_leaves_it_or_does_not_know_it() {
    let catalog = catalog();
    for (path, expected) in [
        ("pod.replicas.api", Known::Has(KeyType::Number)),
        ("pod.replicas", Known::Has(KeyType::Map)),
        ("pod.priorityClassName.api", Known::Read),
        ("annotations", Known::Read),
        ("annotations.pod.front_api", Known::Free),
        ("conf.front.DEFAULT.verbose", Known::Free),
        ("conf.front.DEFAULT.debgu", Known::No(", did you mean \"debug\"?".into())),
        ("conf.front.database.max_poll_size", Known::Free),
        ("colour", Known::No(String::new())),
    ] {
        assert_eq!(known(&catalog, "front", &Path::parse(path).unwrap()), Some(expected), "{path}");
    }
    assert_eq!(known(&catalog, "nothing", &Path::parse("a").unwrap()), None);
}

#[test]
fn of_another_version_of_a_chart_no_key_is_told_of() {
    let layer = Layer::new(Origin::Field(OWN.into()), json!({"colour": 1}).as_object().unwrap().clone());
    let missing = Layer::new(Origin::Field(OWN.into()), json!({"shape": 1}).as_object().unwrap().clone());
    let layered = |whole: &[Layer], partial: &[Layer]| Layered {
        layers: [("front".to_owned(), whole.to_vec())].into(),
        partial: [("front".to_owned(), partial.to_vec())].into(),
        ..Layered::default()
    };
    let told = |version: Value, layered: &Layered| {
        let services = json!({"front": {"releases": {"front": {"version": version}}}});
        let spec = serde_json::from_value(json!({"openstackRelease": "2026.1", "services": services})).unwrap();
        unread(&spec, &catalog(), layered).len()
    };
    for layered in [layered(&[layer], &[]), layered(&[], &[missing])] {
        assert_eq!((told(Value::Null, &layered), told(json!("9.9.9"), &layered)), (1, 0));
    }
}
