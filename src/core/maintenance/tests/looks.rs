//! Reports of nova, and their absence.

use super::*;
use crate::api::MAINTENANCE_FINALIZER;

fn services(hosts: &[&str]) -> Vec<nova::Service> {
    let service = |host: &&str| json!({"id": host, "host": host, "status": "enabled", "state": "up"});
    hosts.iter().map(|host| serde_json::from_value(service(host)).unwrap()).collect()
}

#[test]
fn unknown_administrator_is_not_a_missing_nova() {
    let without_access = Setting { has_nova: true, ..Setting::default() };
    assert!(without_access.nova().is_err_and(|why| why.contains("password of the cloud's administrator")));
    assert!(Setting::default().nova().is_err_and(|why| why.contains("has no nova")));
    assert_eq!(Setting::none().nova(), Err(NO_CLOUD));
}

#[test]
fn unlisted_host_is_unknown_if_compute_runs_there() {
    let listed = services(&["n7.cloud.example", "n8.cloud.example"]);
    assert_eq!(nova::find_service(&listed, "n7.k8s.local"), None);
    assert_eq!(Compute::unlisted("n7.k8s.local", &listed, false), Compute::None);
    let unknown = Compute::unlisted("n7.k8s.local", &listed, true);
    let named = |why: &String| why.contains("its hosts are: n7.cloud.example, n8.cloud.example (");
    assert!(matches!(&unknown, Compute::Unknown(why) if named(why)), "{unknown:?}");
    let waits = world().with(|world| world.facts.compute = unknown.clone()).decide();
    assert!(waits.act.is_none() && waits.status.message.contains("n7.cloud.example"), "{waits:?}");
}

#[test]
fn requires_cloud_unless_instances_stay() {
    let absent = |world: &mut Fixture| {
        world.begun = false;
        world.setting = Some(Setting::none());
    };
    let waits = world().with(absent).decide();
    assert!(waits.act.is_none() && waits.status.message.contains(NO_CLOUD), "{waits:?}");
    let leave = |world: &mut Fixture| world.spec.instances = Some(InstancePolicy::Leave);
    assert_eq!(world().with(absent).with(leave).decide().act, Some(Act::AddFinalizer));
}

#[test]
fn deleted_cloud_blocks_and_names_the_finalizer() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
    });
    world.step();
    world.setting = Some(Setting::none());
    world.facts.compute = Compute::Unknown(NO_CLOUD.into());
    let there = world.step();
    assert_eq!((there.act, there.status.phase), (None, Some(MaintenancePhase::Disabling)));
    world.deleting = true;
    let back = world.step();
    assert!(back.act.is_none() && back.status.message.contains(MAINTENANCE_FINALIZER), "{back:?}");
    assert!(back.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"));
}

#[test]
fn waits_if_nodes_cannot_be_listed() {
    let waits = world().with(|world| (world.begun, world.facts.unlisted) = (false, true)).decide();
    assert!(waits.act.is_none() && waits.status.message.starts_with("the nodes can't be listed"), "{waits:?}");
}

/// A node that we cordoned, without instances.
fn emptied() -> Fixture {
    world().with(|world| {
        world.disabled(OURS);
        world.facts.apart = std::time::Duration::from_secs(10);
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    })
}

#[test]
fn confirms_empty_node_with_a_second_check() {
    let mut world = emptied();
    world.host().incoming = vec!["g (g)".into()];
    let coming = world.step();
    assert_eq!(coming.status.message, "1 instance is on the way to n1: g (g)");
    assert_eq!((coming.requeue, coming.status.phase), (Some(RequeueDelay::Soon), Some(MaintenancePhase::Emptying)));
    world.host().incoming.clear();
    for seconds in [0, 9] {
        world.now = NOON.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
        let first = world.step();
        assert_eq!((first.requeue, first.status.phase), (Some(RequeueDelay::Later), Some(MaintenancePhase::Emptying)));
    }
    world.server("g", "ACTIVE");
    assert_eq!(world.step().act, Some(Act::Migrate(vec!["g".into()])), "it arrived between the checks");
    world.host().servers.clear();
    assert_eq!(world.step().status.phase, Some(MaintenancePhase::Emptying));
    world.now += SignedDuration::from_secs(10);
    assert_eq!(world.step().status.phase, Some(MaintenancePhase::ReadyToDrain));
}

#[test]
fn rechecks_ready_nodes_and_reverts_on_changes() {
    let mut world = emptied();
    world.step();
    world.now += SignedDuration::from_secs(10);
    let ready = world.step();
    world.host().service.status = "enabled".into();
    world.now += SignedDuration::from_secs(59);
    let unchanged = world.step();
    assert_eq!(
        (unchanged.act, unchanged.requeue_at, &unchanged.status),
        (None, ready.requeue_at, &ready.status),
        "nova was not queried"
    );
    assert!(world.case().next_nova_check().is_some() && !world.case().is_idle());
    world.now += SignedDuration::from_secs(1);
    let known = std::mem::replace(&mut world.facts.compute, Compute::Unknown("nova is away".into()));
    assert_eq!(world.step().status, ready.status, "an unreachable nova reverts nothing");
    world.facts.compute = known;
    assert!(matches!(world.step().act, Some(Act::Disable { .. })));
    assert_eq!(world.status.phase, Some(MaintenancePhase::Disabling));
    world.disabled(OURS);
    world.server("g", "ACTIVE");
    let landed = world.step();
    assert_eq!(landed.act, Some(Act::Migrate(vec!["g".into()])));
    assert!(landed.status.conditions.iter().any(|one| one.type_ == "ReadyToDrain" && one.status == "False"));
}

#[test]
fn stale_migration_records_are_no_progress() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "ACTIVE");
        world.migration(3, "a", "running");
    });
    assert_eq!(world.step().act, Some(Act::Migrate(vec!["a".into()])));
    world.host().servers[0].task = Some("rebooting".into());
    let busy = world.step();
    assert!(busy.status.message.starts_with("instance a (a) is rebooting, and is migrated after that"), "{busy:?}");
    assert_eq!(busy.requeue, Some(RequeueDelay::Later));
    world.server("d", "SHUTOFF");
    let blocked = world.step().status;
    assert!(blocked.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"), "{blocked:?}");
}
