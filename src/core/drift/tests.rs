use serde_json::{Value, json};

use super::*;
use crate::release::{Object, ReleaseKey};

const EARLY: &str = "2026-11-21T10:00:00Z";
const THEN: &str = "2026-11-21T10:05:00Z";
const LATE: &str = "2026-11-21T10:10:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// Returns an entry of `managedFields` in the format of the API server.
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

fn tolerated() -> ToleratedChanges {
    ToleratedChanges {
        managers: ["kube-controller-manager".to_owned()].into(),
        fields: ["spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt".to_owned()].into(),
    }
}

fn trace(entries: &[Value]) -> WriterTrace {
    let entries: Vec<Entry> = serde_json::from_value(entries.into()).unwrap();
    WriterTrace::read(&entries, &tolerated())
}

fn drift(began: &str, entries: &[Value]) -> Option<String> {
    let id = ObjectId {
        kind: find_kind("apps/v1", "Deployment").unwrap(),
        namespace: "openstack".into(),
        name: "api".into(),
    };
    let change = detect_drift(Some(at(began)), &ExpectedFields::default(), Some(&trace(entries)))?;
    Some(DriftedObject { id, change }.to_string())
}

#[test]
fn reports_relevant_foreign_writes_since_helm() {
    let replicas = || json!({"f:spec": {"f:replicas": {}}});
    let restart = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {
        ".": {}, "f:kubectl.kubernetes.io/restartedAt": {},
    }}}}});
    let edited = |by: &str, what: &str| Some(format!("Deployment api was edited by {by} at {LATE} ({what})"));
    let table = [
        ("edited", entry("kubectl-edit", LATE, "", &replicas()), edited("kubectl-edit", "spec.replicas")),
        ("before helm's last write", entry("kubectl-edit", EARLY, "", &replicas()), None),
        ("a writer of the cluster", entry("kube-controller-manager", LATE, "", &replicas()), None),
        ("the status subresource", entry("kubectl", LATE, "status", &json!({"f:spec": {"f:x": {}}})), None),
        ("only status fields", entry("thing", LATE, "", &json!({"f:status": {"f:x": {}}})), None),
        ("labels", entry("kubectl-label", LATE, "", &json!({"f:metadata": {"f:labels": {"f:a": {}}}})), None),
        ("restarted", entry("kubectl-rollout", LATE, "", &restart), None),
        (
            "another program of helm",
            entry("helm-controller", LATE, "", &replicas()),
            edited("helm-controller", "spec.replicas"),
        ),
        ("in the same second as helm", entry("fighter", THEN, "", &replicas()), {
            Some(format!("Deployment api was edited by fighter at {THEN} (spec.replicas)"))
        }),
    ];
    for (case, entry, expected) in table {
        assert_eq!(drift(EARLY, &[helm(THEN), entry]), expected, "{case}");
    }
}

#[test]
fn accepts_changes_older_than_the_newest_operation() {
    let added = entry("kubectl-patch", THEN, "", &json!({"f:data": {"f:more": {}}}));
    assert!(drift(EARLY, &[helm(EARLY), added.clone()]).is_some());
    assert_eq!(
        drift(LATE, &[helm(EARLY), added]),
        None,
        "a write before the newest helm operation is no drift, even if the operation did not change the object"
    );
}

#[test]
fn reports_the_newest_writer_and_at_most_three_fields() {
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
    assert_eq!(drift(EARLY, &entries), Some(expected));
}

#[test]
fn limits_the_number_and_length_of_paths() {
    let all: serde_json::Map<_, _> =
        (0..100).map(|number| (format!("f:{number}{}", "ä".repeat(500)), json!({}))).collect();
    let fields: OwnedFields = serde_json::from_value(json!({"f:data": all})).unwrap();
    assert_eq!((fields.count, fields.hashes.len(), fields.paths.len()), (100, 100, 32));
    assert!(fields.paths.iter().all(|path| path.len() <= 120));
    for odd in [json!(null), json!({}), json!({"f:spec": null}), json!({"x": {"k:{": {}, "v:1": {}}})] {
        serde_json::from_value::<OwnedFields>(odd).unwrap();
    }
}

#[test]
fn reports_deleted_and_restored_objects() {
    let change = |entries: &[Value]| detect_drift(Some(at(THEN)), &ExpectedFields::default(), Some(&trace(entries)));
    assert_eq!(detect_drift(Some(at(THEN)), &ExpectedFields::default(), None), Some(Change::Deleted));
    assert_eq!(change(&[]), None, "osdpl reports no removed fields if someone cleared managedFields");
    let restored = entry("kubectl-create", LATE, "", &json!({"f:spec": {"f:replicas": {}}}));
    assert!(matches!(change(&[restored]), Some(Change::Edited(_))), "created by hand");
}

/// Returns the expected fields of an object whose manifest sets one field at each path in `paths`.
fn sets(paths: &[&str]) -> ExpectedFields {
    ExpectedFields(paths.iter().map(|path| ((*path).into(), 1)).collect())
}

