//! When a node is taken for back.

use super::*;

/// Disabled by us with these agents alive, drained, uncordoned, and its node ready again.
fn returning(agents: &[&str]) -> World {
    let mut world = world();
    for kind in agents {
        world.agent(kind, true);
    }
    assert!(matches!(world.told().act, Some(Act::Disable { .. })));
    assert_eq!(world.status.agents, agents);
    world.disabled(OURS);
    world.deleting = true;
    world
}

impl World {
    fn agent(&mut self, kind: &str, alive: bool) {
        let agent = json!({"id": kind, "agent_type": kind, "host": "n1", "alive": alive, "admin_state_up": true});
        self.host().agents.push(serde_json::from_value(agent).unwrap());
    }
}

const OVS: &str = "Open vSwitch agent";
const DHCP: &str = "DHCP agent";

#[test]
fn what_was_heard_of_before_the_node_was_back_does_not_count() {
    let mut world = returning(&[OVS]);
    world.host().service.updated = Some("2026-11-21T11:59:50.000000".into());
    assert!(world.told().status.message.starts_with("waits until nova hears of nova-compute on n1 again; "));
    world.now += SignedDuration::from_secs(20);
    assert_eq!(world.told().act, None, "up, but by a word of before");
    world.host().service.updated = Some("2026-11-21T12:00:10.000000".into());
    world.host().agents[0].heard = Some("2026-11-21 11:59:59".into());
    assert!(world.told().status.message.starts_with("waits until neutron hears of Open vSwitch agent on n1; "));
    world.host().agents[0].heard = Some("2026-11-21 12:00:11".into());
    assert_eq!(world.told().act, Some(Act::Enable { id: "s1".into() }));
    world.host().agents[0].heard = Some("of late".into());
    assert_eq!(world.told().act, Some(Act::Enable { id: "s1".into() }), "what is not understood does not count");
}

#[test]
fn as_many_agents_come_back_as_were_alive_and_no_more() {
    let mut world = returning(&[OVS, DHCP]);
    world.agent("Metadata agent", false);
    world.host().agents.remove(0);
    assert!(world.told().status.message.starts_with("waits until neutron hears of Open vSwitch agent on n1; what is"));
    world.retry = true;
    assert_eq!(world.told().act, Some(Act::Forgive));
    assert_eq!(world.status.agents, [DHCP]);
    world.retry = false;
    assert_eq!(world.told().act, Some(Act::Enable { id: "s1".into() }), "one that was dead before is not awaited");
}

#[test]
fn a_way_back_that_takes_long_is_blocked_and_ends_when_someone_enables_it_by_hand() {
    let mut world = returning(&[OVS]);
    world.facts.unready = vec!["openstack/broken".into()];
    let blocked = |decision: &Decision| {
        decision.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True")
    };
    assert!(!blocked(&world.told()));
    world.now += SignedDuration::from_mins(10);
    let long = world.told();
    let out = "openstack compute service set --enable n1 nova-compute";
    assert!(blocked(&long) && long.status.message.ends_with(out), "{long:?}");
    world.host().service.status = "enabled".into();
    world.host().service.disabled_reason = None;
    assert_eq!(world.told().act, Some(Act::Finish));
}
