//! What leaves, and who may keep it.

use super::super::*;
use crate::observed::ReleaseSeen;
use crate::testing::world::*;

#[test]
fn what_is_not_wanted_leaves_in_reverse_order_and_only_after_approval() {
    let gone =
        || world().see("store", seen("deployed")).see("front", seen("deployed")).with(|w| w.desired.releases.clear());
    assert_eq!(gone().says("store"), "stays until front is gone");
    assert_eq!(gone().says("front"), "it is not wanted any more: waits for approval (osdpl approve)");
    let deleting = gone().with(|world| world.policy.deleting = true);
    assert_eq!(deleting.says("front"), "helm uninstall, because it is not wanted any more");
    let skipping = deleting.with(|world| _ = world.policy.skip_hooks.insert("all".into()));
    assert_eq!(skipping.says("front"), "helm uninstall --no-hooks, because it is not wanted any more");
    let terminating = deleting_in("openstack");
    assert_eq!(terminating.says("front"), "helm uninstall --no-hooks, because it is not wanted any more");
    assert!(
        !world()
            .see("other", ReleaseSeen { attempt: None, own_inputs: None, ..seen("deployed") })
            .plan()
            .decisions
            .contains_key("other")
    );
}

#[test]
fn who_needs_a_release_that_leaves_is_told_by_what_runs_and_by_what_is_wanted() {
    let store = || Component::parse("store/server").unwrap();
    let without = |change: fn(&mut World)| {
        let world = world().see("store", seen("deployed")).see("front", seen("deployed"));
        let world = world.with(|world| _ = world.desired.releases.remove("store")).with(change);
        world.says("store")
    };
    let approval = "it is not wanted any more: waits for approval (osdpl approve)";
    let no_more = |world: &mut World| world.desired.releases.get_mut("front").unwrap().needs.clear();
    assert_eq!(without(no_more), approval, "front runs without it by now");
    let not_yet = |world: &mut World| {
        let front = world.desired.releases.get_mut("front").unwrap();
        front.needs.clear();
        front.inputs = "newer".into();
    };
    assert_eq!(without(not_yet), "stays until front is gone", "what runs may need it");
    let outside = |world: &mut World| {
        let front = world.desired.releases.get_mut("front").unwrap();
        front.needs.insert(Component::parse("store/server").unwrap(), Provider::External("store".into()));
        front.inputs = "newer".into();
    };
    assert_eq!(without(outside), approval, "front waits for {} from outside, which takes its place", store());
}

#[test]
fn a_paused_release_that_is_not_wanted_stays_until_everything_is_deleted() {
    let paused = || {
        world().see("store", seen("deployed")).with(|world| {
            world.desired.releases.clear();
            world.policy.approval = Approval::Automatic;
            world.policy.paused_releases.insert("store".into());
        })
    };
    assert_eq!(paused().says("store"), "paused; set `paused: false` to go on");
    let deleting = paused().with(|world| world.policy.deleting = true);
    assert_eq!(deleting.says("store"), "helm uninstall, because it is not wanted any more");
}

#[test]
fn a_release_in_sync_is_applied_again_when_its_repair_is_asked_for_by_name() {
    let asked =
        |name: &str| world().see("store", seen("deployed")).with(|world| _ = world.policy.repair.insert(name.into()));
    assert_eq!(asked("all").says("store"), "ready", "all means revisions of others");
    assert_eq!(
        asked("store").says("store"),
        "delete Jobs store-setup, helm upgrade --install, because repair was asked for"
    );
    let paused = asked("store").with(|world| world.policy.paused = true);
    assert_eq!(paused.says("store"), "ready");
}

#[test]
fn a_revision_without_labels_over_revisions_of_ours_is_foreign_and_not_never_ours() {
    let nameless = || ReleaseSeen { attempt: None, inputs: None, ..seen("deployed") };
    assert!(world().see("store", nameless()).says("store").starts_with("revision 3 was not made by osdpl"));
    let never = ReleaseSeen { own_inputs: None, ..nameless() };
    assert!(world().see("store", never).says("store").contains("that osdpl did not make"));
}

fn deleting_in(namespace: &str) -> World {
    let world = world().see("front", seen("deployed"));
    world.with(|world| {
        world.desired.releases.clear();
        world.policy.deleting = true;
        world.observed.terminating.insert(namespace.into());
    })
}
