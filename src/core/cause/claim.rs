//! Explains why volume claims have no volume, and suggests commands that delete the claims that will never get a
//! volume.

use std::collections::BTreeSet;

use osdpl_values::CollectSorted;

use super::Facts;
use crate::health::pod::{OwnerKind, UnreadyPod};
use crate::observed::{Claim, ClaimPhase};

/// A volume claim that prevents the scheduler from placing a pod, because the claim has no volume.
pub(super) struct Waiting<'a> {
    pub(super) claim: &'a str,
    pub(super) message: String,
    pub(super) stuck: bool,
}

/// Returns the pod's first volume claim that prevents the scheduler from placing the pod; `None` if there is none.
pub(super) fn waiting<'a>(facts: &Facts<'a>, namespace: &str, pod: &UnreadyPod) -> Option<Waiting<'a>> {
    let scheduler = pod.cause.as_ref().map(|cause| cause.message.as_str()).unwrap_or_default();
    pod.claims.iter().find_map(|name| {
        let claim = *facts.claims.get(&(namespace, name.as_str()))?;
        let (why, stuck) = why(facts, claim)?;
        // With volumeBindingMode WaitForFirstConsumer, a claim gets a volume only after the scheduler has placed the
        // pod. So a claim without a volume may be normal. Report the claim only if a person must act, if the claim's
        // provisioner reports an error, or if the scheduler's message is about volumes.
        let has_error = facts.provisioners.contains_key(&(namespace, name.as_str()));
        if !stuck && !has_error && !is_about_volumes(scheduler) {
            return None;
        }
        let size = if claim.size.is_empty() { String::new() } else { format!(" ({})", claim.size) };
        let mut message = format!("claim {name}{size} is not bound: {why}");
        if stuck {
            message = format!("{message}; {}", remedy(facts, claim, pod));
        }
        Some(Waiting { claim: &claim.name, message, stuck })
    })
}

/// Whether `scheduler`, a message of the scheduler, says that the scheduler can't place a pod because of a volume.
/// Several plugins of the scheduler write such messages (Kubernetes: `pkg/scheduler/framework/plugins/volumebinding`).
fn is_about_volumes(scheduler: &str) -> bool {
    let message = scheduler.to_lowercase();
    ["persistentvolumeclaim", "persistent volume", "storageclass", "free storage"]
        .iter()
        .any(|word| message.contains(word))
}

/// Returns the reason why a claim has no volume; `None` if the claim has a volume. The boolean is true if a person must
/// act, because the claim has lost its volume, or because the claim's StorageClass or the default StorageClass is
/// missing.
fn why(facts: &Facts<'_>, claim: &Claim) -> Option<(String, bool)> {
    match claim.phase {
        ClaimPhase::Bound => return None,
        ClaimPhase::Lost => return Some(("its volume and its data are lost".into(), true)),
        ClaimPhase::Pending => {}
    }
    let classes = facts.classes.as_ref();
    let error = facts.provisioners.get(&(claim.namespace.as_str(), claim.name.as_str()));
    let no_volume =
        error.map_or_else(|| "has not created a volume yet".to_owned(), |error| format!("creates no volume: {error}"));
    Some(match (claim.class.as_deref(), classes) {
        (None, Some(classes)) if !classes.values().any(|class| class.is_default) => {
            ("the claim names no StorageClass, and no StorageClass is the default".into(), true)
        }
        (None, _) => (format!("the default StorageClass {no_volume}"), false),
        (Some(""), _) => {
            ("the claim requests a volume without a StorageClass, and no such volume matches the claim".into(), false)
        }
        (Some(name), Some(classes)) => match classes.get(name) {
            Some(class) => (format!("StorageClass {name:?} ({}) {no_volume}", class.provisioner), false),
            None => (format!("StorageClass {name:?} does not exist"), true),
        },
        (Some(name), None) => (format!("StorageClass {name:?} {no_volume}"), false),
    })
}

