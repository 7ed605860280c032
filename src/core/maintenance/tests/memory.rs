//! What is never forgotten of a maintenance.

use super::*;

#[test]
fn a_node_that_is_gone_blocks_the_way_there_and_not_the_way_back() {
    let mut gone = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
    });
    gone.told();
    gone.facts.node = None;
    let there = gone.told();
    assert!(there.act.is_none() && there.status.message.starts_with("node n1 is gone; delete"), "{there:?}");
    assert_eq!(there.status.roles, ["compute"], "it counts for the limit still");
    gone.deleting = true;
    let waits = gone.told().status.message;
    assert_eq!(waits, "waits until nova hears no more of nova-compute on n1, whose node is gone");
    gone.host().service.state = "down".into();
    assert_eq!(gone.told().act, Some(Act::Enable { id: "s1".into() }), "it may join again under its name");
    gone.host().service.status = "enabled".into();
    assert_eq!(gone.told().act, Some(Act::Finish));
}

#[test]
fn a_compute_that_was_disabled_is_enabled_though_nova_was_away_when_it_was_turned_back() {
    for expires in [false, true] {
        let mut world = world();
        world.host();
        assert_eq!(world.told().act, Some(Act::Disable { id: "s1".into(), reason: OURS.into() }));
        world.disabled(OURS);
        world.server("a", "MIGRATING");
        world.told();
        let known = std::mem::replace(&mut world.facts.compute, Compute::Unknown("nova is away".into()));
        let away = world.told();
        assert_eq!((away.act, away.status.steps[1].state), (None, StepState::Waiting));
        world.deleting = !expires;
        world.spec.window = expires.then(|| MaintenanceWindow { start: None, end: Some(NOON.into()) });
        assert!(world.case().asks_nova());
        let waits = world.told();
        assert_eq!((waits.act, waits.status.message.as_str()), (None, "nova is away"));
        world.facts.compute = known;
        assert_eq!(world.told().act, Some(Act::Enable { id: "s1".into() }));
    }
}

#[test]
fn a_mark_in_nova_counts_where_the_status_was_lost() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.deleting = true;
    });
    assert_eq!(world.told().act, Some(Act::Enable { id: "s1".into() }));
}

#[test]
fn a_node_that_could_be_drained_once_is_not_given_back_by_the_end_of_its_window() {
    let mut ready = world().with(|world| {
        world.disabled(OURS);
        world.spec.window = Some(MaintenanceWindow { start: None, end: Some("2026-11-21T13:00:00Z".into()) });
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    });
    ready.told();
    assert_eq!(ready.told().status.phase, Some(MaintenancePhase::ReadyToDrain));
    ready.now = "2026-11-21T14:00:00Z".parse().unwrap();
    ready.facts.node = Some(NodeSeen { ready: true, ..NodeSeen::default() });
    let again = ready.told();
    assert_eq!((again.act, again.status.phase), (Some(Act::Cordon), Some(MaintenancePhase::Cordoning)));
    assert_eq!(ready.told().act, Some(Act::Cordon), "and the pass after that does not give it back");
}
