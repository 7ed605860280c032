//! Fields that Kubernetes refuses to change (`k8s.io/kubernetes/pkg/apis/*/validation` and the API reference of 1.36; of custom resources nothing is
//! known).

use serde_json::Value;

use super::Object;

/// Which fields of a kind are fixed.
enum Rule {
    /// This one.
    Field(&'static [&'static str]),
    /// All below `spec` but these.
    SpecBut(&'static [&'static str]),
    /// This one, once it is set.
    OnceSet(&'static [&'static str]),
    /// These, where the object says `immutable: true`.
    WhereImmutable(&'static [&'static str]),
}

/// The fixed fields by group and kind.
const RULES: &[(&str, &str, &[Rule])] = &[
    ("apps", "Deployment", &[Rule::Field(&["spec", "selector"])]),
    ("apps", "DaemonSet", &[Rule::Field(&["spec", "selector"])]),
    ("apps", "ReplicaSet", &[Rule::Field(&["spec", "selector"])]),
    (
        "apps",
        "StatefulSet",
        &[Rule::SpecBut(&[
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
    ("", "Service", &[Rule::OnceSet(&["spec", "clusterIP"])]),
    ("", "PersistentVolumeClaim", &[Rule::SpecBut(&["resources", "volumeAttributesClassName"])]),
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

/// The fields in which two differ and that can't be changed.
pub fn refused(old: &Object, new: &Object) -> Vec<String> {
    let id = new.id();
    let rules = RULES.iter().filter(|(group, kind, _)| *group == id.group && *kind == id.kind);
    rules.flat_map(|(_, _, rules)| *rules).flat_map(|rule| rule.refused(old, new)).collect()
}

impl Rule {
    fn refused(&self, old: &Object, new: &Object) -> Vec<String> {
        let differs = |keys: &[&str]| old.at(keys) != new.at(keys);
        match self {
            Self::Field(keys) if differs(keys) => vec![keys.join(".")],
            Self::OnceSet(keys) if old.at(keys).is_some() && differs(keys) => vec![keys.join(".")],
            Self::SpecBut(free) => {
                let keys = |object: &Object| -> Vec<String> {
                    let spec = object.at(&["spec"]).and_then(Value::as_object);
                    spec.into_iter().flat_map(|spec| spec.keys().cloned()).collect()
                };
                let mut all = [keys(old), keys(new)].concat();
                all.sort();
                all.dedup();
                all.retain(|key| !free.contains(&key.as_str()) && differs(&["spec", key]));
                all.into_iter().map(|key| format!("spec.{key}")).collect()
            }
            Self::WhereImmutable(keys) if old.at(&["immutable"]) == Some(&Value::Bool(true)) => {
                keys.iter().filter(|key| differs(&[key])).map(|key| (*key).to_owned()).collect()
            }
            Self::Field(_) | Self::OnceSet(_) | Self::WhereImmutable(_) => Vec::new(),
        }
    }
}
