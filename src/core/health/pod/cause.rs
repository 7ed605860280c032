//! Finds the reason why a pod is not ready.
//!
//! If the pod is being deleted, the deletion is the reason. Otherwise osdpl checks for one reason after the other, the
//! most severe reasons first, and returns the first reason that it finds.

use super::wire::{ContainerStatus, Spec, Status, Terminated};
use super::{Cause, FailedContainer, Severity};
use crate::health::pod_creation::shorten;
use crate::scrub::Scrubber;

/// The name that upstream's charts give to the init container kubernetes-entrypoint, which waits for the pod's
/// dependencies.
const ENTRYPOINT: &str = "init";

/// The reasons that the kubelet gives for an image that it can't pull.
///
/// The kubelet alternates between some of these reasons. To keep the message stable, osdpl writes `ImagePullBackOff`
/// for all of them except `InvalidImageName`.
const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "RegistryUnavailable",
    "ImageInspectError",
    "ErrImageNeverPull",
    "InvalidImageName",
];

/// The reasons that the kubelet gives for a container that it can't create or start: for example, because a Secret
/// lacks a key, or because the path of a volume or the container's program does not exist.
const CREATION_REASONS: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreStartHookError",
    "PostStartHookError",
];

/// The reasons that the kubelet gives for a container that ended because its node or the container runtime went down,
/// for example in a power failure. The kubelet cannot learn the exit code of such a container, so it reports 255 or
/// 137.
const LOST_REASONS: [&str; 2] = ["Unknown", "ContainerStatusUnknown"];

/// Returns the most severe reason why a pod is not ready; `None` if osdpl finds no reason. `scrubber` removes secrets
/// from messages of Kubernetes.
pub(super) fn of(is_terminating: bool, spec: &Spec, status: &Status, scrubber: &Scrubber) -> Option<Cause> {
    if is_terminating {
        return Some(simple(Severity::Terminating, "it is being deleted".into()));
    }
    let containers = || status.init_container_statuses.iter().chain(&status.container_statuses);
    containers()
        .find_map(|container| image(spec, container))
        .or_else(|| containers().find_map(|container| creation(container, scrubber)))
        .or_else(|| containers().find_map(crash))
        .or_else(|| failed(status, scrubber))
        .or_else(|| unschedulable(spec, status, scrubber))
        .or_else(|| status.init_container_statuses.iter().find_map(initialising))
        .or_else(|| lost(status))
        .or_else(|| containers().find_map(starting))
        .or_else(|| containers().find_map(restarting))
}

fn simple(severity: Severity, message: String) -> Cause {
    Cause { severity, message, failing: None }
}

fn image(spec: &Spec, container: &ContainerStatus) -> Option<Cause> {
    let waiting = container.state.waiting.as_ref()?;
    if !IMAGE_REASONS.contains(&waiting.reason.as_str()) {
        return None;
    }
    let mut all = spec.init_containers.iter().chain(&spec.containers);
    let image = all.find(|one| one.name == container.name).map_or("its image", |one| one.image.as_str());
    let word = if waiting.reason == "InvalidImageName" { "InvalidImageName" } else { "ImagePullBackOff" };
    Some(simple(Severity::Stuck, format!("{word} {image}")))
}

/// Scrubs a message of Kubernetes, and returns it as one line of limited length.
fn quote(message: &str, scrubber: &Scrubber) -> String {
    shorten(&scrubber.scrub_output(message))
}

fn creation(container: &ContainerStatus, scrubber: &Scrubber) -> Option<Cause> {
    let waiting = container.state.waiting.as_ref()?;
    let known = CREATION_REASONS.contains(&waiting.reason.as_str());
    known.then(|| {
        let why = quote(&waiting.message, scrubber);
        let message = format!("container {}: {}: {why}", container.name, waiting.reason);
        simple(Severity::Stuck, message)
    })
}

