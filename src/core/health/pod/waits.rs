//! Reads the dependencies of a pod from the environment variables of its init container kubernetes-entrypoint, which
//! waits for these dependencies.
//!
//! The README of kubernetes-entrypoint describes the names and formats of the variables. If a variable contains a name
//! without a namespace, the name refers to an object in the pod's own namespace.
//!
//! osdpl recognizes the init container by the variable `DEPENDENCY_SERVICE`, because upstream's charts always set this
//! variable, even to an empty value.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::wire::{Container, Spec, Status};

/// The environment variable by which osdpl recognizes the init container kubernetes-entrypoint.
const SERVICE: &str = "DEPENDENCY_SERVICE";

/// An object that the init container of a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// The init container waits until this Service has a ready address.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// The name of the Service.
        name: String,
    },
    /// The init container waits until this Job is complete.
    Job {
        /// The namespace of the Job.
        namespace: String,
        /// The name of the Job.
        name: String,
    },
    /// The init container waits until this `DaemonSet` has a ready pod.
    DaemonSet {
        /// The namespace of the `DaemonSet`.
        namespace: String,
        /// The name of the `DaemonSet`.
        name: String,
    },
    /// The init container waits until a pod with these labels is ready.
    Pod {
        /// The namespace of the pod.
        namespace: String,
        /// The labels that the pod must have.
        labels: BTreeMap<String, String>,
        /// Whether the pod with these labels must be on the same node as the pod that waits for it.
        same_node: bool,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodEntry {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    require_same_node: bool,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct JobEntry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Returns the objects that a pod waits for: the dependencies of the init container that runs now. The result is empty
/// if no init container runs, or if the running init container is not kubernetes-entrypoint.
pub(super) fn of(own_namespace: &str, spec: &Spec, status: &Status) -> Vec<Dependency> {
    let running = status.init_container_statuses.iter().find(|container| container.state.running.is_some());
    let container = running.and_then(|running| spec.init_containers.iter().find(|one| one.name == running.name));
    container
        .filter(|container| variable(container, SERVICE).is_some())
        .map_or_else(Vec::new, |one| read(own_namespace, one))
}

fn read(own_namespace: &str, container: &Container) -> Vec<Dependency> {
    let text = |name: &str| variable(container, name).unwrap_or_default();
    let services = names(own_namespace, text(SERVICE)).map(|(namespace, name)| Dependency::Service { namespace, name });
    let jobs =
        names(own_namespace, text("DEPENDENCY_JOBS")).map(|(namespace, name)| Dependency::Job { namespace, name });
    let daemon_sets = names(own_namespace, text("DEPENDENCY_DAEMONSET"))
        .map(|(namespace, name)| Dependency::DaemonSet { namespace, name });
    let or_own = |namespace: String| if namespace.is_empty() { own_namespace.to_owned() } else { namespace };
    let jobs_by_name = list::<JobEntry>(text("DEPENDENCY_JOBS_JSON")).into_iter().filter(|job| !job.name.is_empty());
    let jobs_by_name = jobs_by_name.map(|job| Dependency::Job { namespace: or_own(job.namespace), name: job.name });
    let pods = list::<PodEntry>(text("DEPENDENCY_POD_JSON")).into_iter().map(|pod| Dependency::Pod {
        namespace: or_own(pod.namespace),
        labels: pod.labels,
        same_node: pod.require_same_node,
    });
    services.chain(jobs).chain(jobs_by_name).chain(daemon_sets).chain(pods).collect()
}

fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    container.env.iter().find(|variable| variable.name == name).map(|variable| variable.value.as_str())
}

/// Parses a list `[namespace:]name,…` into pairs of namespace and name. `own_namespace` replaces a missing namespace.
fn names<'a>(own_namespace: &'a str, text: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(move |entry| {
        let (namespace, name) = entry.split_once(':').unwrap_or((own_namespace, entry));
        (namespace.to_owned(), name.to_owned())
    })
}

/// Parses a JSON list of dependencies; returns an empty list if the JSON is invalid. osdpl need not report this error,
/// because kubernetes-entrypoint reports it in its own log.
fn list<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
    serde_json::from_str(text).unwrap_or_default()
}
