//! What a record's body says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use osdpl_core::catalog::WorkloadKind;
use osdpl_core::drift;
use osdpl_core::observed::{BodySeen, HookSeen, Key};
use osdpl_core::release::{self, DeletePolicy, Event, Hook, Object, Phase, Record, Status, Undecodable};
use osdpl_core::scrub::Scrubber;

/// An object's namespace and name.
type Name = (String, String);

/// What a revision consists of; it never changes.
#[derive(Debug, PartialEq)]
pub(super) struct Objects {
    workloads: BTreeSet<(WorkloadKind, String, String)>,
    at_rest: BTreeSet<(WorkloadKind, String, String)>,
    plain_jobs: BTreeSet<Name>,
    hook_jobs: BTreeSet<Name>,
    left: Arc<BTreeMap<drift::Id, drift::Left>>,
}

/// The objects of a record of that release.
pub(super) fn objects(payload: &[u8], release: &Key) -> Result<Objects, Undecodable> {
    let objects = release::decode_objects(payload)?;
    let namespace = &release.namespace;
    let place = |object: &Object| (object.namespace.clone().unwrap_or_else(|| namespace.clone()), object.name.clone());
    let workload = |object: &Object| {
        let kind = match object.kind.as_str() {
            "Deployment" => WorkloadKind::Deployment,
            "StatefulSet" => WorkloadKind::StatefulSet,
            "DaemonSet" => WorkloadKind::DaemonSet,
            _ => return None,
        };
        let (namespace, name) = place(object);
        object.api_version.starts_with("apps/").then_some((kind, namespace, name))
    };
    let jobs = |objects: &[Object]| objects.iter().filter(|object| object.kind == "Job").map(place).collect();
    Ok(Objects {
        workloads: objects.manifest.iter().filter_map(workload).collect(),
        at_rest: objects.manifest.iter().filter(|object| object.replicas == Some(0)).filter_map(workload).collect(),
        plain_jobs: jobs(&objects.manifest),
        hook_jobs: jobs(&objects.hooks),
        left: Arc::new(drift::left(&objects.manifest, release, objects.server_side)),
    })
}

/// What a record says now.
pub(super) fn read(
    payload: &[u8],
    namespace: &str,
    objects: &Objects,
    scrubber: &Scrubber,
) -> Result<BodySeen, Undecodable> {
    let record = release::decode(payload)?;
    let anew = |hook: &&Hook| hook.kind == "Job" && hook.runs_at(Event::PostUpgrade);
    let hook_jobs = record.hooks.iter().filter(anew).map(|hook| place(hook, namespace, objects)).collect();
    let stay = record.hooks.iter().filter(|hook| stays(hook, &record)).map(|hook| place(hook, namespace, objects));
    let jobs = objects.plain_jobs.iter().cloned().chain(stay).collect();
    Ok(BodySeen {
        hook: current_hook(&record),
        jobs,
        hook_jobs,
        workloads: objects.workloads.clone(),
        at_rest: objects.at_rest.clone(),
        pre_install_satisfied: pre_install_satisfied(&record),
        chart: record.chart.name,
        chart_version: record.chart.version,
        description: scrubber.scrub(&record.description),
        left: Arc::clone(&objects.left),
        stored: payload.len(),
    })
}

/// Whether it is a Job that this revision leaves behind complete: one after its install, upgrade or rollback, that helm does
/// not remove itself. Hooks of an operation that has ended and did not come to them belong to another kind of operation.
fn stays(hook: &Hook, record: &Record) -> bool {
    let after = [Event::PostInstall, Event::PostUpgrade, Event::PostRollback];
    let ours = hook.kind == "Job" && after.iter().any(|event| hook.runs_at(*event));
    let removed = hook.delete_policies.contains(&DeletePolicy::HookSucceeded);
    let ran = hook.last_run.is_some() || record.status.is_pending();
    ours && ran && !removed
}

/// Where the hook's object lies: the manifest may name another namespace than the release's.
fn place(hook: &Hook, namespace: &str, objects: &Objects) -> Name {
    let named = objects.hook_jobs.iter().find(|(_, name)| *name == hook.name);
    named.cloned().unwrap_or_else(|| (namespace.to_owned(), hook.name.clone()))
}

/// The hook that helm waits for, or that it failed with.
fn current_hook(record: &Record) -> Option<HookSeen> {
    let phase = match record.status {
        Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback | Status::Uninstalling => {
            Phase::Running
        }
        Status::Failed => Phase::Failed,
        Status::Unknown | Status::Deployed | Status::Uninstalled | Status::Superseded => return None,
    };
    let started = |hook: &&Hook| hook.last_run.as_ref().and_then(|run| run.started_at);
    let hook = record.hooks.iter().filter(|hook| hook.phase() == phase).max_by_key(started)?;
    Some(HookSeen {
        name: format!("{} {} {}", moment(hook, record), hook.kind, hook.name),
        job: (hook.kind == "Job").then(|| hook.name.clone()),
        since: started(&hook),
        failed: phase == Phase::Failed,
    })
}

/// helm's word for the moment at which the hook runs in an operation of this kind.
fn moment(hook: &Hook, record: &Record) -> &'static str {
    let all = [
        (Event::PreInstall, "pre-install"),
        (Event::PostInstall, "post-install"),
        (Event::PreUpgrade, "pre-upgrade"),
        (Event::PostUpgrade, "post-upgrade"),
        (Event::PreRollback, "pre-rollback"),
        (Event::PostRollback, "post-rollback"),
        (Event::PreDelete, "pre-delete"),
        (Event::PostDelete, "post-delete"),
        (Event::Test, "test"),
    ];
    let suffix = match record.status {
        Status::PendingInstall => "-install",
        Status::PendingRollback => "-rollback",
        Status::Uninstalling => "-delete",
        // What failed is not recorded; an upgrade keeps the time of the first install.
        Status::Failed if record.first_deployed == record.last_deployed => "-install",
        Status::PendingUpgrade | Status::Failed => "-upgrade",
        Status::Unknown | Status::Deployed | Status::Uninstalled | Status::Superseded => "",
    };
    let word = |suffix| all.into_iter().find(|(event, word)| hook.runs_at(*event) && word.ends_with(suffix));
    word(suffix).or_else(|| word("")).map_or("hook", |(_, word)| word)
}

/// A Job must have succeeded. Of anything else it is enough that helm came past it: a later hook has run.
fn pre_install_satisfied(record: &Record) -> bool {
    let later = record.hooks.iter().any(|hook| !hook.runs_at(Event::PreInstall) && hook.last_run.is_some());
    let mut before = record.hooks.iter().filter(|hook| hook.runs_at(Event::PreInstall));
    before.all(|hook| hook.phase() == Phase::Succeeded || (later && !hook.completes()))
}

#[cfg(test)]
mod tests;
