//! Decodes the body of a release record: the release that helm stores, compressed, in the `data` of the record's
//! Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use osdpl_core::catalog::WorkloadKind;
use osdpl_core::drift;
use osdpl_core::observed::{ObservedHook, RecordBody, ReleaseKey};
use osdpl_core::release::{self, DecodeError, DeletePolicy, Event, Hook, Object, Phase, Record, Status};
use osdpl_core::scrub::Scrubber;
use osdpl_values::CollectSorted;

/// The maximum length, in bytes, of the description in a release record. helm writes one sentence or an error message
/// there. Anyone who may write the record can store a longer text, in which the search for secrets would take seconds.
const DESCRIPTION_LIMIT: usize = 16 << 10;

/// An object's namespace and name.
type Name = (String, String);

/// The objects in the manifest of a revision. The releases task reads them only once, because the manifest of a
/// revision never changes.
#[derive(Debug, PartialEq)]
pub(super) struct Objects {
    workloads: BTreeSet<(WorkloadKind, String, String)>,
    /// The workloads with `replicas: 0` in the manifest.
    at_rest: BTreeSet<(WorkloadKind, String, String)>,
    /// The Jobs that are not hooks.
    plain_jobs: BTreeSet<Name>,
    hook_jobs: BTreeSet<Name>,
    /// The objects that helm applied and that the drift task watches, each with the fields that helm set.
    left: Arc<BTreeMap<drift::ObjectId, drift::ExpectedFields>>,
    /// The approximate size of this `Objects` value in memory, in bytes.
    pub(super) size: usize,
}

/// Decodes the manifest and the hooks in a release record.
pub(super) fn objects(payload: &[u8], release: &ReleaseKey) -> Result<Objects, DecodeError> {
    let objects = release::decode_objects(payload)?;
    let namespace = &release.namespace;
    let object_name =
        |object: &Object| (object.namespace.clone().unwrap_or_else(|| namespace.clone()), object.name.clone());
    let workload = |object: &Object| {
        let kind = match object.kind.as_str() {
            "Deployment" => WorkloadKind::Deployment,
            "StatefulSet" => WorkloadKind::StatefulSet,
            "DaemonSet" => WorkloadKind::DaemonSet,
            _ => return None,
        };
        let (namespace, name) = object_name(object);
        object.api_version.starts_with("apps/").then_some((kind, namespace, name))
    };
    let jobs = |objects: &[Object]| objects.iter().filter(|object| object.kind == "Job").map(object_name).collect_set();
    Ok(Objects {
        workloads: objects.manifest.iter().filter_map(workload).collect_set(),
        at_rest: objects.manifest.iter().filter(|object| object.replicas == Some(0)).filter_map(workload).collect_set(),
        plain_jobs: jobs(&objects.manifest),
        hook_jobs: jobs(&objects.hooks),
        left: Arc::new(drift::list_watched_objects(&objects.manifest, release, objects.server_side)),
        size: objects.manifest.iter().chain(&objects.hooks).map(Object::size).sum(),
    })
}

/// Decodes the part of a record that changes while helm runs, such as the state of hooks, and combines it with the
/// `objects` of the revision.
pub(super) fn read(
    payload: &[u8],
    namespace: &str,
    objects: &Objects,
    scrubber: &Scrubber,
) -> Result<RecordBody, DecodeError> {
    let record = release::decode(payload)?;
    let recreated = |hook: &&Hook| hook.kind == "Job" && hook.runs_at(Event::PostUpgrade);
    let hook_jobs =
        record.hooks.iter().filter(recreated).map(|hook| object_name(hook, namespace, objects)).collect_set();
    let kept =
        record.hooks.iter().filter(|hook| is_kept(hook, &record)).map(|hook| object_name(hook, namespace, objects));
    let jobs = objects.plain_jobs.iter().cloned().chain(kept).collect_set();
    Ok(RecordBody {
        hook: current_hook(&record),
        jobs,
        hook_jobs,
        workloads: objects.workloads.clone(),
        scaled_to_zero: objects.at_rest.clone(),
        delete_hooks_completed: (record.status == Status::Uninstalling).then(|| delete_hooks_completed(&record)),
        chart: record.chart.name,
        chart_version: record.chart.version,
        description: description(&record.description, scrubber),
        applied_objects: Arc::clone(&objects.left),
        stored_bytes: payload.len(),
    })
}

