//! The instances on a node: which to migrate next, and which cannot be migrated.

use osdpl_core::api::FailedInstance;
use osdpl_core::openstack::nova::{Migration, Server};

use super::{Host, Snapshot};

/// The default number of parallel migrations.
const PARALLEL: u32 = 2;

/// The maximum number of instances in the status that cannot be migrated.
const MAX_STUCK: usize = 20;

/// The instances by their next step.
#[derive(Debug, Default, PartialEq)]
pub(super) struct InstanceSteps {
    /// The instances to migrate now.
    pub to_migrate: Vec<String>,
    /// The number of running migrations.
    pub moving: usize,
    /// The instances with another task, one line each with nova's task name.
    pub busy: Vec<String>,
    /// The number of instances that wait for others.
    pub queued: usize,
    /// The instances that need a person.
    pub stuck: Vec<FailedInstance>,
}

/// Sorts the instances by their next step. Migrations with an id up to `after` are ignored.
pub(super) fn sort_instances(snapshot: &Snapshot<'_>, host: &Host, after: i64) -> InstanceSteps {
    let mut steps = InstanceSteps::default();
    let mut ready = Vec::new();
    for server in &host.servers {
        let last = host.migrations.iter().filter(|one| one.server == server.id).max_by_key(|one| one.id);
        let task = server.task.as_deref();
        // Nova sets the task before it responds. A running record without a task was left behind by a nova-compute that
        // crashed.
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

/// Why an instance cannot be live-migrated, and what to do.
fn stuck(snapshot: &Snapshot<'_>, server: &Server, last: Option<&Migration>) -> Option<String> {
    let retry_command = format!("kubectl annotate nm {} osdpl.dev/retry=now", snapshot.name);
    if let Some(message) = snapshot.observed.refused_migrations.get(&server.id) {
        return Some(format!("nova refuses to migrate it: {message}; fix that, then: {retry_command}"));
    }
    match server.status.as_str() {
        "ACTIVE" | "PAUSED" => last.filter(|last| last.has_failed()).map(|last| {
            format!(
                "its live migration {} ended as {}; see the log of nova-compute on both hosts, fix it, then: {retry_command}",
                last.id, last.status
            )
        }),
        status => Some(format!(
            "is {status}, which can't be live-migrated; start it, move it cold (openstack server migrate), or delete it"
        )),
    }
}
