//! State that must survive restarts and outages.

use super::*;

#[test]
fn deleted_node_blocks_drain_but_not_return() {
    let mut deleted = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
    });
    deleted.step();
    deleted.facts.node = None;
    let there = deleted.step();
    assert!(there.act.is_none() && there.status.message.starts_with("node n1 does not exist; delete"), "{there:?}");
    assert_eq!(there.status.roles, ["compute"], "it still counts for the limit");
    deleted.deleting = true;
    let waits = deleted.step().status.message;
    assert_eq!(waits, "waits until nova reports nova-compute on n1 as down: its node was deleted");
    deleted.host().service.state = "down".into();
    assert_eq!(deleted.step().act, Some(Act::Enable { id: "s1".into() }), "it may join again under the same name");
    deleted.host().service.status = "enabled".into();
    assert_eq!(deleted.step().act, Some(Act::RemoveFinalizer));
}

#[test]
fn enables_compute_after_nova_outage() {
    for expires in [false, true] {
        let mut world = world();
        world.host();
        assert_eq!(world.step().act, Some(Act::Disable { id: "s1".into(), reason: OURS.into() }));
        world.disabled(OURS);
        world.server("a", "MIGRATING");
        world.step();
        let known = std::mem::replace(&mut world.facts.compute, Compute::Unknown("nova is away".into()));
        let away = world.step();
        assert_eq!((away.act, away.status.steps[1].state), (None, StepState::Waiting));
        world.deleting = !expires;
        world.spec.window = expires.then(|| MaintenanceWindow { start: None, end: Some(NOON.into()) });
        assert!(world.case().needs_nova());
        let waits = world.step();
        assert_eq!((waits.act, waits.status.message.as_str()), (None, "nova is away"));
        world.facts.compute = known;
        assert_eq!(world.step().act, Some(Act::Enable { id: "s1".into() }));
    }
}

#[test]
fn mark_in_nova_counts_without_status() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.deleting = true;
    });
    assert_eq!(world.step().act, Some(Act::Enable { id: "s1".into() }));
}

#[test]
fn expiry_does_not_return_nodes_that_were_ready() {
    let mut ready = world().with(|world| {
        world.disabled(OURS);
        world.spec.window = Some(MaintenanceWindow { start: None, end: Some("2026-11-21T13:00:00Z".into()) });
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    });
    ready.step();
    assert_eq!(ready.step().status.phase, Some(MaintenancePhase::ReadyToDrain));
    ready.now = "2026-11-21T14:00:00Z".parse().unwrap();
    ready.facts.node = Some(NodeSeen { ready: true, ..NodeSeen::default() });
    let recheck = ready.step();
    assert_eq!((recheck.act, recheck.status.phase), (Some(Act::Cordon), Some(MaintenancePhase::Cordoning)));
    assert_eq!(ready.step().act, Some(Act::Cordon), "the next pass does not return the node either");
}
