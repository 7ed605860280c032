use serde_json::json;

use super::*;
use crate::api::{InstancePolicy, MaintenancePhase, MaintenanceWindow};
use crate::openstack::nova;

mod looks;
mod memory;
mod returns;

const NOON: &str = "2026-11-21T12:00:00Z";

/// A maintenance of node `n1` that has started.
struct Fixture {
    spec: NodeMaintenanceSpec,
    status: NodeMaintenanceStatus,
    begun: bool,
    deleting: bool,
    retry: bool,
    setting: Option<Setting>,
    facts: Facts,
    now: Timestamp,
}

fn world() -> Fixture {
    let roles = ["compute".to_owned()].into();
    Fixture {
        spec: NodeMaintenanceSpec { node: "n1".into(), ..NodeMaintenanceSpec::default() },
        status: NodeMaintenanceStatus::default(),
        begun: true,
        deleting: false,
        retry: false,
        setting: Some(Setting::default()),
        facts: Facts { node: Some(NodeSeen { ready: true, roles, ..NodeSeen::default() }), ..Facts::default() },
        now: NOON.parse().unwrap(),
    }
}

impl Fixture {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn decide(&self) -> Decision {
        decide(&self.case())
    }

    fn case(&self) -> Case<'_> {
        let Self { spec, status, begun, deleting, retry, setting, facts, now } = self;
        Case {
            name: "m",
            spec,
            status,
            generation: Some(1),
            begun: *begun,
            deleting: *deleting,
            retry: *retry,
            setting: setting.as_ref(),
            facts,
            now: *now,
        }
    }

    fn host(&mut self) -> &mut Host {
        if self.facts.compute == Compute::None {
            let service = json!({"id": "s1", "host": "n1", "status": "enabled", "state": "up"});
            let service = serde_json::from_value(service).unwrap();
            let host =
                Host { service, servers: Vec::new(), incoming: Vec::new(), migrations: Vec::new(), agents: Vec::new() };
            self.facts.compute = Compute::Known(Box::new(host));
        }
        match &mut self.facts.compute {
            Compute::Known(host) => host,
            Compute::None | Compute::Unknown(_) => panic!("it is a compute"),
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

    /// Decides and stores the status.
    fn step(&mut self) -> Decision {
        let decision = self.decide();
        self.status = decision.status.clone();
        decision
    }
}

const OURS: &str = "osdpl: maintenance m";

#[test]
fn executes_steps_according_to_observed_state() {
    let mut world = world().with(|world| {
        world.begun = false;
        world.server("a", "ACTIVE");
    });
    assert_eq!(world.step().act, Some(Act::AddFinalizer));
    world.begun = true;
    assert_eq!(world.step().act, Some(Act::Disable { id: "s1".into(), reason: OURS.into() }));
    world.disabled(OURS);
    assert_eq!(world.step().act, Some(Act::Migrate(vec!["a".into()])));
    world.host().servers[0].status = "MIGRATING".into();
    let moving = world.step();
    assert_eq!((moving.act, moving.requeue), (None, Some(RequeueDelay::Soon)));
    assert_eq!(moving.status.phase, Some(MaintenancePhase::Emptying));
    world.host().servers.clear();
    assert_eq!(world.step().act, None, "one check is not enough");
    assert_eq!(world.step().act, Some(Act::Cordon));
    world.facts.node = Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    let ready = world.step();
    assert_eq!((ready.act, ready.requeue, ready.status.phase), (None, None, Some(MaintenancePhase::ReadyToDrain)));
    assert_eq!(ready.requeue_at, Some("2026-11-21T12:01:00Z".parse().unwrap()), "nova is queried again");
    world.deleting = true;
    assert_eq!(world.step().act, Some(Act::Uncordon));
    world.facts.node = Some(NodeSeen::default());
    assert!(world.step().status.message.starts_with("waits until node n1 is Ready; "));
    world.facts.node = Some(NodeSeen { ready: true, ..NodeSeen::default() });
    world.facts.unready = vec!["openstack/libvirt-x".into()];
    assert!(world.step().status.message.starts_with("waits until these pods on n1 are ready: openstack/libvirt-x; "));
    world.facts.unready.clear();
    assert_eq!(world.step().act, Some(Act::Enable { id: "s1".into() }));
    world.host().service.status = "enabled".into();
    world.host().service.disabled_reason = None;
    assert_eq!(world.step().act, Some(Act::RemoveFinalizer));
}

#[test]
fn mark_contains_the_whole_name() {
    for (reason, ours) in
        [(OURS, true), ("osdpl: maintenance m: a fan", true), ("osdpl: maintenance m2", false), ("m", false)]
    {
        let disabled = world().with(|world| world.disabled(reason)).decide().status;
        let state = disabled.steps[1].state;
        assert_eq!(state, if ours { StepState::Done } else { StepState::Skipped }, "{reason}");
    }
}

#[test]
fn waits_for_window_other_maintenance_and_limit() {
    let message_with = |change: &dyn Fn(&mut Fixture)| {
        let mut world = world();
        world.begun = false;
        change(&mut world);
        world.decide().status.message
    };
    let rival = |node: &str, role: &str, begun: bool, first: bool| Rival {
        name: format!("of-{node}"),
        node: node.into(),
        roles: [role.to_owned()].into(),
        begun,
        first,
    };
    let window = |start: &str| Some(MaintenanceWindow { start: Some(start.into()), end: None });
    assert_eq!(message_with(&|world| world.spec.window = window("2026-11-21T11:00:00Z")), "ready to begin");
    let early = message_with(&|world| world.spec.window = window("2026-11-21T13:00:00Z"));
    assert_eq!(early, "its window begins at 2026-11-21T13:00:00Z");
    let held = "waits for NodeMaintenance of-n2 (n2): 1 node of role compute may be in maintenance at once (spec.nodes.maintenance.limits)";
    assert_eq!(message_with(&|world| world.facts.rivals = vec![rival("n2", "compute", true, false)]), held);
    assert_eq!(
        message_with(&|world| world.facts.rivals = vec![rival("n2", "compute", false, true)]),
        held,
        "it takes precedence"
    );
    assert_eq!(
        message_with(&|world| world.facts.rivals = vec![rival("n2", "compute", false, false)]),
        "ready to begin"
    );
    assert_eq!(message_with(&|world| world.facts.rivals = vec![rival("n2", "gateway", true, false)]), "ready to begin");
    let two = |world: &mut Fixture| {
        world.facts.rivals = vec![rival("n2", "compute", true, false)];
        world.setting = Some(Setting { limits: [("compute".to_owned(), 2)].into(), ..Setting::default() });
    };
    assert_eq!(message_with(&two), "ready to begin");
    let same = message_with(&|world| world.facts.rivals = vec![rival("n1", "gateway", true, false)]);
    assert_eq!(same, "waits for NodeMaintenance of-n1, which uses the same node");
    assert_eq!(message_with(&|world| world.setting = None), UNREAD);
}

#[test]
fn requires_known_instances_unless_they_stay() {
    let unknown = |world: &mut Fixture| world.facts.compute = Compute::Unknown("nova is away".into());
    for begun in [false, true] {
        let waits = world().with(unknown).with(|world| world.begun = begun).decide();
        assert!(waits.act.is_none() && waits.status.message.ends_with("nova is away"), "{waits:?}");
    }
    let leave = |world: &mut Fixture| world.spec.instances = Some(InstancePolicy::Leave);
    assert_eq!(world().with(unknown).with(leave).decide().act, Some(Act::Cordon));
}

#[test]
fn counts_failed_migrations_until_retry() {
    let failed = |world: &mut Fixture| {
        world.disabled(OURS);
        world.server("a", "ACTIVE");
        world.migration(7, "a", "error");
    };
    let mut world = world().with(failed);
    assert_eq!(world.step().act, Some(Act::Migrate(vec!["a".into()])), "a past migration");
    world.migration(8, "a", "error");
    let blocked = world.step();
    assert_eq!((blocked.act, blocked.requeue), (None, Some(RequeueDelay::Later)));
    assert!(blocked.status.message.starts_with("instance a (a) its live migration 8 ended as error"));
    assert!(blocked.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"));
    world.retry = true;
    assert_eq!(world.step().act, Some(Act::ClearRetry));
    world.retry = false;
    assert_eq!(world.step().act, Some(Act::Migrate(vec!["a".into()])));
    world.facts.refused = [("a".to_owned(), "it is locked".to_owned())].into();
    assert!(world.step().status.message.contains("nova refuses to migrate it: it is locked; fix that"));
}

#[test]
fn limits_parallel_migrations() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
        world.server("b", "ACTIVE");
        world.server("c", "ACTIVE");
        world.server("d", "SHUTOFF");
    });
    let decision = world.step();
    assert_eq!(decision.act, Some(Act::Migrate(vec!["b".into()])));
    let expected =
        "2 instances are being migrated, 1 more after that; instance d (d) is SHUTOFF, which can't be live-migrated;";
    assert!(decision.status.message.starts_with(expected), "{}", decision.status.message);
    world.spec.parallel_migrations = Some(9);
    assert_eq!(world.decide().act, Some(Act::Migrate(vec!["b".into(), "c".into()])));
    world.spec.instances = Some(InstancePolicy::Wait);
    let waits = world.decide();
    assert_eq!(
        (waits.act, waits.status.message.as_str()),
        (None, "waits until someone has emptied n1: 4 instances are left: a, b, c, d")
    );
}

