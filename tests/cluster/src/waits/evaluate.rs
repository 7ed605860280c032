//! Decides which annotations `kwok.osdpl.dev/…` of a pod must change. kwok simulates the pod as these annotations say.

use std::collections::BTreeMap;

use serde_json::Value;

use super::facts::{PodFacts, has_labels};
use super::needs::{CustomDependency, Dependency, Source, SourceKind};
use super::rules::RULE_KEYS;
use super::world::{Key, World};

/// Changes of a pod's annotations `kwok.osdpl.dev/…`: the name of each annotation without the prefix, and the new
/// value. `None` removes the annotation.
pub(super) type Annotations = BTreeMap<String, Option<String>>;

/// Returns the changes that a pod's annotations need; empty if all annotations are already correct.
pub(super) fn evaluate(key: &Key, pod: &PodFacts, world: &World) -> Annotations {
    if pod.node.is_empty() || pod.is_leaving || matches!(pod.phase.as_str(), "Succeeded" | "Failed") {
        return Annotations::new();
    }
    let mut wanted = fault(key, pod, world);
    wanted.extend(release(key, pod, world));
    let down = !world.is_node_ready(&pod.node);
    wanted.insert("node-ready".into(), down.then(|| "false".into()));
    if has_failed_before(pod, wanted.get("behaviour").and_then(Option::as_deref), world) {
        wanted.insert("failed-before".into(), Some("true".into()));
    }
    wanted.retain(|key, value| pod.settings.get(key) != value.as_ref());
    wanted
}

/// Returns the annotations with which a fault rule controls the pod. If no rule matches the pod any more, the result
/// removes the annotations that an earlier rule has set.
fn fault(key: &Key, pod: &PodFacts, world: &World) -> Annotations {
    let rule = world.rule(key, pod);
    if rule.is_none() && !pod.settings.contains_key("rule") {
        return Annotations::new();
    }
    let mut wanted: Annotations = [("rule".to_string(), rule.map(|(name, _)| name.to_string()))].into();
    for key in RULE_KEYS {
        let value = rule.and_then(|(_, rule)| rule.value(key));
        // Remove the annotation only if a rule has set it. Otherwise the annotation comes from the pod template, or a
        // test has set it on the running pod.
        if value.is_some() || pod.settings.contains_key("rule") {
            wanted.insert(key.to_string(), value);
        }
    }
    wanted
}

/// Returns the annotations that tell kwok to start the pod (`released`), or that say what the pod waits for. A released
/// pod never waits again, because its init containers have run.
fn release(key: &Key, pod: &PodFacts, world: &World) -> Annotations {
    let set = |name: &str, value: Option<&str>| (name.to_string(), value.map(str::to_string));
    let waits = if pod.is_released() || !world.is_node_ready(&pod.node) { None } else { waits(key, pod, world) };
    if let Some((stage, missing)) = waits {
        return [set("waits-in", Some(stage)), set("waits-for", Some(&missing.join("; ")))].into();
    }
    // Do not release a pod on a node that is not ready, because a real kubelet on this node would not start the pod.
    let may_start = pod.is_released() || world.is_node_ready(&pod.node);
    let released = if may_start { Some("true") } else { None };
    [set("waits-in", None), set("waits-for", None), set("released", released)].into()
}

/// Returns the name of the first wait that blocks the pod (`volumes`, `init` or `config`), and the objects for which
/// the pod waits. Returns `None` if nothing blocks the pod. On a real node, a pod waits in the same order.
fn waits(key: &Key, pod: &PodFacts, world: &World) -> Option<(&'static str, Vec<String>)> {
    let missing = |sources: &[Source]| -> Vec<String> {
        let absent = sources.iter().filter(|source| !world.has(source.kind, &key.namespace, &source.name));
        let mut texts: Vec<String> = absent.map(|source| describe_source(&key.namespace, source)).collect();
        texts.dedup();
        texts
    };
    let volumes = missing(&pod.needs.volumes);
    if !volumes.is_empty() {
        return Some(("volumes", volumes));
    }
    let open = pod.needs.dependencies.iter().filter(|dependency| !is_available(dependency, pod, world));
    let open: Vec<String> = open.map(|dependency| describe(dependency, &pod.node)).collect();
    if !open.is_empty() {
        return Some(("init", open));
    }
    let environment = missing(&pod.needs.environment);
    (!environment.is_empty()).then_some(("config", environment))
}

