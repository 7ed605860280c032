use serde_json::json;

use super::*;
use crate::api::{InstancePolicy, MaintenancePhase, MaintenanceWindow};
use crate::openstack::nova;

mod looks;
mod memory;
mod returns;

const NOON: &str = "2026-11-21T12:00:00Z";

/// A maintenance of node `n1` that has begun, unless a test says otherwise.
struct World {
    spec: NodeMaintenanceSpec,
    status: NodeMaintenanceStatus,
    begun: bool,
    deleting: bool,
    retry: bool,
    setting: Option<Setting>,
    facts: Facts,
    now: Timestamp,
}

fn world() -> World {
    let roles = ["compute".to_owned()].into();
    World {
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

impl World {
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

    /// A decision is carried out as far as it can be here: what is told is kept.
    fn told(&mut self) -> Decision {
        let decision = self.decide();
        self.status = decision.status.clone();
        decision
    }
}

const OURS: &str = "osdpl: maintenance m";

#[test]
fn steps_follow_from_what_is() {
    let mut world = world().with(|world| {
        world.begun = false;
        world.server("a", "ACTIVE");
    });
    assert_eq!(world.told().act, Some(Act::Begin));
    world.begun = true;
    assert_eq!(world.told().act, Some(Act::Disable { id: "s1".into(), reason: OURS.into() }));
    world.disabled(OURS);
    assert_eq!(world.told().act, Some(Act::Migrate(vec!["a".into()])));
    world.host().servers[0].status = "MIGRATING".into();
    let moving = world.told();
    assert_eq!((moving.act, moving.again), (None, Some(Again::Soon)));
    assert_eq!(moving.status.phase, Some(MaintenancePhase::Emptying));
    world.host().servers.clear();
    assert_eq!(world.told().act, None, "one look is not enough");
    assert_eq!(world.told().act, Some(Act::Cordon));
    world.facts.node = Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    let rest = world.told();
    assert_eq!((rest.act, rest.again, rest.status.phase), (None, None, Some(MaintenancePhase::ReadyToDrain)));
    assert_eq!(rest.wake, Some("2026-11-21T12:01:00Z".parse().unwrap()), "nova is asked again");
    world.deleting = true;
    assert_eq!(world.told().act, Some(Act::Uncordon));
    world.facts.node = Some(NodeSeen::default());
    assert!(world.told().status.message.starts_with("waits until node n1 is Ready; "));
    world.facts.node = Some(NodeSeen { ready: true, ..NodeSeen::default() });
    world.facts.unready = vec!["openstack/libvirt-x".into()];
    assert!(world.told().status.message.starts_with("waits until these pods on n1 are ready: openstack/libvirt-x; "));
    world.facts.unready.clear();
    assert_eq!(world.told().act, Some(Act::Enable { id: "s1".into() }));
    world.host().service.status = "enabled".into();
    world.host().service.disabled_reason = None;
    assert_eq!(world.told().act, Some(Act::Finish));
}

#[test]
fn a_reason_is_ours_by_the_whole_name() {
    for (reason, ours) in
        [(OURS, true), ("osdpl: maintenance m: a fan", true), ("osdpl: maintenance m2", false), ("m", false)]
    {
        let disabled = world().with(|world| world.disabled(reason)).decide().status;
        let state = disabled.steps[1].state;
        assert_eq!(state, if ours { StepState::Done } else { StepState::Skipped }, "{reason}");
    }
}

#[test]
fn a_time_before_its_window_a_rival_and_a_limit_keep_it_waiting() {
    let said = |change: &dyn Fn(&mut World)| {
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
    assert_eq!(said(&|world| world.spec.window = window("2026-11-21T11:00:00Z")), "its turn has come");
    let early = said(&|world| world.spec.window = window("2026-11-21T13:00:00Z"));
    assert_eq!(early, "its window begins at 2026-11-21T13:00:00Z");
    let held = "waits for NodeMaintenance of-n2 (n2): 1 node of role compute may be in maintenance at once (spec.nodes.maintenance.limits)";
    assert_eq!(said(&|world| world.facts.rivals = vec![rival("n2", "compute", true, false)]), held);
    assert_eq!(said(&|world| world.facts.rivals = vec![rival("n2", "compute", false, true)]), held, "it came first");
    assert_eq!(said(&|world| world.facts.rivals = vec![rival("n2", "compute", false, false)]), "its turn has come");
    assert_eq!(said(&|world| world.facts.rivals = vec![rival("n2", "gateway", true, false)]), "its turn has come");
    let two = |world: &mut World| {
        world.facts.rivals = vec![rival("n2", "compute", true, false)];
        world.setting = Some(Setting { limits: [("compute".to_owned(), 2)].into(), ..Setting::default() });
    };
    assert_eq!(said(&two), "its turn has come");
    let same = said(&|world| world.facts.rivals = vec![rival("n1", "gateway", true, false)]);
    assert_eq!(same, "waits for NodeMaintenance of-n1, which is about the same node");
    assert_eq!(said(&|world| world.setting = None), UNREAD);
}

#[test]
fn no_node_is_taken_whose_instances_are_not_known_but_where_they_are_to_stay() {
    let unknown = |world: &mut World| world.facts.compute = Compute::Unknown("nova is away".into());
    for begun in [false, true] {
        let waits = world().with(unknown).with(|world| world.begun = begun).decide();
        assert!(waits.act.is_none() && waits.status.message.ends_with("nova is away"), "{waits:?}");
    }
    let leave = |world: &mut World| world.spec.instances = Some(InstancePolicy::Leave);
    assert_eq!(world().with(unknown).with(leave).decide().act, Some(Act::Cordon));
}

#[test]
fn a_failed_migration_counts_when_it_is_ours_and_until_it_is_forgiven() {
    let failed = |world: &mut World| {
        world.disabled(OURS);
        world.server("a", "ACTIVE");
        world.migration(7, "a", "error");
    };
    let mut world = world().with(failed);
    assert_eq!(world.told().act, Some(Act::Migrate(vec!["a".into()])), "one of the past");
    world.migration(8, "a", "error");
    let blocked = world.told();
    assert_eq!((blocked.act, blocked.again), (None, Some(Again::Later)));
    assert!(blocked.status.message.starts_with("instance a (a) its live migration 8 ended as error"));
    assert!(blocked.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"));
    world.retry = true;
    assert_eq!(world.told().act, Some(Act::Forgive));
    world.retry = false;
    assert_eq!(world.told().act, Some(Act::Migrate(vec!["a".into()])));
    world.facts.refused = [("a".to_owned(), "it is locked".to_owned())].into();
    assert!(world.told().status.message.contains("nova refuses to migrate it: it is locked; mend that"));
}

#[test]
fn only_so_many_are_on_their_way_at_once_and_the_rest_is_told() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
        world.server("b", "ACTIVE");
        world.server("c", "ACTIVE");
        world.server("d", "SHUTOFF");
    });
    let decision = world.told();
    assert_eq!(decision.act, Some(Act::Migrate(vec!["b".into()])));
    let said =
        "2 instances are being migrated, 1 more after that; instance d (d) is SHUTOFF, which can't be live-migrated;";
    assert!(decision.status.message.starts_with(said), "{}", decision.status.message);
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
fn at_the_end_of_its_window_a_node_that_is_not_ready_goes_back_and_one_that_is_stays() {
    let over = |world: &mut World| {
        world.spec.window = Some(MaintenanceWindow { start: None, end: Some(NOON.into()) });
    };
    let mut late = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
    });
    late.told();
    let mut late = late.with(over);
    let decision = late.told();
    assert_eq!(
        (decision.act.clone(), decision.status.phase),
        (Some(Act::Enable { id: "s1".into() }), Some(MaintenancePhase::Expired))
    );
    assert_eq!(decision.status.steps[2].message, "given up");
    late.host().service.status = "enabled".into();
    assert_eq!(late.told().act, Some(Act::Finish));
    late.begun = false;
    let rest = late.told();
    assert!(rest.act.is_none() && rest.status.message.starts_with("its window ended before n1"), "{rest:?}");

    let mut ready = world().with(|world| {
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    });
    ready.told();
    assert_eq!(ready.with(over).decide().status.phase, Some(MaintenancePhase::ReadyToDrain));
}

#[test]
fn what_is_half_drained_is_not_held_back_by_the_pods_that_went() {
    let mut ready = world().with(|world| {
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    });
    ready.told();
    ready.facts.refusals = vec!["a budget".into()];
    assert_eq!(ready.told().status.phase, Some(MaintenancePhase::ReadyToDrain));
    ready.status.conditions.clear();
    ready.status.ready_since = None;
    assert_eq!(ready.told().status.message, "a budget");
}
