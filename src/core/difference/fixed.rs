//! Finds the immutable fields that an upgrade would change. Kubernetes would refuse these changes, and the upgrade
//! would fail.
//!
//! The rules about fields are from `k8s.io/kubernetes/pkg/apis/*/validation` and the API reference of Kubernetes 1.36.
//! This module has no rules for custom resources, so osdpl does not find changes of their immutable fields.

use serde_json::{Map, Value};

use super::Object;

/// A rule that says which fields of the objects of one kind are immutable.
enum Rule {
    /// The field at this path is immutable.
    Field(&'static [&'static str]),
    /// All fields directly below `spec` are immutable, except the fields in this list.
    SpecExcept(&'static [&'static str]),
    /// The field `spec.clusterIP` of a Service is immutable.
    ///
    /// Kubernetes assigns an address when it creates the Service, and later refuses a manifest with another address. If
    /// the new manifest sets no address, the Service keeps its address (`pkg/registry/core/service`,
    /// `patchAllocatedValues`).
    ClusterAddress,
    /// The top-level fields in this list are immutable if the installed object has `immutable: true`.
    WhereImmutable(&'static [&'static str]),
}

/// The defaults that the API server sets for immutable fields, as (group, kind, field, value).
///
/// The API server sets these defaults before it compares the new version of an object with the old version
/// (`k8s.io/kubernetes/pkg/apis/*/*/defaults.go`). So if one version sets a field to its default and the other version
/// does not set the field, the API server sees no change.
const DEFAULTS: &[(&str, &str, &[&str], &str)] = &[
    ("apps", "StatefulSet", &["spec", "podManagementPolicy"], "OrderedReady"),
    ("batch", "Job", &["spec", "completionMode"], "NonIndexed"),
    ("", "PersistentVolumeClaim", &["spec", "volumeMode"], "Filesystem"),
    ("", "Secret", &["type"], "Opaque"),
    ("rbac.authorization.k8s.io", "RoleBinding", &["roleRef", "apiGroup"], "rbac.authorization.k8s.io"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &["roleRef", "apiGroup"], "rbac.authorization.k8s.io"),
    ("storage.k8s.io", "StorageClass", &["reclaimPolicy"], "Delete"),
    ("storage.k8s.io", "StorageClass", &["volumeBindingMode"], "Immediate"),
    ("scheduling.k8s.io", "PriorityClass", &["preemptionPolicy"], "PreemptLowerPriority"),
];

/// The immutable fields of each kind, as (group, kind, rules).
const RULES: &[(&str, &str, &[Rule])] = &[
    ("apps", "Deployment", &[Rule::Field(&["spec", "selector"])]),
    ("apps", "DaemonSet", &[Rule::Field(&["spec", "selector"])]),
    ("apps", "ReplicaSet", &[Rule::Field(&["spec", "selector"])]),
    (
        "apps",
        "StatefulSet",
        &[Rule::SpecExcept(&[
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ])],
    ),
    (
        "batch",
        "Job",
        &[
            Rule::Field(&["spec", "template"]),
            Rule::Field(&["spec", "selector"]),
            Rule::Field(&["spec", "completions"]),
            Rule::Field(&["spec", "completionMode"]),
        ],
    ),
    ("", "Service", &[Rule::ClusterAddress]),
    ("", "PersistentVolumeClaim", &[Rule::SpecExcept(&["resources", "volumeAttributesClassName"])]),
    ("", "ConfigMap", &[Rule::WhereImmutable(&["data", "binaryData", "immutable"])]),
    ("", "Secret", &[Rule::Field(&["type"]), Rule::WhereImmutable(&["data", "stringData", "immutable"])]),
    ("rbac.authorization.k8s.io", "RoleBinding", &[Rule::Field(&["roleRef"])]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &[Rule::Field(&["roleRef"])]),
    (
        "storage.k8s.io",
        "StorageClass",
        &[
            Rule::Field(&["provisioner"]),
            Rule::Field(&["parameters"]),
            Rule::Field(&["reclaimPolicy"]),
            Rule::Field(&["volumeBindingMode"]),
        ],
    ),
    ("scheduling.k8s.io", "PriorityClass", &[Rule::Field(&["value"]), Rule::Field(&["preemptionPolicy"])]),
    ("networking.k8s.io", "IngressClass", &[Rule::Field(&["spec", "controller"])]),
];

