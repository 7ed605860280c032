//! What nova says, and what its silence means.

use super::*;
use crate::api::MAINTENANCE_FINALIZER;

fn services(hosts: &[&str]) -> Vec<nova::Service> {
    let service = |host: &&str| json!({"id": host, "host": host, "status": "enabled", "state": "up"});
    hosts.iter().map(|host| serde_json::from_value(service(host)).unwrap()).collect()
}

#[test]
fn a_nova_whose_administrator_is_not_known_is_no_missing_nova() {
    let blind = Setting { has_nova: true, ..Setting::default() };
    assert!(blind.nova().is_err_and(|why| why.contains("password of the cloud's administrator")));
    assert!(Setting::default().nova().is_err_and(|why| why.contains("has no nova")));
    assert_eq!(Setting::none().nova(), Err(NO_CLOUD));
}

#[test]
fn a_host_that_nova_lists_by_another_name_is_no_missing_compute() {
    let listed = services(&["n7.cloud.example", "n8.cloud.example"]);
    assert_eq!(nova::of_node(&listed, "n7.k8s.local"), None);
    assert_eq!(Compute::unlisted("n7.k8s.local", &listed, false), Compute::None);
    let unknown = Compute::unlisted("n7.k8s.local", &listed, true);
    let named = |why: &String| why.contains("its hosts are: n7.cloud.example, n8.cloud.example (");
    assert!(matches!(&unknown, Compute::Unknown(why) if named(why)), "{unknown:?}");
    let waits = world().with(|world| world.facts.compute = unknown.clone()).decide();
    assert!(waits.act.is_none() && waits.status.message.contains("n7.cloud.example"), "{waits:?}");
}

#[test]
fn without_a_cloud_no_node_is_taken_but_where_its_instances_are_to_stay() {
    let absent = |world: &mut World| {
        world.begun = false;
        world.setting = Some(Setting::none());
    };
    let waits = world().with(absent).decide();
    assert!(waits.act.is_none() && waits.status.message.contains(NO_CLOUD), "{waits:?}");
    let leave = |world: &mut World| world.spec.instances = Some(InstancePolicy::Leave);
    assert_eq!(world().with(absent).with(leave).decide().act, Some(Act::Begin));
}

#[test]
fn a_cloud_that_went_holds_what_it_knew_of_and_says_how_out() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "MIGRATING");
    });
    world.told();
    world.setting = Some(Setting::none());
    world.facts.compute = Compute::Unknown(NO_CLOUD.into());
    let there = world.told();
    assert_eq!((there.act, there.status.phase), (None, Some(MaintenancePhase::Disabling)));
    world.deleting = true;
    let back = world.told();
    assert!(back.act.is_none() && back.status.message.contains(MAINTENANCE_FINALIZER), "{back:?}");
    assert!(back.status.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"));
}

#[test]
fn nodes_that_can_not_be_listed_are_not_nodes_without_roles() {
    let waits = world().with(|world| (world.begun, world.facts.unlisted) = (false, true)).decide();
    assert!(waits.act.is_none() && waits.status.message.starts_with("the nodes can't be listed"), "{waits:?}");
}

/// Cordoned by us, and empty.
fn emptied() -> World {
    world().with(|world| {
        world.disabled(OURS);
        world.facts.apart = std::time::Duration::from_secs(10);
        world.facts.node =
            Some(NodeSeen { cordoned: true, mark: Some("m".into()), ready: true, ..NodeSeen::default() });
    })
}

#[test]
fn a_node_is_empty_once_two_looks_apart_have_said_so_and_nothing_is_on_its_way_to_it() {
    let mut world = emptied();
    world.host().incoming = vec!["g (g)".into()];
    let coming = world.told();
    assert_eq!(coming.status.message, "1 instance is on the way to n1: g (g)");
    assert_eq!((coming.again, coming.status.phase), (Some(Again::Soon), Some(MaintenancePhase::Emptying)));
    world.host().incoming.clear();
    for seconds in [0, 9] {
        world.now = NOON.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
        let first = world.told();
        assert_eq!((first.again, first.status.phase), (Some(Again::Later), Some(MaintenancePhase::Emptying)));
    }
    world.server("g", "ACTIVE");
    assert_eq!(world.told().act, Some(Act::Migrate(vec!["g".into()])), "it landed between the two");
    world.host().servers.clear();
    assert_eq!(world.told().status.phase, Some(MaintenancePhase::Emptying));
    world.now += SignedDuration::from_secs(10);
    assert_eq!(world.told().status.phase, Some(MaintenancePhase::ReadyToDrain));
}

#[test]
fn a_node_that_can_be_drained_is_looked_at_again_and_what_changed_takes_it_back() {
    let mut world = emptied();
    world.told();
    world.now += SignedDuration::from_secs(10);
    let ready = world.told();
    world.host().service.status = "enabled".into();
    world.now += SignedDuration::from_secs(59);
    let rests = world.told();
    assert_eq!((rests.act, rests.wake, &rests.status), (None, ready.wake, &ready.status), "nova was not asked");
    assert!(world.case().rests_until().is_some() && !world.case().is_at_rest());
    world.now += SignedDuration::from_secs(1);
    let known = std::mem::replace(&mut world.facts.compute, Compute::Unknown("nova is away".into()));
    assert_eq!(world.told().status, ready.status, "silence takes nothing back");
    world.facts.compute = known;
    assert!(matches!(world.told().act, Some(Act::Disable { .. })));
    assert_eq!(world.status.phase, Some(MaintenancePhase::Disabling));
    world.disabled(OURS);
    world.server("g", "ACTIVE");
    let landed = world.told();
    assert_eq!(landed.act, Some(Act::Migrate(vec!["g".into()])));
    assert!(landed.status.conditions.iter().any(|one| one.type_ == "ReadyToDrain" && one.status == "False"));
}

#[test]
fn a_record_that_a_dead_nova_compute_left_behind_is_no_progress_and_a_task_is_named() {
    let mut world = world().with(|world| {
        world.disabled(OURS);
        world.server("a", "ACTIVE");
        world.migration(3, "a", "running");
    });
    assert_eq!(world.told().act, Some(Act::Migrate(vec!["a".into()])));
    world.host().servers[0].task = Some("rebooting".into());
    let busy = world.told();
    assert!(busy.status.message.starts_with("instance a (a) is rebooting, and is migrated after that"), "{busy:?}");
    assert_eq!(busy.again, Some(Again::Later));
    world.server("d", "SHUTOFF");
    let blocked = world.told().status;
    assert!(blocked.conditions.iter().any(|one| one.type_ == "Blocked" && one.status == "True"), "{blocked:?}");
}
