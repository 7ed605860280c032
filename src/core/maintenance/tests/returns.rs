//! The checks on the way back.

use super::*;

/// A maintenance on its way back: disabled by us with these agents alive, and its node is ready.
fn returning(agents: &[&str]) -> Fixture {
    let mut world = world();
    for kind in agents {
        world.agent(kind, true);
    }
    assert!(matches!(world.step().act, Some(Act::Disable { .. })));
    assert_eq!(world.status.agents, agents);
    world.disabled(OURS);
    world.deleting = true;
    world
}

impl Fixture {
    fn agent(&mut self, kind: &str, alive: bool) {
        let agent = json!({"id": kind, "agent_type": kind, "host": "n1", "alive": alive, "admin_state_up": true});
        self.host().agents.push(serde_json::from_value(agent).unwrap());
    }
}

const OVS: &str = "Open vSwitch agent";
const DHCP: &str = "DHCP agent";

#[test]
fn ignores_reports_from_before_the_return() {
    let mut world = returning(&[OVS]);
    world.host().service.updated = Some("2026-11-21T11:59:50.000000".into());
    assert!(world.step().status.message.starts_with("waits until nova reports nova-compute on n1 as up again; "));
    world.now += SignedDuration::from_secs(20);
    assert_eq!(world.step().act, None, "up, but the report is old");
    world.host().service.updated = Some("2026-11-21T12:00:10.000000".into());
    world.host().agents[0].heard = Some("2026-11-21 11:59:59".into());
    assert!(world.step().status.message.starts_with("waits until neutron reports Open vSwitch agent on n1 as alive; "));
    world.host().agents[0].heard = Some("2026-11-21 12:00:11".into());
    assert_eq!(world.step().act, Some(Act::Enable { id: "s1".into() }));
    world.host().agents[0].heard = Some("of late".into());
    assert_eq!(world.step().act, Some(Act::Enable { id: "s1".into() }), "invalid timestamps are ignored");
}

#[test]
fn waits_only_for_agents_that_were_alive() {
    let mut world = returning(&[OVS, DHCP]);
    world.agent("Metadata agent", false);
    world.host().agents.remove(0);
    assert!(
        world
            .step()
            .status
            .message
            .starts_with("waits until neutron reports Open vSwitch agent on n1 as alive; if it is")
    );
    world.retry = true;
    assert_eq!(world.step().act, Some(Act::ClearRetry));
    assert_eq!(world.status.agents, [DHCP]);
    world.retry = false;
    assert_eq!(world.step().act, Some(Act::Enable { id: "s1".into() }), "an agent that was dead before is ignored");
}

#[test]
fn long_return_is_blocked_until_enabled_by_hand() {
    let mut world = returning(&[OVS]);
    world.facts.unready = vec!["openstack/broken".into()];
    let blocked = |decision: &Decision| {
        decision.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True")
    };
    assert!(!blocked(&world.step()));
    world.now += SignedDuration::from_mins(10);
    let long = world.step();
    let out = "openstack compute service set --enable n1 nova-compute";
    assert!(blocked(&long) && long.status.message.ends_with(out), "{long:?}");
    world.host().service.status = "enabled".into();
    world.host().service.disabled_reason = None;
    assert_eq!(world.step().act, Some(Act::RemoveFinalizer));
}