/// Returns whether a dependency is available. The rules are those of kubernetes-entrypoint (`dependencies/*/*.go`),
/// with two differences. This function compares the names of nodes instead of their addresses, because all simulated
/// nodes have the same address. And it does not treat a DaemonSet as available only because the DaemonSet has no pod on
/// the node.
fn is_available(dependency: &Dependency, pod: &PodFacts, world: &World) -> bool {
    match dependency {
        Dependency::Service { namespace, name } => {
            let mut slices =
                world.slices.iter().filter(|(key, slice)| &key.namespace == namespace && &slice.service == name);
            slices.any(|(_, slice)| slice.is_ready)
        }
        Dependency::Job { namespace, name } => {
            world.jobs.get(&Key::new(namespace, name)).is_some_and(|job| job.has_succeeded)
        }
        Dependency::Jobs { namespace, labels } => {
            let jobs =
                world.jobs.iter().filter(|(key, job)| &key.namespace == namespace && has_labels(&job.labels, labels));
            let mut all = jobs.map(|(_, job)| job.has_succeeded).peekable();
            all.peek().is_some() && all.all(|succeeded| succeeded)
        }
        Dependency::DaemonSet { namespace, name } => {
            let Some(labels) = world.daemon_sets.get(&Key::new(namespace, name)) else { return false };
            let mut here = world.pods_on(&pod.node, namespace, labels).peekable();
            // If the DaemonSet has no pod on this node, kubernetes-entrypoint does not wait. But the reason may be that
            // the DaemonSet's controller has not created any pods yet. So in this case, require a ready pod on
            // another node.
            if here.peek().is_none() {
                return world.pods_with(namespace, labels).any(|other| other.is_ready);
            }
            here.any(|other| other.is_ready)
        }
        Dependency::Pod { namespace, labels, same_node: true } => {
            world.pods_on(&pod.node, namespace, labels).any(|other| other.is_ready)
        }
        Dependency::Pod { namespace, labels, same_node: false } => {
            world.pods_with(namespace, labels).any(|other| other.is_ready)
        }
        Dependency::Custom(custom) => is_satisfied(custom, world),
    }
}

fn is_satisfied(custom: &CustomDependency, world: &World) -> bool {
    let table = world.customs.get(&custom.kind_in_namespace());
    let Some(object) = table.and_then(|table| table.get(&custom.name)) else { return false };
    let field = |key: &str| key.split('.').try_fold(object, |value, part| value.get(part)).and_then(Value::as_str);
    let condition = |type_: &str| {
        let all = object.pointer("/status/conditions").and_then(Value::as_array);
        let found = all.and_then(|all| all.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(type_)));
        found.and_then(|one| one.get("status")).and_then(Value::as_str)
    };
    let expected = |status: &str| if status.is_empty() { "True".to_string() } else { status.to_string() };
    custom.fields.iter().all(|one| field(&one.key) == Some(one.value.as_str()))
        && custom.conditions.iter().all(|one| condition(&one.type_) == Some(expected(&one.status).as_str()))
}

/// Returns whether a pod with the behaviour `fail-once` must succeed, because an earlier pod of the same owner failed.
///
/// The owner is, for example, a Job. The result is `true` only for pods with the restart policy Never. With another
/// restart policy, no new pod replaces the failed one, but its containers restart. Then kwok's stages recognize the
/// earlier failure by the restart count of the pod.
fn has_failed_before(pod: &PodFacts, behaviour: Option<&str>, world: &World) -> bool {
    let behaviour = behaviour.or_else(|| pod.setting("behaviour"));
    if behaviour != Some("fail-once") || !pod.never_restarts || pod.owner.is_none() {
        return false;
    }
    let job = || world.jobs.iter().any(|(_, job)| Some(&job.uid) == pod.owner.as_ref() && job.has_failed_pods);
    let sibling = |other: &PodFacts| other.owner == pod.owner && other.uid != pod.uid && other.phase == "Failed";
    world.pods().any(|(_, other)| sibling(other)) || job()
}

fn describe_source(namespace: &str, source: &Source) -> String {
    let kind = match source.kind {
        SourceKind::Secret => "secret",
        SourceKind::ConfigMap => "configmap",
    };
    format!("{kind} {namespace}/{} ({})", source.name, source.user)
}

fn describe(dependency: &Dependency, node: &str) -> String {
    let describe_labels = |labels: &BTreeMap<String, String>| {
        labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    };
    match dependency {
        Dependency::Service { namespace, name } => format!("service {namespace}/{name}"),
        Dependency::Job { namespace, name } => format!("job {namespace}/{name}"),
        Dependency::Jobs { namespace, labels } => format!("jobs in {namespace} with {}", describe_labels(labels)),
        Dependency::DaemonSet { namespace, name } => format!("daemonset {namespace}/{name}"),
        Dependency::Pod { namespace, labels, same_node: true } => {
            format!("pod in {namespace} on {node} with {}", describe_labels(labels))
        }
        Dependency::Pod { namespace, labels, same_node: false } => {
            format!("pod in {namespace} with {}", describe_labels(labels))
        }
        Dependency::Custom(custom) => {
            format!("{} {}/{}", custom.kind.to_lowercase(), custom.namespace, custom.name)
        }
    }
}

#[cfg(test)]
mod tests;
