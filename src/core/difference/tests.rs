use serde_json::json;

use super::*;
use crate::release::ReleaseKey;

fn parsed(objects: &Value) -> Vec<Object> {
    let contents = objects.as_array().unwrap().iter().map(|object| object.as_object().unwrap().clone());
    super::parse_objects(contents.collect(), &ReleaseKey::new("openstack", "keystone"))
}

fn object(kind: &str, group: &str, mut rest: Value) -> Value {
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "api"}});
    object.as_object_mut().unwrap().append(rest.as_object_mut().unwrap());
    object
}

/// Compares the old and the new version of one object. Returns a line about the effect of an upgrade from `old` to
/// `new`, followed by a line for each changed field.
fn compared(old: &Value, new: &Value) -> Vec<String> {
    let scrubber = Scrubber::new(["hunter22"]);
    let found = diff_manifests(&parsed(&json!([old])), &parsed(&json!([new])), &scrubber);
    let lines = found.iter().flat_map(|one| {
        [format!("{} {}", one.id.kind, one.effect)].into_iter().chain(one.fields.iter().map(ToString::to_string))
    });
    lines.collect()
}

#[test]
fn reports_added_removed_and_kept_objects() {
    let kept = json!({"metadata": {"name": "data", "annotations": {"helm.sh/resource-policy": "Keep"}}});
    let before = json!([
        object("Deployment", "apps", json!({"spec": {}})),
        object("ConfigMap", "", kept),
        object("Job", "batch", json!({"metadata": {"name": "sync", "annotations": {"helm.sh/hook": "post-install"}}})),
        object("ClusterRole", "rbac.authorization.k8s.io", json!({"metadata": {"name": "x", "namespace": "stray"}})),
    ]);
    let after = json!([
        object("Service", "", json!({})),
        object("Pod", "", json!({"metadata": {"name": "test", "annotations": {"helm.sh/hook": "test-success"}}})),
        object("ClusterRole", "rbac.authorization.k8s.io", json!({"metadata": {"name": "x"}})),
    ]);
    let found = diff_manifests(&parsed(&before), &parsed(&after), &Scrubber::default());
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "ConfigMap openstack/data leaves the release and stays in the cluster (helm.sh/resource-policy: keep)",
            "Deployment openstack/api is removed",
            "Service openstack/api is added",
        ],
        "osdpl ignores removed hooks, test hooks, and namespaces of cluster-scoped objects"
    );
}

