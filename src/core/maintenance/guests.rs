//! The instances on a node: which is moved next, and which does not move.

use crate::api::FailedInstance;
use crate::openstack::nova::{Migration, Server};

use super::{Case, Host};

/// How many instances are migrated at a time where the spec does not say.
const PARALLEL: u32 = 2;

/// How many that do not leave are told of.
const TOLD: usize = 20;

/// What is to be done about the instances.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Guests {
    /// These are to be migrated now.
    pub ask: Vec<String>,
    /// How many are on their way.
    pub moving: usize,
    /// These have something else done with them, mostly for a moment: a line each, with nova's word for it.
    pub busy: Vec<String>,
    /// How many could be migrated, and wait until others are.
    pub queued: usize,
    /// These do not leave by themselves.
    pub stuck: Vec<FailedInstance>,
}

/// By nova's number of the last migration that does not count any more.
pub(super) fn guests(case: &Case<'_>, host: &Host, after: i64) -> Guests {
    let mut guests = Guests::default();
    let mut ready = Vec::new();
    for server in &host.servers {
        let last = host.migrations.iter().filter(|one| one.server == server.id).max_by_key(|one| one.id);
        let task = server.task.as_deref();
        // Nova has set the task before it answers: a record that runs without one was left behind by a nova-compute that died.
        if server.status == "MIGRATING" || task == Some("migrating") {
            guests.moving += 1;
        } else if let Some(task) = task {
            guests.busy.push(format!("{} ({}) is {task}", server.name, server.id));
        } else if let Some(why) = stuck(case, server, last.filter(|last| last.id > after)) {
            guests.stuck.push(FailedInstance { id: server.id.clone(), name: server.name.clone(), reason: why });
        } else {
            ready.push(server.id.clone());
        }
    }
    let parallel = usize::try_from(case.spec.parallel_migrations.unwrap_or(PARALLEL)).unwrap_or(usize::MAX);
    let room = parallel.saturating_sub(guests.moving).min(ready.len());
    guests.queued = ready.len() - room;
    ready.truncate(room);
    guests.ask = ready;
    guests.stuck.truncate(TOLD);
    guests
}

/// Why an instance can't be live-migrated, and what to do.
fn stuck(case: &Case<'_>, server: &Server, last: Option<&Migration>) -> Option<String> {
    let again = format!("kubectl annotate nm {} osdpl.dev/retry=now", case.name);
    if let Some(words) = case.facts.refused.get(&server.id) {
        return Some(format!("nova refuses to migrate it: {words}; mend that, then: {again}"));
    }
    match server.status.as_str() {
        "ACTIVE" | "PAUSED" => last.filter(|last| last.has_failed()).map(|last| {
            format!(
                "its live migration {} ended as {}; see the log of nova-compute on both hosts, mend it, then: {again}",
                last.id, last.status
            )
        }),
        status => Some(format!(
            "is {status}, which can't be live-migrated; start it, move it cold (openstack server migrate), or delete it"
        )),
    }
}
