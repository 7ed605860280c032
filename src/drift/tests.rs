use serde_json::{Value, json};

use super::*;
use crate::release::{Key, Object};

const EARLY: &str = "2026-11-21T10:00:00Z";
const THEN: &str = "2026-11-21T10:05:00Z";
const LATE: &str = "2026-11-21T10:10:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// An entry as the API server writes it.
fn entry(manager: &str, time: &str, subresource: &str, fields: &Value) -> Value {
    let mut entry = json!({
        "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": manager, "operation": "Update", "time": time,
    });
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entry
}

fn helm(time: &str) -> Value {
    entry("helm", time, "", &json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:replicas": {}}}))
}

fn tolerated() -> Tolerated {
    Tolerated {
        managers: ["kube-controller-manager".to_owned()].into(),
        fields: ["spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt".to_owned()].into(),
    }
}

fn trace(entries: &[Value]) -> Trace {
    let entries: Vec<Entry> = serde_json::from_value(entries.into()).unwrap();
    Trace::read(&entries, &tolerated())
}

fn told(began: &str, entries: &[Value]) -> Option<String> {
    let id = Id { kind: kind("apps/v1", "Deployment").unwrap(), namespace: "openstack".into(), name: "api".into() };
    let change = verdict(Some(at(began)), Left::default(), Some(&trace(entries)))?;
    Some(Drifted { id, change }.to_string())
}

#[test]
fn a_write_by_others_counts_from_helms_last_word_on_and_where_it_says_something() {
    let replicas = || json!({"f:spec": {"f:replicas": {}}});
    let restart = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {
        ".": {}, "f:kubectl.kubernetes.io/restartedAt": {},
    }}}}});
    let edited = |by: &str, what: &str| Some(format!("Deployment api was edited by {by} at {LATE} ({what})"));
    let table = [
        ("edited", entry("kubectl-edit", LATE, "", &replicas()), edited("kubectl-edit", "spec.replicas")),
        ("before helm was there again", entry("kubectl-edit", EARLY, "", &replicas()), None),
        ("the cluster's own", entry("kube-controller-manager", LATE, "", &replicas()), None),
        ("its status", entry("kubectl", LATE, "status", &json!({"f:spec": {"f:x": {}}})), None),
        ("status in passing", entry("thing", LATE, "", &json!({"f:status": {"f:x": {}}})), None),
        ("labels", entry("kubectl-label", LATE, "", &json!({"f:metadata": {"f:labels": {"f:a": {}}}})), None),
        ("restarted", entry("kubectl-rollout", LATE, "", &restart), None),
        (
            "helm by another name",
            entry("helm-controller", LATE, "", &replicas()),
            edited("helm-controller", "spec.replicas"),
        ),
        ("in helm's own second", entry("fighter", THEN, "", &replicas()), {
            Some(format!("Deployment api was edited by fighter at {THEN} (spec.replicas)"))
        }),
    ];
    for (what, entry, expected) in table {
        assert_eq!(told(EARLY, &[helm(THEN), entry]), expected, "{what}");
    }
}

#[test]
fn what_the_newest_operation_left_standing_is_accepted() {
    let added = entry("kubectl-patch", THEN, "", &json!({"f:data": {"f:more": {}}}));
    assert!(told(EARLY, &[helm(EARLY), added.clone()]).is_some());
    assert_eq!(told(LATE, &[helm(EARLY), added]), None, "helm found nothing to change in it");
}

#[test]
fn of_several_writers_the_newest_that_counts_is_told_and_of_many_fields_three() {
    let many = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
        "k:{\"name\":\"api\"}": {".": {}, "f:image": {}, "f:env": {"k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}}},
    }, "f:nodeSelector": {}}}}});
    let entries = [
        helm(EARLY),
        entry("early", EARLY, "", &many),
        entry("late", LATE, "", &many),
        entry("kubectl-rollout", LATE, "", &json!({"f:metadata": {"f:annotations": {"f:a": {}}}})),
    ];
    let containers = "spec.template.spec.containers[name=api]";
    let expected = format!(
        "Deployment api was edited by late at {LATE} ({containers}.env[name=X].name, {containers}.env[name=X].value, \
         {containers}.image and 1 more)"
    );
    assert_eq!(told(EARLY, &entries), Some(expected));
}