#[test]
fn expired_maintenance_returns_unready_nodes() {
    let expired = |world: &mut Fixture| {
        world.spec.window = Some(MaintenanceWindow { start: None, end: Some(NOON.into()) });
    };
    let mut late = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
    });
    late.step();
    let mut late = late.with(expired);
    let decision = late.step();
    assert_eq!(
        (decision.act.clone(), decision.status.phase),
        (Some(Act::Enable { id: "s1".into() }), Some(MaintenancePhase::Expired))
    );
    assert_eq!(decision.status.steps[2].message, "cancelled");
    late.host().service.status = "enabled".into();
    assert_eq!(late.step().act, Some(Act::RemoveFinalizer));
    late.begun = false;
    let ready = late.step();
    assert!(ready.act.is_none() && ready.status.message.starts_with("its window ended before n1"), "{ready:?}");

    let mut ready = world().with(|world| {
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    });
    ready.step();
    assert_eq!(ready.with(expired).decide().status.phase, Some(MaintenancePhase::ReadyToDrain));
}

#[test]
fn keeps_partly_drained_nodes_ready() {
    let mut ready = world().with(|world| {
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    });
    ready.step();
    ready.facts.refusals = vec!["a budget".into()];
    assert_eq!(ready.step().status.phase, Some(MaintenancePhase::ReadyToDrain));
    ready.status.conditions.clear();
    ready.status.ready_since = None;
    assert_eq!(ready.step().status.message, "a budget");
}
