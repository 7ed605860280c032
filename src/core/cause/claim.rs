//! Why a volume claim has no volume, and what to do.

use super::Facts;
use crate::health::pod::{OwnerKind, Unready};
use crate::observed::{Claim, ClaimPhase};

/// A claim that holds a pod up.
pub(super) struct Waiting<'a> {
    pub(super) claim: &'a str,
    pub(super) message: String,
    pub(super) stuck: bool,
}

/// The first claim of a pod that has no volume, where that is why no node takes the pod.
pub(super) fn waiting<'a>(facts: &Facts<'a>, namespace: &str, pod: &Unready) -> Option<Waiting<'a>> {
    let scheduler = pod.cause.as_ref().map(|cause| cause.message.as_str()).unwrap_or_default();
    pod.claims.iter().find_map(|name| {
        let claim = *facts.claims.get(&(namespace, name.as_str()))?;
        let (why, stuck) = why(facts, claim)?;
        // A claim may wait for its pod (volumeBindingMode WaitForFirstConsumer), which waits for something else then.
        let said = facts.provisioners.contains_key(&(namespace, name.as_str()));
        if !stuck && !said && !is_about_volumes(scheduler) {
            return None;
        }
        let size = if claim.size.is_empty() { String::new() } else { format!(" ({})", claim.size) };
        let mut message = format!("claim {name}{size} waits: {why}");
        if stuck {
            let commands = commands(facts, claim, pod);
            message =
                format!("{message}; make it, or delete what asks for it ({commands}), then correct spec.storageClass");
        }
        Some(Waiting { claim: &claim.name, message, stuck })
    })
}

/// The scheduler's words, which may be any plugin's (Kubernetes: `pkg/scheduler/framework/plugins/volumebinding`).
fn is_about_volumes(scheduler: &str) -> bool {
    let words = scheduler.to_lowercase();
    ["persistentvolumeclaim", "persistent volume", "storageclass", "free storage"]
        .iter()
        .any(|word| words.contains(word))
}

fn why(facts: &Facts<'_>, claim: &Claim) -> Option<(String, bool)> {
    match claim.phase {
        ClaimPhase::Bound => return None,
        ClaimPhase::Lost => return Some(("its volume is gone, and the data with it".into(), false)),
        ClaimPhase::Pending => {}
    }
    let classes = facts.classes.as_ref();
    let said = facts.provisioners.get(&(claim.namespace.as_str(), claim.name.as_str()));
    let no_volume = said.map_or_else(|| "has made no volume yet".to_owned(), |said| format!("makes no volume: {said}"));
    Some(match (claim.class.as_deref(), classes) {
        (None, Some(classes)) if !classes.values().any(|class| class.is_default) => {
            ("it names no StorageClass, and none is the default one".into(), true)
        }
        (None, _) => (format!("the default StorageClass {no_volume}"), false),
        (Some(""), _) => ("it asks for a volume without a class, and none fits".into(), false),
        (Some(name), Some(classes)) => match classes.get(name) {
            Some(class) => (format!("StorageClass {name:?} ({}) {no_volume}", class.provisioner), false),
            None => (format!("StorageClass {name:?} does not exist"), true),
        },
        (Some(name), None) => (format!("StorageClass {name:?} {no_volume}"), false),
    })
}

/// The commands that have done with a claim which can't be bound.
fn commands(facts: &Facts<'_>, claim: &Claim, pod: &Unready) -> String {
    let set = (pod.owner.kind == OwnerKind::StatefulSet).then_some(pod.owner.name.as_str());
    match set.filter(|set| pod_of(claim, set).is_some()) {
        Some(set) => remedy(facts.claims.values().copied(), &claim.namespace, set),
        None => format!("kubectl -n {} delete pvc {}", claim.namespace, claim.name),
    }
}

/// The commands that have done with a `StatefulSet` and with those of its claims that have no volume: neither the class of a claim nor the claim
/// templates of a `StatefulSet` can be changed. Pods whose claims are bound go on.
pub fn remedy<'a>(claims: impl Iterator<Item = &'a Claim>, namespace: &str, set: &str) -> String {
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
    let set = format!("{kubectl} statefulset {set} --cascade=orphan (its pods go on)");
    if waiting.is_empty() {
        return set;
    }
    let mut pods: Vec<&str> = waiting.iter().map(|(pod, ..)| *pod).collect();
    pods.dedup();
    format!("{set}; {kubectl} pvc {claims} --wait=false; {kubectl} pod {}", pods.join(" "))
}

/// The pod of a `StatefulSet` that a claim is for: it is called `<template>-<set>-<ordinal>`.
fn pod_of<'a>(claim: &'a Claim, set: &str) -> Option<&'a str> {
    let ordinal = claim.name.rsplit_once('-').map(|(_, ordinal)| ordinal)?;
    let digits = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    let at = claim.name.len().checked_sub(set.len() + 1 + ordinal.len())?;
    let (template, pod) = claim.name.split_at_checked(at)?;
    let of_set = pod.strip_prefix(set)?.strip_prefix('-') == Some(ordinal);
    (digits && of_set && template.ends_with('-')).then_some(pod)
}
