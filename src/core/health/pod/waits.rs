//! What a pod waits for: the environment of kubernetes-entrypoint, upstream's init container.
//!
//! Source of the names and forms: kubernetes-entrypoint's README. `DEPENDENCY_SERVICE` is always set, possibly to nothing: its presence
//! tells such a container. A name without a namespace is of the pod's own.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::wire::{Container, Spec, Status};

/// The variable that every waiting container has.
const SERVICE: &str = "DEPENDENCY_SERVICE";

/// One thing that a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// A Service with a ready address.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Job that is complete.
    Job {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A `DaemonSet` with a ready pod.
    DaemonSet {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A ready pod with these labels.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its labels, as far as they are asked for.
        labels: BTreeMap<String, String>,
        /// Whether it must be on the same node.
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

/// What the init container that runs now waits for, where it is one that waits.
pub(super) fn of(own: &str, spec: &Spec, status: &Status) -> Vec<Dependency> {
    let running = status.init_container_statuses.iter().find(|container| container.state.running.is_some());
    let container = running.and_then(|running| spec.init_containers.iter().find(|one| one.name == running.name));
    container.filter(|container| variable(container, SERVICE).is_some()).map_or_else(Vec::new, |one| read(own, one))
}

fn read(own: &str, container: &Container) -> Vec<Dependency> {
    let text = |name: &str| variable(container, name).unwrap_or_default();
    let services = names(own, text(SERVICE)).map(|(namespace, name)| Dependency::Service { namespace, name });
    let jobs = names(own, text("DEPENDENCY_JOBS")).map(|(namespace, name)| Dependency::Job { namespace, name });
    let daemon_sets =
        names(own, text("DEPENDENCY_DAEMONSET")).map(|(namespace, name)| Dependency::DaemonSet { namespace, name });
    let or_own = |namespace: String| if namespace.is_empty() { own.to_owned() } else { namespace };
    let named = list::<JobEntry>(text("DEPENDENCY_JOBS_JSON")).into_iter().filter(|job| !job.name.is_empty());
    let named = named.map(|job| Dependency::Job { namespace: or_own(job.namespace), name: job.name });
    let pods = list::<PodEntry>(text("DEPENDENCY_POD_JSON")).into_iter().map(|pod| Dependency::Pod {
        namespace: or_own(pod.namespace),
        labels: pod.labels,
        same_node: pod.require_same_node,
    });
    services.chain(jobs).chain(named).chain(daemon_sets).chain(pods).collect()
}

fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    container.env.iter().find(|variable| variable.name == name).map(|variable| variable.value.as_str())
}

/// `[namespace:]name,…`
fn names<'a>(own: &'a str, text: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(move |entry| {
        let (namespace, name) = entry.split_once(':').unwrap_or((own, entry));
        (namespace.to_owned(), name.to_owned())
    })
}

/// A list that can't be read says nothing; the container's own log complains.
fn list<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
    serde_json::from_str(text).unwrap_or_default()
}
