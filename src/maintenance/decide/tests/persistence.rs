//! Tests that a maintenance continues correctly after restarts of the operator and outages of Nova.

use super::*;

#[test]
fn deleted_node_blocks_drain_but_not_return() {
    let mut deleted = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.server("a", "MIGRATING");
    });
    deleted.step();
    deleted.observed.node = None;
    let there = deleted.step();
    assert!(there.action.is_none() && there.status.message.starts_with("node n1 does not exist; delete"), "{there:?}");
    assert_eq!(there.status.roles, ["compute"], "a deleted node must count for the limit of its role");
    deleted.deleting = true;
    let waits = deleted.step().status.message;
    assert_eq!(waits, "waits until nova reports nova-compute on n1 as down, because the node was deleted");
    deleted.host().service.state = "down".into();
    assert_eq!(
        deleted.step().action,
        Some(Action::Enable { id: "s1".into() }),
        "must enable the compute service of a deleted node, because the node may join again"
    );
    deleted.host().service.status = "enabled".into();
    assert_eq!(deleted.step().action, Some(Action::RemoveFinalizer));
}

#[test]
fn enables_compute_after_nova_outage() {
    for expires in [false, true] {
        let mut fixture = fixture();
        fixture.host();
        assert_eq!(fixture.step().action, Some(Action::Disable { id: "s1".into(), reason: OURS.into() }));
        fixture.disabled(OURS);
        fixture.server("a", "MIGRATING");
        fixture.step();
        let known = std::mem::replace(&mut fixture.observed.compute, Compute::Unknown("nova is away".into()));
        let away = fixture.step();
        assert_eq!((away.action, away.status.steps[1].state), (None, StepState::Waiting));
        fixture.deleting = !expires;
        fixture.spec.window = expires.then(|| MaintenanceWindow { start: None, end: Some(NOON.into()) });
        assert!(fixture.snapshot().needs_nova());
        let waits = fixture.step();
        assert_eq!((waits.action, waits.status.message.as_str()), (None, "nova is away"));
        fixture.observed.compute = known;
        assert_eq!(fixture.step().action, Some(Action::Enable { id: "s1".into() }));
    }
}

#[test]
fn mark_in_nova_counts_without_status() {
    let mut fixture = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.deleting = true;
    });
    assert_eq!(fixture.step().action, Some(Action::Enable { id: "s1".into() }));
}

#[test]
fn expiry_does_not_return_nodes_that_were_ready() {
    let mut ready = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.spec.window = Some(MaintenanceWindow { start: None, end: Some("2026-11-21T13:00:00Z".into()) });
        fixture.observed.node = Some(cordoned_node());
    });
    ready.step();
    assert_eq!(ready.step().status.phase, Some(MaintenancePhase::ReadyToDrain));
    ready.now = "2026-11-21T14:00:00Z".parse().unwrap();
    ready.observed.node = Some(ObservedNode { ready: true, ..ObservedNode::default() });
    let recheck = ready.step();
    assert_eq!((recheck.action, recheck.status.phase), (Some(Action::Cordon), Some(MaintenancePhase::Cordoning)));
    assert_eq!(ready.step().action, Some(Action::Cordon), "no later pass may return a node that was ready to drain");
}
