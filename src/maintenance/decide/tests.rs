use serde_json::json;

use super::*;
use osdpl_core::api::{InstancePolicy, MaintenancePhase, MaintenanceWindow};
use osdpl_core::openstack::nova;

mod nova_reports;
mod persistence;
mod return_checks;

const NOON: &str = "2026-11-21T12:00:00Z";

/// The inputs for decisions about a started maintenance with the name `m` for the node `n1`.
struct Fixture {
    spec: NodeMaintenanceSpec,
    status: NodeMaintenanceStatus,
    started: bool,
    deleting: bool,
    retry: bool,
    setting: Option<CloudSettings>,
    observed: ObservedState,
    now: Timestamp,
}

fn fixture() -> Fixture {
    let roles = ["compute".to_owned()].into();
    Fixture {
        spec: NodeMaintenanceSpec { node: "n1".into(), ..NodeMaintenanceSpec::default() },
        status: NodeMaintenanceStatus::default(),
        started: true,
        deleting: false,
        retry: false,
        setting: Some(CloudSettings::default()),
        observed: ObservedState {
            node: Some(ObservedNode { ready: true, roles, ..ObservedNode::default() }),
            ..ObservedState::default()
        },
        now: NOON.parse().unwrap(),
    }
}

/// Returns a node that the maintenance `m` has cordoned.
fn cordoned_node() -> ObservedNode {
    ObservedNode { cordoned: true, cordoned_by: Some("m".into()), ready: true, ..ObservedNode::default() }
}

impl Fixture {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn decide(&self) -> Decision {
        decide(&self.snapshot())
    }

    fn snapshot(&self) -> Snapshot<'_> {
        let Self { spec, status, started, deleting, retry, setting, observed, now } = self;
        Snapshot {
            name: "m",
            spec,
            status,
            generation: Some(1),
            started: *started,
            deleting: *deleting,
            retry: *retry,
            setting: setting.as_ref(),
            observed,
            now: *now,
        }
    }

    fn host(&mut self) -> &mut Host {
        if self.observed.compute == Compute::None {
            let service = json!({"id": "s1", "host": "n1", "status": "enabled", "state": "up"});
            let service = serde_json::from_value(service).unwrap();
            let host =
                Host { service, servers: Vec::new(), incoming: Vec::new(), migrations: Vec::new(), agents: Vec::new() };
            self.observed.compute = Compute::Known(Box::new(host));
        }
        match &mut self.observed.compute {
            Compute::Known(host) => host,
            Compute::None | Compute::Unknown(_) => panic!("the fixture has no compute host"),
        }
    }

    fn disabled(&mut self, reason: &str) {
        self.host().service.status = "disabled".into();
        self.host().service.disabled_reason = Some(reason.into());
    }

    fn server(&mut self, id: &str, status: &str) {
        let server = json!({"id": id, "name": id, "status": status});
        self.host().servers.push(serde_json::from_value(server).unwrap());
    }

    fn migration(&mut self, id: i64, server: &str, status: &str) {
        self.host().migrations.push(nova::Migration {
            id,
            server: server.into(),
            status: status.into(),
            destination: None,
        });
    }

    /// Makes a decision, and stores its status in the fixture as the input of the next decision.
    fn step(&mut self) -> Decision {
        let decision = self.decide();
        self.status = decision.status.clone();
        decision
    }
}

const OURS: &str = "osdpl: maintenance m";

