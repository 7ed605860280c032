//! Groups the instances on a node: instances to migrate now, instances that wait, and instances that cannot be
//! migrated.

use osdpl_core::api::FailedInstance;
use osdpl_core::openstack::nova::{Migration, Server};

use super::{Host, Snapshot};

/// The maximum number of parallel migrations if `spec.parallelMigrations` is unset.
const PARALLEL: u32 = 2;

/// The status lists at most this number of instances that can't be migrated.
const MAX_STUCK: usize = 20;

/// The instances on a node, grouped by their next step in the maintenance.
#[derive(Debug, Default, PartialEq)]
pub(super) struct InstanceSteps {
    /// The UUIDs of the instances to migrate now.
    pub to_migrate: Vec<String>,
    /// The number of running migrations.
    pub moving: usize,
    /// The instances for which Nova executes a task other than a migration, such as a reboot; one line each.
    pub busy: Vec<String>,
    /// The number of instances whose migration starts only when other migrations have ended.
    pub queued: usize,
    /// The instances that can't be migrated until a person acts.
    pub stuck: Vec<FailedInstance>,
}

/// Groups the instances on a node by their next step in the maintenance.
///
/// The function ignores failed migrations with an id up to `after`. They are from the time before this maintenance
/// began to migrate instances, or before a person last requested a retry.
pub(super) fn sort_instances(snapshot: &Snapshot<'_>, host: &Host, after: i64) -> InstanceSteps {
    let mut steps = InstanceSteps::default();
    let mut ready = Vec::new();
    for server in &host.servers {
        let last = host.migrations.iter().filter(|one| one.server == server.id).max_by_key(|one| one.id);
        let task = server.task.as_deref();
        // Find out from the status and the task of the instance whether it is migrating: Nova sets the task before it
        // responds to a request for a migration. Do not use Nova's list of running migrations, because it still
        // contains the migrations of a nova-compute that has crashed.
        if server.status == "MIGRATING" || task == Some("migrating") {
            steps.moving += 1;
        } else if let Some(task) = task {
            steps.busy.push(format!("{} ({}) is {task}", server.name, server.id));
        } else if let Some(why) = stuck(snapshot, server, last.filter(|last| last.id > after)) {
            steps.stuck.push(FailedInstance { id: server.id.clone(), name: server.name.clone(), reason: why });
        } else {
            ready.push(server.id.clone());
        }
    }
    let parallel = usize::try_from(snapshot.spec.parallel_migrations.unwrap_or(PARALLEL)).unwrap_or(usize::MAX);
    let free_slots = parallel.saturating_sub(steps.moving).min(ready.len());
    steps.queued = ready.len() - free_slots;
    ready.truncate(free_slots);
    steps.to_migrate = ready;
    steps.stuck.truncate(MAX_STUCK);
    steps
}

/// Returns why an instance cannot be live-migrated, and what to do; `None` if it can be live-migrated.
///
/// `last` is the newest migration of the instance; `None` if the instance has no migration that counts (see `after` in
/// [`sort_instances`]).
fn stuck(snapshot: &Snapshot<'_>, server: &Server, last: Option<&Migration>) -> Option<String> {
    let retry_command = format!("kubectl annotate nm {} osdpl.dev/retry=now", snapshot.name);
    if let Some(message) = snapshot.observed.refused_migrations.get(&server.id) {
        return Some(format!("nova refuses to migrate the instance: {message}; fix the cause, then: {retry_command}"));
    }
    match server.status.as_str() {
        "ACTIVE" | "PAUSED" => last.filter(|last| last.has_failed()).map(|last| {
            format!(
                "its live migration {} ended with status {}; see the log of nova-compute on both hosts, fix the cause, then: {retry_command}",
                last.id, last.status
            )
        }),
        status => Some(format!(
            "its status is {status}, in which it can't be live-migrated; start it, cold-migrate it (openstack server migrate), or delete it"
        )),
    }
}
