use super::*;
use crate::catalog::WorkloadKind;
use crate::observed::{AttemptSeen, BodySeen, Failed, Owner, ReleaseSeen};

mod world;

use world::*;

#[test]
fn the_store_is_installed_and_the_front_waits_until_its_component_is_available() {
    let world = world();
    assert_eq!(world.says("store"), "helm upgrade --install, because it is not installed");
    assert_eq!(world.says("front"), "waits for store/server");
    let world = world.with(|world| world.observed.workloads.push(available("store", "store/server", 1)));
    assert_eq!(world.says("front"), "helm upgrade --install, because it is not installed");
}

#[test]
fn every_state_has_its_step() {
    let with_attempt = |revision, owner| {
        let mut seen = seen("pending-upgrade");
        seen.attempt = Some(AttemptSeen { instance: "x".into(), revision, owner });
        seen
    };
    let changed = |change: fn(&mut ReleaseSeen)| {
        let mut seen = seen("deployed");
        change(&mut seen);
        seen
    };
    for (seen, expected) in [
        (seen("deployed"), "ready"),
        (
            changed(|s| s.inputs = Some("old".into())),
            "delete Jobs store-setup, helm upgrade --install, because the spec changed",
        ),
        (
            changed(|s| {
                s.inputs = Some("old".into());
                s.catalog = Some("older".into());
            }),
            "the operator or its catalogue changed: waits for approval (osdpl approve)",
        ),
        (
            seen("failed"),
            "delete Jobs store-setup, helm upgrade --install, because the last attempt failed (1 in a row)",
        ),
        (seen("pending-install"), "unlock the record, because a dead attempt left it pending-install"),
        (with_attempt(3, Owner::Dead), "unlock the record, because a dead attempt left it pending-upgrade"),
        (
            with_attempt(3, Owner::Alive),
            "revision 3 is pending-upgrade, held by another operator process that still lives",
        ),
        (
            with_attempt(2, Owner::Us),
            "revision 3 is pending-upgrade, held by a helm that is not ours (it is taken for dead at 2027-01-15T08:30:00Z)",
        ),
        (seen("uninstalling"), "helm uninstall, because an uninstall began and did not end"),
        (
            changed(|s| s.attempt.as_mut().unwrap().revision = 2),
            "revision 3 was not made by osdpl (helm upgrade or rollback by hand); change the spec to overwrite it, or annotate osdpl.dev/repair=<release>",
        ),
        (
            changed(|s| {
                s.attempt.as_mut().unwrap().revision = 2;
                s.own_inputs = Some("old".into());
            }),
            "delete Jobs store-setup, helm upgrade --install, because the spec changed",
        ),
        (
            changed(|s| s.attempt = None),
            "a release of this name exists that osdpl did not make; uninstall it, or give this one another name in services.<service>.releases.<release>.name",
        ),
        (changed(|s| s.undecodable = Some("no gzip".into())), "its release record can't be read: no gzip"),
        (changed(|s| s.body = None), "settles: its release record is being read"),
    ] {
        assert_eq!(world().see("store", seen).says("store"), expected);
    }
}

#[test]
fn a_running_child_is_stopped_only_when_its_inputs_are_old_and_it_cannot_succeed() {
    let key = Key::new("openstack", "store");
    let running = |inputs: &str, failures: i32| {
        world().with(|world| {
            hook(world, failures);
            world.observed.running.insert(key.clone(), child(inputs));
        })
    };
    assert_eq!(running("new", 0).says("store"), "helm upgrade runs: post-upgrade Job store-init");
    assert_eq!(
        running("new", 2).says("store"),
        "helm upgrade runs: post-upgrade Job store-init: exit code 1: access denied"
    );
    assert_eq!(running("old", 0).says("store"), "helm upgrade runs: post-upgrade Job store-init");
    assert_eq!(
        running("old", 2).says("store"),
        "stop helm, because the wish changed while helm waits in vain (post-upgrade Job store-init: exit code 1: access denied)"
    );
}

#[test]
fn a_failure_is_retried_later_and_other_inputs_at_once() {
    let failed = |inputs: &str, terminal: bool| {
        world().see("store", seen("failed")).with(|world| {
            let failed = Failed {
                verb: "upgrade".into(),
                inputs: inputs.into(),
                at: NOW,
                count: 2,
                message: "hook failed".into(),
                terminal,
            };
            world.observed.failures.insert(Key::new("openstack", "store"), failed);
        })
    };
    assert!(failed("new", false).says("store").starts_with("failed 2 times in a row, next try at 2027-01-15T08:00:2"));
    assert!(failed("new", false).plan().wake.is_some_and(|wake| wake > NOW));
    assert!(failed("old", false).says("store").starts_with("delete Jobs store-setup, helm upgrade --install"));
    assert_eq!(failed("new", true).says("store"), "hook failed");
}

#[test]
fn approval_of_a_target_holds_until_it_is_reached() {
    let old = || {
        let mut seen = seen("deployed");
        (seen.inputs, seen.catalog) = (Some("old".into()), Some("older".into()));
        seen
    };
    let world = world().see("store", old()).see("front", old());
    assert_eq!(world.plan().awaiting().count(), 2);
    let hash = world.plan().hash;
    let world = world.with(|world| world.policy.approved = Some(hash));
    assert!(world.says("store").starts_with("delete Jobs store-setup, helm upgrade"));
    let world = world.see("store", seen("deployed"));
    assert_eq!(world.says("front"), "waits for store/server", "still approved");
}

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
        !world().see("other", ReleaseSeen { attempt: None, ..seen("deployed") }).plan().decisions.contains_key("other")
    );
}

fn deleting_in(namespace: &str) -> World {
    let world = world().see("front", seen("deployed"));
    world.with(|world| {
        world.desired.releases.clear();
        world.policy.deleting = true;
        world.observed.terminating.insert(namespace.into());
    })
}

#[test]
fn paused_blocked_and_terminating_releases_wait() {
    let paused = world().with(|world| world.policy.paused = true);
    assert_eq!(paused.says("store"), "paused; set `paused: false` to go on");
    let blocked = world().with(|world| {
        let blocked = crate::desired::Blocked { reason: "ChartMissing".into(), message: "no chart".into() };
        world.desired.releases.get_mut("store").unwrap().blocked = Some(blocked);
    });
    assert_eq!(blocked.says("store"), "no chart");
    let terminating = world().with(|world| _ = world.observed.terminating.insert("openstack".into()));
    assert_eq!(terminating.says("store"), "namespace openstack is being deleted: no Job starts in it any more");
}

#[test]
fn a_release_in_sync_settles_until_its_workloads_and_jobs_are_done() {
    let mut body = BodySeen::default();
    body.workloads.insert((WorkloadKind::StatefulSet, "openstack".into(), "store".into()));
    let synced = ReleaseSeen { body: Some(body), ..seen("deployed") };
    let world = world().see("store", synced);
    assert_eq!(world.says("store"), "settles: StatefulSet store is not there yet");
    let world = world.with(|world| world.observed.workloads.push(available("store", "store/server", 0)));
    assert_eq!(world.says("store"), "settles: store/server 0/1");
    let world = world.with(|world| world.observed.workloads = vec![available("store", "store/server", 1)]);
    assert_eq!(world.says("store"), "ready");
}