#[test]
fn executes_steps_according_to_observed_state() {
    let mut fixture = fixture().with(|fixture| {
        fixture.started = false;
        fixture.server("a", "ACTIVE");
    });
    assert_eq!(fixture.step().action, Some(Action::AddFinalizer));
    fixture.started = true;
    assert_eq!(fixture.step().action, Some(Action::Disable { id: "s1".into(), reason: OURS.into() }));
    fixture.disabled(OURS);
    assert_eq!(fixture.step().action, Some(Action::Migrate(vec!["a".into()])));
    fixture.host().servers[0].status = "MIGRATING".into();
    let moving = fixture.step();
    assert_eq!((moving.action, moving.requeue), (None, Some(RequeueDelay::Soon)));
    assert_eq!(moving.status.phase, Some(MaintenancePhase::Emptying));
    fixture.host().servers.clear();
    assert_eq!(fixture.step().action, None, "must wait until Nova confirms that the host is empty");
    assert_eq!(fixture.step().action, Some(Action::Cordon));
    fixture.observed.node = Some(cordoned_node());
    let ready = fixture.step();
    assert_eq!((ready.action, ready.requeue, ready.status.phase), (None, None, Some(MaintenancePhase::ReadyToDrain)));
    assert_eq!(ready.requeue_at, Some("2026-11-21T12:01:00Z".parse().unwrap()), "must query Nova again after a minute");
    fixture.deleting = true;
    assert_eq!(fixture.step().action, Some(Action::Uncordon));
    fixture.observed.node = Some(ObservedNode::default());
    assert!(fixture.step().status.message.starts_with("waits until node n1 is Ready; "));
    fixture.observed.node = Some(ObservedNode { ready: true, ..ObservedNode::default() });
    fixture.observed.unready_pods = vec!["openstack/libvirt-x".into()];
    assert!(fixture.step().status.message.starts_with("waits until these pods on n1 are ready: openstack/libvirt-x; "));
    fixture.observed.unready_pods.clear();
    assert_eq!(fixture.step().action, Some(Action::Enable { id: "s1".into() }));
    fixture.host().service.status = "enabled".into();
    fixture.host().service.disabled_reason = None;
    assert_eq!(fixture.step().action, Some(Action::RemoveFinalizer));
}

#[test]
fn mark_contains_the_whole_name() {
    for (reason, ours) in
        [(OURS, true), ("osdpl: maintenance m: a fan", true), ("osdpl: maintenance m2", false), ("m", false)]
    {
        let disabled = fixture().with(|fixture| fixture.disabled(reason)).decide().status;
        let state = disabled.steps[1].state;
        assert_eq!(state, if ours { StepState::Done } else { StepState::Skipped }, "{reason}");
    }
}

#[test]
fn waits_for_window_other_maintenance_and_limit() {
    let message_with = |change: &dyn Fn(&mut Fixture)| {
        let mut fixture = fixture();
        fixture.started = false;
        change(&mut fixture);
        fixture.decide().status.message
    };
    let other = |node: &str, role: &str, started: bool, takes_precedence: bool| OtherMaintenance {
        name: format!("of-{node}"),
        node: node.into(),
        roles: [role.to_owned()].into(),
        started,
        takes_precedence,
    };
    let window = |start: &str| Some(MaintenanceWindow { start: Some(start.into()), end: None });
    assert_eq!(message_with(&|fixture| fixture.spec.window = window("2026-11-21T11:00:00Z")), "ready to begin");
    let early = message_with(&|fixture| fixture.spec.window = window("2026-11-21T13:00:00Z"));
    assert_eq!(early, "waits until spec.window begins at 2026-11-21T13:00:00Z");
    let waiting = "waits for NodeMaintenance of-n2 (n2): 1 node of role compute may be in maintenance at once (spec.nodes.maintenance.limits)";
    assert_eq!(message_with(&|fixture| fixture.observed.others = vec![other("n2", "compute", true, false)]), waiting);
    assert_eq!(
        message_with(&|fixture| fixture.observed.others = vec![other("n2", "compute", false, true)]),
        waiting,
        "must wait for an older maintenance, even if that maintenance has not started"
    );
    assert_eq!(
        message_with(&|fixture| fixture.observed.others = vec![other("n2", "compute", false, false)]),
        "ready to begin"
    );
    assert_eq!(
        message_with(&|fixture| fixture.observed.others = vec![other("n2", "gateway", true, false)]),
        "ready to begin"
    );
    let two = |fixture: &mut Fixture| {
        fixture.observed.others = vec![other("n2", "compute", true, false)];
        fixture.setting =
            Some(CloudSettings { limits: [("compute".to_owned(), 2)].into(), ..CloudSettings::default() });
    };
    assert_eq!(message_with(&two), "ready to begin");
    let same = message_with(&|fixture| fixture.observed.others = vec![other("n1", "gateway", true, false)]);
    assert_eq!(same, "waits for NodeMaintenance of-n1, which uses the same node");
    assert_eq!(message_with(&|fixture| fixture.setting = None), UNREAD);
}