/// Returns the paths of the immutable fields whose values differ between the old and the new version of an object.
pub(super) fn refused(old: &Object, new: &Object) -> Vec<String> {
    let id = new.id();
    let rules = RULES.iter().filter(|(group, kind, _)| *group == id.group && *kind == id.kind);
    let mut rules = rules.flat_map(|(_, _, rules)| *rules).peekable();
    if rules.peek().is_none() {
        return Vec::new();
    }
    let (old, new) = (filled(old), filled(new));
    rules.flat_map(|rule| rule.refused(&old, &new)).collect()
}

/// Returns the content of an object, and adds the API server's defaults for immutable fields that the object does not
/// set.
fn filled(object: &Object) -> Value {
    let id = object.id();
    let mut all = object.content().clone();
    for (_, _, keys, value) in DEFAULTS.iter().filter(|(group, kind, ..)| *group == id.group && *kind == id.kind) {
        add(&mut all, keys, (*value).into());
    }
    if (id.group.as_str(), id.kind.as_str()) == ("batch", "Job") && object.at(&["spec", "parallelism"]).is_none() {
        // Kubernetes sets `completions` to 1 if the Job sets neither `completions` nor `parallelism`. A Job with
        // `parallelism` and without `completions` processes a work queue, and keeps `completions` unset.
        add(&mut all, &["spec", "completions"], 1.into());
    }
    let templates = all.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
    for template in templates.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        add(template, &["spec", "volumeMode"], "Filesystem".into());
    }
    Value::Object(all)
}

/// Sets the field at the path `keys` of an object, unless the field already has a value, or the object lacks the map
/// that would contain the field.
fn add(object: &mut Map<String, Value>, keys: &[&str], value: Value) {
    let Some((last, above)) = keys.split_last() else { return };
    let parent = above.iter().try_fold(object, |map, key| map.get_mut(*key)?.as_object_mut());
    if let Some(parent) = parent {
        parent.entry(*last).or_insert(value);
    }
}

/// Returns the value at the path `keys` in an object; `None` if the object has no value at this path.
fn at<'a>(object: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(object, |value, key| value.get(*key))
}

impl Rule {
    fn refused(&self, old: &Value, new: &Value) -> Vec<String> {
        let differs = |keys: &[&str]| at(old, keys) != at(new, keys);
        match self {
            Self::Field(keys) if differs(keys) => vec![keys.join(".")],
            Self::ClusterAddress if sets_address(old, new) => vec!["spec.clusterIP".to_owned()],
            Self::SpecExcept(mutable) => {
                let keys = |object: &Value| -> Vec<String> {
                    let spec = object.get("spec").and_then(Value::as_object);
                    spec.into_iter().flat_map(|spec| spec.keys().cloned()).collect()
                };
                let mut all = [keys(old), keys(new)].concat();
                all.sort();
                all.dedup();
                all.retain(|key| !mutable.contains(&key.as_str()) && differs(&["spec", key]));
                all.into_iter().map(|key| format!("spec.{key}")).collect()
            }
            Self::WhereImmutable(keys) if at(old, &["immutable"]) == Some(&Value::Bool(true)) => {
                keys.iter().filter(|key| differs(&[key])).map(|key| (*key).to_owned()).collect()
            }
            Self::Field(_) | Self::ClusterAddress | Self::WhereImmutable(_) => Vec::new(),
        }
    }
}

/// Whether the new manifest of a Service sets a cluster IP, and the old manifest sets another cluster IP or none.
///
/// The result is false if one of the manifests has the type `ExternalName`: such a Service has no cluster IP, so
/// Kubernetes allows a change from or to this type.
fn sets_address(old: &Value, new: &Value) -> bool {
    let [before, after] = [old, new].map(|service| text(service, "clusterIP"));
    let is_name = [old, new].into_iter().any(|service| text(service, "type") == "ExternalName");
    !after.is_empty() && before != after && !is_name
}

fn text<'a>(service: &'a Value, key: &str) -> &'a str {
    at(service, &["spec", key]).and_then(Value::as_str).unwrap_or_default()
}
