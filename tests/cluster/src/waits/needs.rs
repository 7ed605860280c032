//! Reads from a pod's spec the objects that must exist or be ready before the pod's containers start.
//!
//! The `DEPENDENCY_*` variables have the format of airship/kubernetes-entrypoint (see its `util/env/env.go` and
//! `dependencies/`). An entry without a namespace refers to the pod's namespace. This module ignores malformed entries.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, PodSpec};
use serde::Deserialize;

pub(super) type Labels = BTreeMap<String, String>;

/// All objects that a pod waits for. On a real node, a pod waits first for `volumes`, then for `dependencies`, and last
/// for `environment`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The Secrets and ConfigMaps of the pod's volumes. Until all exist, a kubelet does not create the pod's sandbox.
    pub volumes: Vec<Source>,
    /// The dependencies for which kubernetes-entrypoint waits in an init container.
    pub dependencies: Vec<Dependency>,
    /// The Secrets and ConfigMaps from which the pod's containers get environment variables. A kubelet does not
    /// create a container until all Secrets and ConfigMaps that the container uses exist.
    pub environment: Vec<Source>,
}

/// The kind of an object from which a pod gets its volumes and environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SourceKind {
    Secret,
    ConfigMap,
}

/// A Secret or ConfigMap that must exist in the pod's namespace before the pod starts. The pod's spec does not mark the
/// reference to this object as `optional`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub kind: SourceKind,
    pub name: String,
    /// The name of the volume or container that refers to this Secret or ConfigMap.
    pub user: String,
}

/// A dependency for which kubernetes-entrypoint waits: an entry of a `DEPENDENCY_*` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    Service { namespace: String, name: String },
    Job { namespace: String, name: String },
    Jobs { namespace: String, labels: Labels },
    DaemonSet { namespace: String, name: String },
    Pod { namespace: String, labels: Labels, same_node: bool },
    Custom(CustomDependency),
}

/// An entry of the variable `DEPENDENCY_CUSTOM_RESOURCE`: a custom resource for which kubernetes-entrypoint waits, and
/// the fields and conditions that the resource must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct CustomDependency {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The required values of fields. The key of each entry is the path of the field, such as `status.phase`.
    pub fields: Vec<FieldDependency>,
    pub conditions: Vec<ConditionDependency>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct FieldDependency {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ConditionDependency {
    #[serde(rename = "type")]
    pub type_: String,
    /// The required status of the condition; empty means `True`.
    #[serde(default)]
    pub status: String,
}

impl Needs {
    /// Reads from a pod's spec the objects for which the pod waits.
    pub fn of(pod: &Pod) -> Self {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let Some(spec) = &pod.spec else { return Self::default() };
        let init = spec.init_containers.iter().flatten();
        Self {
            volumes: volumes(spec),
            dependencies: init.flat_map(|container| dependencies(namespace, container)).collect(),
            environment: spec.init_containers.iter().flatten().chain(&spec.containers).flat_map(environment).collect(),
        }
    }
}

impl Needs {
    /// Whether the pod waits for another pod to become ready.
    pub fn waits_for_pods(&self) -> bool {
        let by_pods =
            |dependency: &Dependency| matches!(dependency, Dependency::Pod { .. } | Dependency::DaemonSet { .. });
        self.dependencies.iter().any(by_pods)
    }

    /// Returns the kinds of custom resources that the pod waits for.
    pub fn custom_kinds(&self) -> impl Iterator<Item = CustomKind> {
        self.dependencies.iter().filter_map(|dependency| match dependency {
            Dependency::Custom(custom) => Some(custom.kind_in_namespace()),
            _ => None,
        })
    }
}

impl CustomDependency {
    /// Returns the kind and namespace of the custom resource. All resources with the same kind and namespace share one
    /// watch.
    pub fn kind_in_namespace(&self) -> CustomKind {
        CustomKind { api_version: self.api_version.clone(), kind: self.kind.clone(), namespace: self.namespace.clone() }
    }
}

/// A kind of custom resource, and a namespace. The supervisor has one watch for each pair of kind and namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CustomKind {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
}

fn volumes(spec: &PodSpec) -> Vec<Source> {
    let mut sources = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        let mut need = |kind, name: Option<&String>, optional: Option<bool>| {
            if let (Some(name), false) = (name, optional.unwrap_or(false)) {
                sources.push(Source { kind, name: name.clone(), user: volume.name.clone() });
            }
        };
        if let Some(secret) = &volume.secret {
            need(SourceKind::Secret, secret.secret_name.as_ref(), secret.optional);
        }
        if let Some(config_map) = &volume.config_map {
            need(SourceKind::ConfigMap, Some(&config_map.name), config_map.optional);
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(secret) = &source.secret {
                need(SourceKind::Secret, Some(&secret.name), secret.optional);
            }
            if let Some(config_map) = &source.config_map {
                need(SourceKind::ConfigMap, Some(&config_map.name), config_map.optional);
            }
        }
    }
    sources
}