#[test]
fn requires_known_instances_unless_they_stay() {
    let unknown = |fixture: &mut Fixture| fixture.observed.compute = Compute::Unknown("nova is away".into());
    for started in [false, true] {
        let waits = fixture().with(unknown).with(|fixture| fixture.started = started).decide();
        assert!(waits.action.is_none() && waits.status.message.ends_with("nova is away"), "{waits:?}");
    }
    let leave = |fixture: &mut Fixture| fixture.spec.instances = Some(InstancePolicy::Leave);
    assert_eq!(fixture().with(unknown).with(leave).decide().action, Some(Action::Cordon));
}

#[test]
fn counts_failed_migrations_until_retry() {
    let failed = |fixture: &mut Fixture| {
        fixture.disabled(OURS);
        fixture.server("a", "ACTIVE");
        fixture.migration(7, "a", "error");
    };
    let mut fixture = fixture().with(failed);
    assert_eq!(
        fixture.step().action,
        Some(Action::Migrate(vec!["a".into()])),
        "must ignore a migration that failed before the maintenance began"
    );
    fixture.migration(8, "a", "error");
    let blocked = fixture.step();
    assert_eq!((blocked.action, blocked.requeue), (None, Some(RequeueDelay::Later)));
    assert!(blocked.status.message.starts_with("instance a (a): its live migration 8 ended with status error"));
    assert!(blocked.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"));
    fixture.retry = true;
    assert_eq!(fixture.step().action, Some(Action::ClearRetry));
    fixture.retry = false;
    assert_eq!(fixture.step().action, Some(Action::Migrate(vec!["a".into()])));
    fixture.observed.refused_migrations = [("a".to_owned(), "it is locked".to_owned())].into();
    assert!(fixture.step().status.message.contains("nova refuses to migrate the instance: it is locked; fix"));
}

#[test]
fn limits_parallel_migrations() {
    let mut fixture = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.server("a", "MIGRATING");
        fixture.server("b", "ACTIVE");
        fixture.server("c", "ACTIVE");
        fixture.server("d", "SHUTOFF");
    });
    let decision = fixture.step();
    assert_eq!(decision.action, Some(Action::Migrate(vec!["b".into()])));
    let expected = "2 instances are being migrated, 1 more after that; instance d (d): its status is SHUTOFF, in which it can't be live-migrated;";
    assert!(decision.status.message.starts_with(expected), "{}", decision.status.message);
    fixture.spec.parallel_migrations = Some(9);
    assert_eq!(fixture.decide().action, Some(Action::Migrate(vec!["b".into(), "c".into()])));
    fixture.spec.instances = Some(InstancePolicy::Wait);
    let waits = fixture.decide();
    assert_eq!(
        (waits.action, waits.status.message.as_str()),
        (None, "waits until someone has moved or deleted the instances of n1: 4 instances are left: a, b, c, d")
    );
}

#[test]
fn expired_maintenance_returns_unready_nodes() {
    let expired = |fixture: &mut Fixture| {
        fixture.spec.window = Some(MaintenanceWindow { start: None, end: Some(NOON.into()) });
    };
    let mut late = fixture().with(|fixture| {
        fixture.disabled(OURS);
        fixture.server("a", "MIGRATING");
    });
    late.step();
    let mut late = late.with(expired);
    let decision = late.step();
    assert_eq!(
        (decision.action.clone(), decision.status.phase),
        (Some(Action::Enable { id: "s1".into() }), Some(MaintenancePhase::Expired))
    );
    assert_eq!(decision.status.steps[2].message, "cancelled");
    late.host().service.status = "enabled".into();
    assert_eq!(late.step().action, Some(Action::RemoveFinalizer));
    late.started = false;
    let ready = late.step();
    assert!(ready.action.is_none() && ready.status.message.starts_with("spec.window ended before n1"), "{ready:?}");

    let mut ready = fixture().with(|fixture| {
        fixture.observed.node = Some(cordoned_node());
    });
    ready.step();
    assert_eq!(ready.with(expired).decide().status.phase, Some(MaintenancePhase::ReadyToDrain));
}

#[test]
fn keeps_partly_drained_nodes_ready() {
    let mut ready = fixture().with(|fixture| {
        fixture.observed.node = Some(cordoned_node());
    });
    ready.step();
    ready.observed.eviction_obstacles = vec!["a budget".into()];
    assert_eq!(ready.step().status.phase, Some(MaintenancePhase::ReadyToDrain));
    ready.status.conditions.clear();
    ready.status.ready_since = None;
    assert_eq!(ready.step().status.message, "a budget");
}