#[test]
fn fields_are_bounded_whatever_they_are_called() {
    let all: serde_json::Map<_, _> =
        (0..100).map(|number| (format!("f:{number}{}", "ä".repeat(500)), json!({}))).collect();
    let fields: Fields = serde_json::from_value(json!({"f:data": all})).unwrap();
    assert_eq!((fields.count, fields.data, fields.paths.len()), (100, 100, 32));
    assert!(fields.paths.iter().all(|path| path.len() <= 120));
    for odd in [json!(null), json!({}), json!({"f:spec": null}), json!({"x": {"k:{": {}, "v:1": {}}})] {
        serde_json::from_value::<Fields>(odd).unwrap();
    }
}

#[test]
fn an_object_that_is_not_there_was_deleted_and_one_that_helm_never_touched_is_judged_by_the_operation() {
    let verdict_of = |entries: &[Value]| verdict(Some(at(THEN)), Left::default(), Some(&trace(entries)));
    assert_eq!(verdict(Some(at(THEN)), Left::default(), None), Some(Change::Deleted));
    assert_eq!(verdict_of(&[]), None, "whoever cleared managedFields left no trace");
    let put_back = entry("kubectl-create", LATE, "", &json!({"f:spec": {"f:replicas": {}}}));
    assert!(matches!(verdict_of(&[put_back]), Some(Change::Edited(_))), "put back by hand");
}

#[test]
fn data_that_was_taken_out_is_missed_though_nobody_holds_it() {
    let held = |manager: &str, keys: &[&str]| {
        let keys: serde_json::Map<_, _> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        entry(manager, EARLY, "", &json!({"f:data": keys}))
    };
    let judged =
        |entries: &[Value]| verdict(Some(at(THEN)), Left { data: 2, ..Left::default() }, Some(&trace(entries)));
    assert_eq!(judged(&[held("helm", &["a", "b"])]), None);
    assert_eq!(judged(&[held("helm", &["a"])]), Some(Change::Stripped));
    assert_eq!(judged(&[held("helm", &["a"]), held("kube-controller-manager", &["b"])]), None);
}

#[test]
fn a_change_of_scale_leaves_no_time_and_tells_by_what_helm_holds_no_more() {
    let scale = |manager: &str| {
        let mut entry = entry(manager, LATE, "scale", &json!({"f:spec": {"f:replicas": {}}}));
        entry.as_object_mut().unwrap().remove("time");
        entry
    };
    let loser = || entry("helm", EARLY, "", &json!({"f:spec": {"f:template": {}}}));
    let judged = |replicas: bool, entries: &[Value]| {
        verdict(Some(at(EARLY)), Left { replicas, ..Left::default() }, Some(&trace(entries)))
    };
    let edited =
        |change| matches!(change, Some(Change::Edited(Write { manager, at: None, .. })) if manager == "kubectl");
    assert!(edited(judged(true, &[loser(), scale("kubectl")])));
    assert_eq!(judged(true, &[helm(EARLY), scale("kubectl")]), None, "both set the same number");
    assert_eq!(judged(false, &[loser(), scale("kubectl")]), None, "the manifest leaves the number to others");
    assert_eq!(judged(true, &[loser(), scale("kube-controller-manager")]), None, "an autoscaler");
    assert_eq!(judged(true, &[loser()]), Some(Change::Stripped));
}

#[test]
fn a_manifest_says_which_objects_there_must_be() {
    let object = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| Object {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: namespace.map(Into::into),
        name: name.into(),
        keep: false,
        replicas: None,
        expires: false,
        data: 0,
    };
    let manifest = [
        Object { data: 3, ..object("v1", "ConfigMap", None, "etc") },
        object("v1", "Secret", Some("elsewhere"), "etc"),
        object("rbac.authorization.k8s.io/v1", "ClusterRole", Some("stray"), "reader"),
        object("example.org/v1", "Secret", None, "not ours to know"),
        Object { keep: true, ..object("v1", "Secret", None, "kept") },
        Object { expires: true, ..object("batch/v1", "Job", None, "brief") },
    ];
    let left = left(&manifest, &Key::new("openstack", "keystone"));
    let told: Vec<_> = left.iter().map(|(id, left)| (id.to_string(), id.namespace.as_str(), left.data)).collect();
    assert_eq!(
        told,
        [
            ("ClusterRole reader".into(), "", 0),
            ("ConfigMap etc".into(), "openstack", 3),
            ("Secret etc".into(), "elsewhere", 0)
        ]
    );
}