/// Returns the remedy for a claim that gets no volume until a person acts.
fn remedy(facts: &Facts<'_>, claim: &Claim, pod: &UnreadyPod) -> String {
    if claim.phase == ClaimPhase::Lost {
        let kubectl = format!("kubectl -n {} delete", claim.namespace);
        return format!(
            "restore the PersistentVolume if the storage still has the data, or delete the claim and the pod to get \
             an empty volume ({kubectl} pvc {} --wait=false; {kubectl} pod {})",
            claim.name, pod.name
        );
    }
    let create = match claim.class {
        Some(_) => "create the StorageClass",
        None => "mark a StorageClass as the default",
    };
    let commands = commands(facts, claim, pod);
    format!(
        "{create}, or delete the objects that request the volume ({commands}) and then set spec.storageClass to an \
         existing StorageClass"
    )
}

/// Returns the commands that delete a claim which can never get a volume. If the claim belongs to a `StatefulSet`, the
/// commands also delete the `StatefulSet`, which would otherwise recreate the same claim.
fn commands(facts: &Facts<'_>, claim: &Claim, pod: &UnreadyPod) -> String {
    let set = (pod.owner.kind == OwnerKind::StatefulSet).then_some(pod.owner.name.as_str());
    match set.filter(|set| pod_of(claim, set).is_some()) {
        Some(set) => deletion_commands(facts.claims.values().copied(), &claim.namespace, set),
        None => format!("kubectl -n {} delete pvc {}", claim.namespace, claim.name),
    }
}

/// Returns the commands that delete a `StatefulSet` and its pending claims. helm then creates the `StatefulSet` again,
/// and Kubernetes creates the claims again, with the StorageClass that the values now set.
///
/// The objects must be deleted, because Kubernetes allows no change to the StorageClass of a claim or to the claim
/// templates of a `StatefulSet`. If all claims of a pod have volumes, the commands keep the pod running.
pub fn deletion_commands<'a>(claims: impl Iterator<Item = &'a Claim>, namespace: &str, set: &str) -> String {
    let own = claims.filter(|claim| claim.namespace == namespace);
    let own: Vec<(&str, &str, bool)> = own
        .filter_map(|claim| Some((pod_of(claim, set)?, claim.name.as_str(), claim.phase == ClaimPhase::Pending)))
        .collect();
    let waiting: Vec<_> = own.iter().filter(|(.., waits)| *waits).collect();
    let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(" ");
    let kubectl = format!("kubectl -n {namespace} delete");
    let claims = names(&mut waiting.iter().map(|(_, claim, _)| *claim));
    if !waiting.is_empty() && waiting.len() == own.len() {
        return format!("{kubectl} statefulset {set}; {kubectl} pvc {claims}");
    }
    let set = format!("{kubectl} statefulset {set} --cascade=orphan (its pods keep running)");
    if waiting.is_empty() {
        return set;
    }
    // A pod can mount several claims, one for each claim template.
    let pods: BTreeSet<&str> = waiting.iter().map(|(pod, ..)| *pod).collect_set();
    let pods = pods.into_iter().collect::<Vec<_>>().join(" ");
    format!("{set}; {kubectl} pvc {claims} --wait=false; {kubectl} pod {pods}")
}

/// Returns the name of the pod that mounts a claim of the `StatefulSet` `set`; `None` if the claim does not belong to
/// `set`.
///
/// Kubernetes names such a claim `<template>-<set>-<ordinal>`, and the pod `<set>-<ordinal>`.
fn pod_of<'a>(claim: &'a Claim, set: &str) -> Option<&'a str> {
    let ordinal = claim.name.rsplit_once('-').map(|(_, ordinal)| ordinal)?;
    let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    let template_len = claim.name.len().checked_sub(set.len() + 1 + ordinal.len())?;
    let (template, pod) = claim.name.split_at_checked(template_len)?;
    let of_set = pod.strip_prefix(set)?.strip_prefix('-') == Some(ordinal);
    (is_number && of_set && template.ends_with('-')).then_some(pod)
}
