//! Tests decisions that use a report of Nova, and decisions while Nova is unreachable or not queried.

use super::*;
use osdpl_core::api::MAINTENANCE_FINALIZER;
use osdpl_core::maintenance::NO_CLOUD;

fn services(hosts: &[&str]) -> Vec<nova::Service> {
    let service = |host: &&str| json!({"id": host, "host": host, "status": "enabled", "state": "up"});
    hosts.iter().map(|host| serde_json::from_value(service(host)).unwrap()).collect()
}

#[test]
fn unlisted_host_is_unknown_if_compute_runs_there() {
    let listed = services(&["n7.cloud.example", "n8.cloud.example"]);
    assert_eq!(nova::find_service(&listed, "n7.k8s.local"), None);
    assert_eq!(Compute::unlisted("n7.k8s.local", &listed, false), Compute::None);
    let unknown = Compute::unlisted("n7.k8s.local", &listed, true);
    let named = |why: &String| why.contains("the hosts in Nova are: n7.cloud.example, n8.cloud.example (");
    assert!(matches!(&unknown, Compute::Unknown(why) if named(why)), "{unknown:?}");
    let waits = fixture().with(|fixture| fixture.observed.compute = unknown.clone()).decide();
    assert!(waits.action.is_none() && waits.status.message.contains("n7.cloud.example"), "{waits:?}");
}

#[test]
fn requires_cloud_unless_instances_stay() {
    let absent = |fixture: &mut Fixture| {
        fixture.started = false;
        fixture.setting = Some(CloudSettings::none());
    };
    let waits = fixture().with(absent).decide();
    assert!(waits.action.is_none() && waits.status.message.contains(NO_CLOUD), "{waits:?}");
    let leave = |fixture: &mut Fixture| fixture.spec.instances = Some(InstancePolicy::Leave);
    assert_eq!(fixture().with(absent).with(leave).decide().action, Some(Action::AddFinalizer));
}

#[test]
fn deleted_cloud_blocks_and_names_the_finalizer() {
    let mut fixture = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.server("a", "MIGRATING");
    });
    fixture.step();
    fixture.setting = Some(CloudSettings::none());
    fixture.observed.compute = Compute::Unknown(NO_CLOUD.into());
    let there = fixture.step();
    assert_eq!((there.action, there.status.phase), (None, Some(MaintenancePhase::Disabling)));
    fixture.deleting = true;
    let back = fixture.step();
    assert!(back.action.is_none() && back.status.message.contains(MAINTENANCE_FINALIZER), "{back:?}");
    assert!(back.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"));
}

#[test]
fn waits_if_nodes_cannot_be_listed() {
    let waits = fixture().with(|fixture| (fixture.started, fixture.observed.nodes_unknown) = (false, true)).decide();
    assert!(waits.action.is_none() && waits.status.message.starts_with("the nodes can't be listed"), "{waits:?}");
}

/// Returns a maintenance whose node is cordoned and has no instances, and whose compute service is disabled.
fn emptied() -> Fixture {
    fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.observed.confirmation_delay = std::time::Duration::from_secs(10);
        fixture.observed.node = Some(cordoned_node());
    })
}

#[test]
fn confirms_empty_node_with_a_second_check() {
    let mut fixture = emptied();
    fixture.host().incoming = vec!["g (g)".into()];
    let coming = fixture.step();
    assert_eq!(coming.status.message, "1 instance is on the way to n1: g (g)");
    assert_eq!((coming.requeue, coming.status.phase), (Some(RequeueDelay::Soon), Some(MaintenancePhase::Emptying)));
    fixture.host().incoming.clear();
    for seconds in [0, 9] {
        fixture.now = NOON.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
        let first = fixture.step();
        assert_eq!((first.requeue, first.status.phase), (Some(RequeueDelay::Later), Some(MaintenancePhase::Emptying)));
    }
    fixture.server("g", "ACTIVE");
    assert_eq!(
        fixture.step().action,
        Some(Action::Migrate(vec!["g".into()])),
        "must migrate an instance that arrived between the two queries"
    );
    fixture.host().servers.clear();
    assert_eq!(fixture.step().status.phase, Some(MaintenancePhase::Emptying));
    fixture.now += SignedDuration::from_secs(10);
    assert_eq!(fixture.step().status.phase, Some(MaintenancePhase::ReadyToDrain));
}

#[test]
fn rechecks_ready_nodes_and_reverts_on_changes() {
    let mut fixture = emptied();
    fixture.step();
    fixture.now += SignedDuration::from_secs(10);
    let ready = fixture.step();
    fixture.host().service.status = "enabled".into();
    fixture.now += SignedDuration::from_secs(59);
    let unchanged = fixture.step();
    assert_eq!(
        (unchanged.action, unchanged.requeue_at, &unchanged.status),
        (None, ready.requeue_at, &ready.status),
        "must make no new decision in the minute after the last query of Nova"
    );
    assert!(fixture.snapshot().next_nova_check().is_some() && !fixture.snapshot().is_idle());
    fixture.now += SignedDuration::from_secs(1);
    let known = std::mem::replace(&mut fixture.observed.compute, Compute::Unknown("nova is away".into()));
    assert_eq!(fixture.step().status, ready.status, "must stay ready to drain while Nova is unreachable");
    fixture.observed.compute = known;
    assert!(matches!(fixture.step().action, Some(Action::Disable { .. })));
    assert_eq!(fixture.status.phase, Some(MaintenancePhase::Disabling));
    fixture.disabled(OURS);
    fixture.server("g", "ACTIVE");
    let landed = fixture.step();
    assert_eq!(landed.action, Some(Action::Migrate(vec!["g".into()])));
    assert!(landed.status.conditions.iter().any(|one| one.type_ == "ReadyToDrain" && one.status == "False"));
}

#[test]
fn stale_migration_records_are_no_progress() {
    let mut fixture = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.server("a", "ACTIVE");
        fixture.migration(3, "a", "running");
    });
    assert_eq!(fixture.step().action, Some(Action::Migrate(vec!["a".into()])));
    fixture.host().servers[0].task = Some("rebooting".into());
    let busy = fixture.step();
    assert!(busy.status.message.starts_with("instance a (a) is rebooting, so osdpl waits until"), "{busy:?}");
    assert_eq!(busy.requeue, Some(RequeueDelay::Later));
    fixture.server("d", "SHUTOFF");
    let blocked = fixture.step().status;
    assert!(blocked.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"), "{blocked:?}");
}
