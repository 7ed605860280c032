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