#[test]
fn equivalent_values_are_not_a_difference() {
    let old = object("Deployment", "apps", json!({"spec": {"replicas": 1.0, "paused": null}}));
    let mut new = object("Deployment", "apps", json!({"spec": {"replicas": 1}}));
    assert_eq!(compared(&old, &new), [""; 0]);
    new["apiVersion"] = json!("apps/v2");
    assert_eq!(
        compared(&old, &new),
        ["Deployment changes", r#"apiVersion: "apps/v1" → "apps/v2""#],
        "objects that differ only in the API version are the same object"
    );
}

#[test]
fn pods_restart_if_their_template_changes() {
    let workload = |kind: &str, image: &str, spec: Value| {
        let mut all =
            json!({"template": {"spec": {"containers": [{"name": "first"}, {"name": "api", "image": image}]}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object(kind, "apps", json!({"spec": all}))
    };
    let workload_changes =
        |kind: &str, old: Value, new: Value| compared(&workload(kind, "a:1", old), &workload(kind, "a:2", new));
    let image = r#"spec.template.spec.containers[api].image: "a:1" → "a:2""#;
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        assert_eq!(
            workload_changes(kind, json!({}), json!({})),
            [&format!("{kind} changes, and its pods restart"), image]
        );
    }
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    let waits = "DaemonSet changes, and its pods restart when someone deletes them (updateStrategy OnDelete)";
    assert_eq!(workload_changes("DaemonSet", on_delete.clone(), on_delete), [waits, image]);
    let scaled = compared(
        &workload("Deployment", "a", json!({"replicas": 1})),
        &workload("Deployment", "a", json!({"replicas": 3})),
    );
    assert_eq!(scaled, ["Deployment changes", "spec.replicas: 1 → 3"]);
}

#[test]
fn immutable_fields_require_recreation() {
    let spec = |field: &str, value: Value| json!({"spec": {field: value}});
    let cases = [
        ("Deployment", "apps", spec("selector", json!({"a": 1})), spec("selector", json!({"a": 2})), "spec.selector"),
        ("StatefulSet", "apps", spec("serviceName", json!("a")), spec("serviceName", json!("b")), "spec.serviceName"),
        (
            "StatefulSet",
            "apps",
            json!({"spec": {}}),
            spec("volumeClaimTemplates", json!([1])),
            "spec.volumeClaimTemplates",
        ),
        ("Job", "batch", spec("template", json!({"a": 1})), spec("template", json!({"a": 2})), "spec.template"),
        ("Service", "", json!({"spec": {}}), spec("clusterIP", json!("None")), "spec.clusterIP"),
        (
            "PersistentVolumeClaim",
            "",
            spec("storageClassName", json!("a")),
            spec("storageClassName", json!("b")),
            "spec.storageClassName",
        ),
        (
            "ConfigMap",
            "",
            json!({"immutable": true, "data": {"a": "1"}}),
            json!({"immutable": true, "data": {"a": "2"}}),
            "data",
        ),
        ("Secret", "", json!({"type": "Opaque"}), json!({"type": "kubernetes.io/tls"}), "type"),
        (
            "RoleBinding",
            "rbac.authorization.k8s.io",
            json!({"roleRef": {"name": "a"}}),
            json!({"roleRef": {"name": "b"}}),
            "roleRef",
        ),
        ("StorageClass", "storage.k8s.io", json!({"provisioner": "a"}), json!({"provisioner": "b"}), "provisioner"),
        ("PriorityClass", "scheduling.k8s.io", json!({"value": 1}), json!({"value": 2}), "value"),
    ];
    for (kind, group, old, new, field) in cases {
        let lines = compared(&object(kind, group, old), &object(kind, group, new));
        assert_eq!(lines[0], format!("{kind} must be recreated: {field} can't be changed"));
    }
    let free = [
        ("StatefulSet", "apps", spec("replicas", json!(1)), spec("replicas", json!(2))),
        ("Job", "batch", spec("backoffLimit", json!(1)), spec("backoffLimit", json!(2))),
        ("Service", "", spec("clusterIP", json!("None")), json!({"spec": {}})),
        ("Service", "", spec("type", json!("ExternalName")), spec("clusterIP", json!("None"))),
        ("PersistentVolumeClaim", "", spec("resources", json!(1)), spec("resources", json!(2))),
        ("ConfigMap", "", json!({"data": {"a": "1"}}), json!({"data": {"a": "2"}})),
        ("Deployment", "example.org", spec("selector", json!(1)), spec("selector", json!(2))),
    ];
    for (kind, group, old, new) in free {
        assert_eq!(compared(&object(kind, group, old), &object(kind, group, new))[0], format!("{kind} changes"));
    }
}

#[test]
fn an_explicit_default_does_not_change_an_immutable_field() {
    let spec = |field: &str, value: Value| json!({"spec": {field: value}});
    let claims =
        |spec: Value| json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}});
    let role = |rest: Value| json!({"roleRef": rest});
    let rbac = "rbac.authorization.k8s.io";
    let defaults = [
        ("Secret", "", json!({}), json!({"type": "Opaque"})),
        ("StorageClass", "storage.k8s.io", json!({}), json!({"reclaimPolicy": "Delete"})),
        ("StorageClass", "storage.k8s.io", json!({}), json!({"volumeBindingMode": "Immediate"})),
        ("PriorityClass", "scheduling.k8s.io", json!({}), json!({"preemptionPolicy": "PreemptLowerPriority"})),
        ("Job", "batch", json!({"spec": {}}), spec("completions", json!(1))),
        ("Job", "batch", json!({"spec": {}}), spec("completionMode", json!("NonIndexed"))),
        ("StatefulSet", "apps", json!({"spec": {}}), spec("podManagementPolicy", json!("OrderedReady"))),
        ("StatefulSet", "apps", claims(json!({})), claims(json!({"volumeMode": "Filesystem"}))),
        ("PersistentVolumeClaim", "", json!({"spec": {}}), spec("volumeMode", json!("Filesystem"))),
        ("RoleBinding", rbac, role(json!({"name": "a"})), role(json!({"name": "a", "apiGroup": rbac}))),
    ];
    for (kind, group, implicit, explicit) in &defaults {
        let [implicit, explicit] = [implicit, explicit].map(|rest| object(kind, group, rest.clone()));
        for (old, new) in [(&implicit, &explicit), (&explicit, &implicit)] {
            assert_eq!(compared(old, new)[0], format!("{kind} changes"), "{new}");
        }
    }
    let queue = object("Job", "batch", spec("parallelism", json!(2)));
    let counted = object("Job", "batch", json!({"spec": {"parallelism": 2, "completions": 1}}));
    assert_eq!(compared(&queue, &counted)[0], "Job must be recreated: spec.completions can't be changed");
    let block = spec("volumeMode", json!("Block"));
    let claim = |rest: Value| object("PersistentVolumeClaim", "", rest);
    assert_eq!(
        compared(&claim(json!({"spec": {}})), &claim(block))[0],
        "PersistentVolumeClaim must be recreated: spec.volumeMode can't be changed"
    );
}

