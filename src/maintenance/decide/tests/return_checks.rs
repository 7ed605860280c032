//! Tests the checks that a maintenance makes before it returns its node to service.

use super::*;

/// Returns a maintenance that is being deleted, so that it returns its node to service. When it disabled the compute
/// service, the Neutron agents `agents` were alive.
fn returning(agents: &[&str]) -> Fixture {
    let mut fixture = fixture();
    for kind in agents {
        fixture.agent(kind, true);
    }
    assert!(matches!(fixture.step().action, Some(Action::Disable { .. })));
    assert_eq!(fixture.status.agents, agents);
    fixture.disabled(OURS);
    fixture.deleting = true;
    fixture
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
    let mut fixture = returning(&[OVS]);
    fixture.host().service.updated = Some("2026-11-21T11:59:50.000000".into());
    assert!(fixture.step().status.message.starts_with("waits until nova reports nova-compute on n1 as up again; "));
    fixture.now += SignedDuration::from_secs(20);
    assert_eq!(fixture.step().action, None, "must ignore a report of Nova that is older than the step");
    fixture.host().service.updated = Some("2026-11-21T12:00:10.000000".into());
    fixture.host().agents[0].heard = Some("2026-11-21 11:59:59".into());
    assert!(
        fixture.step().status.message.starts_with("waits until neutron reports Open vSwitch agent on n1 as alive; ")
    );
    fixture.host().agents[0].heard = Some("2026-11-21 12:00:11".into());
    assert_eq!(fixture.step().action, Some(Action::Enable { id: "s1".into() }));
    fixture.host().agents[0].heard = Some("of late".into());
    assert_eq!(
        fixture.step().action,
        Some(Action::Enable { id: "s1".into() }),
        "an agent with an invalid timestamp must count as alive"
    );
}

#[test]
fn waits_only_for_agents_that_were_alive() {
    let mut fixture = returning(&[OVS, DHCP]);
    fixture.agent("Metadata agent", false);
    fixture.host().agents.remove(0);
    assert!(
        fixture
            .step()
            .status
            .message
            .starts_with("waits until neutron reports Open vSwitch agent on n1 as alive; if an agent")
    );
    fixture.retry = true;
    assert_eq!(fixture.step().action, Some(Action::ClearRetry));
    assert_eq!(fixture.status.agents, [DHCP]);
    fixture.retry = false;
    assert_eq!(
        fixture.step().action,
        Some(Action::Enable { id: "s1".into() }),
        "must not wait for an agent that was dead before the maintenance"
    );
}

#[test]
fn long_return_is_blocked_until_enabled_by_hand() {
    let mut fixture = returning(&[OVS]);
    fixture.observed.unready_pods = vec!["openstack/broken".into()];
    let blocked = |decision: &Decision| {
        decision.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True")
    };
    assert!(!blocked(&fixture.step()));
    fixture.now += SignedDuration::from_mins(10);
    let long = fixture.step();
    let out = "openstack compute service set --enable n1 nova-compute";
    assert!(blocked(&long) && long.status.message.ends_with(out), "{long:?}");
    fixture.host().service.status = "enabled".into();
    fixture.host().service.disabled_reason = None;
    assert_eq!(fixture.step().action, Some(Action::RemoveFinalizer));
}