fn environment(container: &Container) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut need = |kind, name: &str, optional: Option<bool>| {
        if !optional.unwrap_or(false) {
            sources.push(Source { kind, name: name.to_string(), user: container.name.clone() });
        }
    };
    for from in container.env_from.iter().flatten() {
        if let Some(secret) = &from.secret_ref {
            need(SourceKind::Secret, &secret.name, secret.optional);
        }
        if let Some(config_map) = &from.config_map_ref {
            need(SourceKind::ConfigMap, &config_map.name, config_map.optional);
        }
    }
    for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        if let Some(key) = &from.secret_key_ref {
            need(SourceKind::Secret, &key.name, key.optional);
        }
        if let Some(key) = &from.config_map_key_ref {
            need(SourceKind::ConfigMap, &key.name, key.optional);
        }
    }
    sources
}

/// Returns the dependencies of a container. A container without the variable `DEPENDENCY_SERVICE` has none:
/// OpenStack-Helm sets this variable, possibly to an empty value, for every container that runs kubernetes-entrypoint.
fn dependencies(namespace: &str, container: &Container) -> Vec<Dependency> {
    let variables: &[EnvVar] = container.env.as_deref().unwrap_or_default();
    let value =
        |name: &str| variables.iter().find(|one| one.name == name).map(|one| one.value.as_deref().unwrap_or(""));
    let Some(services) = value("DEPENDENCY_SERVICE") else { return Vec::new() };
    let text = |name: &str| value(name).unwrap_or_default();
    let parse = |list| names(namespace, list);

    let service = |(namespace, name)| Dependency::Service { namespace, name };
    let mut found: Vec<Dependency> = parse(services).map(service).collect();
    found.extend(jobs(namespace, text("DEPENDENCY_JOBS"), text("DEPENDENCY_JOBS_JSON")));
    let daemon_set = |(namespace, name)| Dependency::DaemonSet { namespace, name };
    found.extend(parse(text("DEPENDENCY_DAEMONSET")).map(daemon_set));
    found.extend(json_list(text("DEPENDENCY_POD_JSON")).into_iter().map(|pod: PodEntry| Dependency::Pod {
        namespace: or(pod.namespace, namespace),
        labels: pod.labels.unwrap_or_default(),
        same_node: pod.require_same_node,
    }));
    found.extend(json_list(text("DEPENDENCY_CUSTOM_RESOURCE")).into_iter().map(|custom: CustomDependency| {
        Dependency::Custom(CustomDependency { namespace: or(Some(custom.namespace.clone()), namespace), ..custom })
    }));
    found
}

/// Parses `name,namespace:name,…` into pairs of namespace and name. If an entry has no namespace, the pair contains
/// `namespace`. Ignores malformed entries, as kubernetes-entrypoint does.
fn names<'a>(namespace: &'a str, list: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    list.split(',').filter(|entry| !entry.is_empty()).filter_map(move |entry| {
        match entry.split(':').collect::<Vec<_>>()[..] {
            [name] => Some((namespace.to_string(), name.to_string())),
            [other, name] if !other.is_empty() => Some((other.to_string(), name.to_string())),
            _ => None,
        }
    })
}

/// Returns the Jobs that a container waits for. `list` is the value of `DEPENDENCY_JOBS`, in the format
/// `name,namespace:name,…`. `json` is the value of `DEPENDENCY_JOBS_JSON`, a JSON list. If `json` is not empty, the
/// function ignores `list`.
fn jobs(namespace: &str, list: &str, json: &str) -> Vec<Dependency> {
    if json.is_empty() {
        return names(namespace, list).map(|(namespace, name)| Dependency::Job { namespace, name }).collect();
    }
    let entry = |job: JobEntry| match (job.name.filter(|name| !name.is_empty()), job.labels) {
        (Some(name), None) => Some(Dependency::Job { namespace: or(job.namespace, namespace), name }),
        (None, Some(labels)) => Some(Dependency::Jobs { namespace: or(job.namespace, namespace), labels }),
        _ => None,
    };
    json_list(json).into_iter().filter_map(entry).collect()
}

#[derive(Deserialize)]
struct JobEntry {
    name: Option<String>,
    labels: Option<Labels>,
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodEntry {
    labels: Option<Labels>,
    namespace: Option<String>,
    #[serde(default)]
    require_same_node: bool,
}

fn json_list<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
    serde_json::from_str::<Option<Vec<T>>>(text).ok().flatten().unwrap_or_default()
}

fn or(given: Option<String>, default: &str) -> String {
    given.filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_string())
}

#[cfg(test)]
mod tests;