#[test]
fn reports_removed_fields() {
    let owned = |manager: &str, fields: &Value| entry(manager, EARLY, "", fields);
    let stripped = |fields: &str| Some(Change::Stripped(fields.into()));
    let left = sets(&["data.a.sh", "data.b"]);
    let change = |entries: &[Value]| detect_drift(Some(at(THEN)), &left, Some(&trace(entries)));
    assert_eq!(change(&[owned("helm", &json!({"f:data": {".": {}, "f:a.sh": {}, "f:b": {}}}))]), None);
    let one = || owned("helm", &json!({"f:data": {"f:a.sh": {}}}));
    assert_eq!(change(&[one()]), stripped("data.b"));
    assert_eq!(change(&[one(), owned("kube-controller-manager", &json!({"f:data": {"f:b": {}}}))]), None);
    assert_eq!(change(&[one(), owned("accepted by an operation", &json!({"f:data": {"f:b": {}}}))]), None);

    let left = ExpectedFields(Box::new([
        ("spec.selector.matchLabels.app".into(), 1),
        ("spec.template.spec.containers[].command[]".into(), 3),
        ("spec.template.spec.containers[].env[].name".into(), 2),
    ]));
    let deployment = |env: Value| {
        owned(
            "helm",
            &json!({"f:spec": {"f:selector": {}, "f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"api\"}": {".": {}, "f:command": {}, "f:env": env},
            }}}}}),
        )
    };
    let named = || json!({".": {}, "f:name": {}});
    let change = |entries: &[Value]| detect_drift(Some(at(THEN)), &left, Some(&trace(entries)));
    assert_eq!(change(&[deployment(json!({"k:{\"name\":\"A\"}": named(), "k:{\"name\":\"B\"}": named()}))]), None);
    let lost = stripped("spec.template.spec.containers[].env[].name");
    assert_eq!(change(&[deployment(json!({"k:{\"name\":\"A\"}": named()}))]), lost, "one of two");
    let bare = owned("helm", &json!({"f:spec": {"f:selector": {}}}));
    assert_eq!(change(&[bare]), stripped("spec.template"), "osdpl reports a removed subtree as one path");
    assert_eq!(change(&[]), None, "osdpl reports no removed fields if someone cleared managedFields");
}

#[test]
fn detects_scaling_without_a_time() {
    let scale = |manager: &str| {
        let mut entry = entry(manager, LATE, "scale", &json!({"f:spec": {"f:replicas": {}}}));
        entry.as_object_mut().unwrap().remove("time");
        entry
    };
    let loser = || entry("helm", EARLY, "", &json!({"f:spec": {"f:template": {}}}));
    let change = |left: &ExpectedFields, entries: &[Value]| detect_drift(Some(at(EARLY)), left, Some(&trace(entries)));
    let edited =
        |change| matches!(change, Some(Change::Edited(ForeignWrite { manager, at: None, .. })) if manager == "kubectl");
    let (left, open) = (sets(&["spec.replicas"]), ExpectedFields::default());
    assert!(edited(change(&left, &[loser(), scale("kubectl")])));
    assert_eq!(
        change(&left, &[helm(EARLY), scale("kubectl")]),
        None,
        "if kubectl scales to the number of replicas in the manifest, helm still owns `spec.replicas`"
    );
    assert_eq!(
        change(&open, &[loser(), scale("kubectl")]),
        None,
        "osdpl ignores a new number of replicas if the manifest does not set `spec.replicas`"
    );
    assert_eq!(change(&left, &[loser(), scale("kube-controller-manager")]), None, "osdpl tolerates autoscalers");
    assert_eq!(change(&left, &[loser()]), Some(Change::Stripped("spec.replicas set to 0, or".into())));
}

#[test]
fn lists_the_expected_objects_of_a_manifest() {
    let object = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| Object {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: namespace.map(Into::into),
        name: name.into(),
        keep: false,
        replicas: None,
        expires: false,
        fields: vec![("data.a".into(), 1), ("spec.x".into(), 1)],
    };
    let manifest = [
        object("v1", "ConfigMap", None, "etc"),
        object("v1", "Secret", Some("elsewhere"), "etc"),
        object("rbac.authorization.k8s.io/v1", "ClusterRole", Some("stray"), "reader"),
        object("example.org/v1", "Secret", None, "of an unknown kind"),
        Object { keep: true, ..object("v1", "Secret", None, "kept") },
        Object { expires: true, ..object("batch/v1", "Job", None, "brief") },
    ];
    let expected_objects = |server_side| {
        let left = list_watched_objects(&manifest, &ReleaseKey::new("openstack", "keystone"), server_side);
        left.into_iter().map(|(id, left)| (id.to_string(), id.namespace, left.0.len())).collect::<Vec<_>>()
    };
    let expected = |fields| {
        [("ClusterRole reader", ""), ("ConfigMap etc", "openstack"), ("Secret etc", "elsewhere")]
            .map(|(name, namespace)| (name.to_owned(), namespace.to_owned(), fields))
    };
    assert_eq!(expected_objects(true), expected(2));
    assert_eq!(
        expected_objects(false),
        expected(1),
        "after client-side apply, osdpl expects only fields that the API server always keeps"
    );
}