/// Returns the cause if a container ended with an error and has not become ready since then, even if the container runs
/// again. A container that ends again and again (`CrashLoopBackOff`) also counts if it ends without an error.
fn crash(container: &ContainerStatus) -> Option<Cause> {
    let bad = |state: Option<&'_ Terminated>| {
        state.is_some_and(|terminated| terminated.exit_code != 0 && !was_lost(terminated))
    };
    let now = container.state.terminated.as_ref();
    let before = container.last_state.terminated.as_ref();
    let ended_well = now.is_some_and(|terminated| terminated.exit_code == 0);
    let looping = container.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff");
    let last = if bad(now) { now } else { before };
    if container.ready || ended_well || !(looping || bad(last)) {
        return None;
    }
    let how = last.map_or_else(String::new, |terminated| match terminated.reason.as_str() {
        "" | "Error" => format!(": exit code {}", terminated.exit_code),
        reason => format!(": {reason}, exit code {}", terminated.exit_code),
    });
    let failing = FailedContainer {
        container: container.name.clone(),
        restarts: container.restart_count,
        previous: container.state.running.is_some(),
    };
    let message = match last {
        Some(terminated) if terminated.exit_code == 0 => {
            format!("container {} ends again and again with exit code 0", container.name)
        }
        _ => format!("container {} fails{how}", container.name),
    };
    Some(Cause { severity: Severity::Stuck, message, failing: Some(failing) })
}

/// Whether a container ended because its node or the container runtime went down. Such an end is no failure of the
/// container.
fn was_lost(terminated: &Terminated) -> bool {
    LOST_REASONS.contains(&terminated.reason.as_str())
}

/// Returns the cause if the pod has failed as a whole, for example because of an eviction or a node shutdown.
fn failed(status: &Status, scrubber: &Scrubber) -> Option<Cause> {
    (status.phase == "Failed").then(|| {
        let message = match (status.reason.as_str(), status.message.as_str()) {
            ("", "") => "it failed".into(),
            (reason, "") => reason.into(),
            (reason, message) => format!("{reason}: {}", quote(message, scrubber)),
        };
        simple(Severity::Stuck, message)
    })
}

fn unschedulable(spec: &Spec, status: &Status, scrubber: &Scrubber) -> Option<Cause> {
    let scheduled = status.condition("PodScheduled")?;
    if scheduled.status != "False" || scheduled.reason != "Unschedulable" {
        return None;
    }
    // Kubernetes may bind a volume claim only some time after it creates the pod. So a pod that waits for an unbound
    // claim may still become ready without help from a person.
    let severity = if scheduled.message.contains("unbound immediate") { Severity::Waiting } else { Severity::Stuck };
    let labels: Vec<_> = spec.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let is_relevant = !labels.is_empty() && scheduled.message.contains("node affinity/selector");
    let requires = if is_relevant { format!(" (it requires {})", labels.join(",")) } else { String::new() };
    Some(simple(severity, format!("it cannot be scheduled{requires}: {}", quote(&scheduled.message, scrubber))))
}

fn initialising(container: &ContainerStatus) -> Option<Cause> {
    container.state.running.as_ref()?;
    let word = if container.name == ENTRYPOINT { "waits in" } else { "runs" };
    Some(simple(Severity::Waiting, format!("{word} init container {}", container.name)))
}

fn lost(status: &Status) -> Option<Cause> {
    status.was_ready().then(|| simple(Severity::Lost, "it is no longer ready".into()))
}

/// Returns the cause if Kubernetes is creating a container of the pod.
///
/// The kubelet gives the reason `ContainerCreating` both while it mounts volumes and while it creates containers. So
/// osdpl's message names both possibilities.
fn starting(container: &ContainerStatus) -> Option<Cause> {
    let waiting = container.state.waiting.as_ref()?;
    (waiting.reason == "ContainerCreating")
        .then(|| simple(Severity::Starting, "Kubernetes is mounting volumes or creating containers".into()))
}

/// Returns the cause if a container ended because its node or the container runtime went down, and Kubernetes is
/// starting the container again.
fn restarting(container: &ContainerStatus) -> Option<Cause> {
    let ended = [&container.state, &container.last_state].into_iter().find_map(|state| state.terminated.as_ref())?;
    let message = || format!("container {} starts again: its node or the container runtime went down", container.name);
    (!container.ready && was_lost(ended)).then(|| simple(Severity::Starting, message()))
}