/// Returns the description from a release record, without secrets and not longer than [`DESCRIPTION_LIMIT`].
fn description(text: &str, scrubber: &Scrubber) -> String {
    let beginning = &text[..text.floor_char_boundary(DESCRIPTION_LIMIT)];
    if beginning.len() < text.len() { scrubber.scrub_beginning(beginning) } else { scrubber.scrub(text) }
}

/// Whether the hook is a Job that helm runs for this revision and then leaves in the cluster.
///
/// The Job is a post-install, post-upgrade or post-rollback hook that helm does not delete when it succeeds. The result
/// is false if helm has finished the revision without running the hook, for example because the hook is only for
/// rollbacks.
fn is_kept(hook: &Hook, record: &Record) -> bool {
    let after = [Event::PostInstall, Event::PostUpgrade, Event::PostRollback];
    let relevant = hook.kind == "Job" && after.iter().any(|event| hook.runs_at(*event));
    let removed = hook.delete_policies.contains(&DeletePolicy::HookSucceeded);
    let ran = hook.last_run.is_some() || record.status.is_pending();
    relevant && ran && !removed
}

/// Returns the namespace and name of a hook. The namespace differs from the release's namespace if the hook's manifest
/// sets another namespace.
fn object_name(hook: &Hook, namespace: &str, objects: &Objects) -> Name {
    let named = objects.hook_jobs.iter().find(|(_, name)| *name == hook.name);
    named.cloned().unwrap_or_else(|| (namespace.to_owned(), hook.name.clone()))
}

/// Returns the hook that helm waits for or, if the release has failed, the hook that failed.
fn current_hook(record: &Record) -> Option<ObservedHook> {
    let phase = match record.status {
        Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback | Status::Uninstalling => {
            Phase::Running
        }
        Status::Failed => Phase::Failed,
        Status::Unknown | Status::Deployed | Status::Uninstalled | Status::Superseded => return None,
    };
    let started = |hook: &&Hook| hook.last_run.as_ref().and_then(|run| run.started_at);
    let hook = record.hooks.iter().filter(|hook| hook.phase() == phase).max_by_key(started)?;
    Some(ObservedHook {
        name: format!("{} {} {}", event_name(hook, record), hook.kind, hook.name),
        job: (hook.kind == "Job").then(|| hook.name.clone()),
        since: started(&hook),
        failed: phase == Phase::Failed,
    })
}

/// Returns helm's name for the event at which the hook runs in the operation that wrote the record, such as
/// `post-upgrade`.
fn event_name(hook: &Hook, record: &Record) -> &'static str {
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
        // helm does not record whether an install or an upgrade failed. An upgrade changes `last_deployed`, but not
        // `first_deployed`, so equal times mean that an install failed.
        Status::Failed if record.first_deployed == record.last_deployed => "-install",
        Status::PendingUpgrade | Status::Failed => "-upgrade",
        Status::Unknown | Status::Deployed | Status::Uninstalled | Status::Superseded => "",
    };
    let name = |suffix| all.into_iter().find(|(event, name)| hook.runs_at(*event) && name.ends_with(suffix));
    name(suffix).or_else(|| name("")).map_or("hook", |(_, name)| name)
}

/// Whether all delete hooks of the record's unfinished uninstall have completed.
///
/// The record shows whether the pre-delete hooks have succeeded, because helm stores the record after these hooks and
/// before it deletes the first object: see `Run` in
/// [`pkg/action/uninstall.go`](https://github.com/helm/helm/blob/main/pkg/action/uninstall.go). If the chart has
/// post-delete hooks, the result is false, because helm does not store that a post-delete hook has completed. If the
/// result is true, osdpl continues the uninstall without hooks. So the result is also false if the chart has no
/// pre-delete hooks: there are no completed hooks to skip.
fn delete_hooks_completed(record: &Record) -> bool {
    let mut before = record.hooks.iter().filter(|hook| hook.runs_at(Event::PreDelete)).peekable();
    let has_later = record.hooks.iter().any(|hook| hook.runs_at(Event::PostDelete));
    before.peek().is_some() && before.all(|hook| hook.phase() == Phase::Succeeded) && !has_later
}

#[cfg(test)]
mod tests;