#[test]
fn recreation_terminates_pods_of_workloads_only() {
    let ends = |kind: &str, group: &str, field: &str| {
        let variant =
            |value: &str| parsed(&json!([object(kind, group, json!({field: {"selector": value, "name": value}}))]));
        let found = diff_manifests(&variant("a"), &variant("b"), &Scrubber::default());
        assert!(matches!(found[0].effect, Effect::Recreated { .. }), "{}", found[0]);
        found[0].effect.ends_pods()
    };
    assert!(ends("Deployment", "apps", "spec") && ends("Job", "batch", "spec"));
    assert!(!ends("RoleBinding", "rbac.authorization.k8s.io", "roleRef"));
}

#[test]
fn reports_changed_upgrade_hooks_only() {
    let hook = |kind: &str, events: &str, image: &str| {
        let metadata = json!({"name": "db-sync", "annotations": {"helm.sh/hook": events}});
        object(kind, "batch", json!({"metadata": metadata, "spec": {"template": {"image": image}}}))
    };
    let hook_changes = |kind: &str, events: &str| compared(&hook(kind, events, "a"), &hook(kind, events, "b"));
    assert_eq!(hook_changes("Job", "post-install,post-upgrade")[0], "Job changes and runs again");
    assert_eq!(hook_changes("Job", "Pre-Upgrade")[0], "Job changes and runs again");
    assert_eq!(hook_changes("ConfigMap", "pre-upgrade")[0], "ConfigMap changes", "a ConfigMap does not run");
    assert_eq!(
        [hook_changes("Job", "pre-delete"), hook_changes("Secret", "pre-install")],
        [Vec::<String>::new(), Vec::new()]
    );
    let added = diff_manifests(&[], &parsed(&json!([hook("Job", "pre-delete", "a")])), &Scrubber::default());
    assert_eq!(added, [], "an upgrade does not create a hook that helm runs before a deletion");
}

#[test]
fn never_shows_secrets() {
    let secret =
        |value: &str| object("Secret", "", json!({"data": {"nova.conf": value, "b": "x"}, "stringData": {"c": value}}));
    assert_eq!(
        compared(&secret("aHVudGVyMjI="), &secret("b3RoZXI=")),
        [
            "Secret changes",
            "data.\"nova.conf\": changed (secret, not shown)",
            "stringData.c: changed (secret, not shown)"
        ]
    );
    let removed = compared(&secret("x1"), &object("Secret", "", json!({})));
    assert_eq!(removed[1], r#"data: {"b":"<redacted>","nova.conf":"<redacted>"} (removed)"#);
    let env = |value: &str| {
        object("Deployment", "apps", json!({"spec": {"template": {"env": [{"name": "P", "value": value}]}}}))
    };
    assert_eq!(
        compared(&env("mysql://keystone:hunter22@db"), &env("other")),
        [
            "Deployment changes, and its pods restart",
            r#"spec.template.env[P].value: "mysql://keystone:[redacted]@db" → "other""#
        ]
    );
    let script =
        |last: &str| object("ConfigMap", "", json!({"data": {"a.sh": format!("#!/bin/sh\nlogin hunter22\n{last}\n")}}));
    assert_eq!(compared(&script("x"), &script("y")), ["ConfigMap changes", "data.\"a.sh\":\n    - x\n    + y"]);
    let shown = shown(&parsed(&json!([secret("aHVudGVyMjI=")]))[0], &Scrubber::default());
    assert_eq!(shown["data"], json!({"nova.conf": "<redacted>", "b": "<redacted>"}));
    let debug = format!("{:?}", parsed(&json!([env("hunter22")])));
    assert!(!debug.contains("hunter22"), "{debug}");
}

#[test]
fn identifies_list_items_by_name_then_by_index() {
    let list = |items: Value| object("Service", "", json!({"spec": {"ports": items}}));
    let list_changes = |old: Value, new: Value| compared(&list(old), &list(new))[1..].to_vec();
    assert_eq!(
        list_changes(
            json!([{"name": "a", "port": 1}, {"name": "b"}]),
            json!([{"name": "b"}, {"name": "a", "port": 2}, {"name": "c"}])
        ),
        [
            "spec.ports[a].port: 1 → 2",
            r#"spec.ports[c]: {"name":"c"} (new)"#,
            r#"spec.ports (order): ["a","b"] → ["b","a"]"#,
        ]
    );
    assert_eq!(
        list_changes(json!([{"port": 1}, {"port": 2}]), json!([{"port": 1}, {"port": 3}])),
        ["spec.ports[1].port: 2 → 3"]
    );
    assert_eq!(list_changes(json!([1, 2]), json!([1])), ["spec.ports: [1,2] → [1]"]);
}
