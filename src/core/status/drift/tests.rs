use super::*;
use crate::drift::{DriftSeen, Id, Write, kind};
use crate::testing::world::{self, World};

const EARLY: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LATE: Timestamp = Timestamp::constant(1_800_000_100, 0);

fn drifted(change: Change) -> Drifted {
    Drifted { id: Id { kind: kind("v1", "Service").unwrap(), namespace: "n".into(), name: "api".into() }, change }
}

fn edited(at: Option<Timestamp>) -> Change {
    Change::Edited(Write { manager: "kubectl".into(), at, fields: "spec.ports".into() })
}

#[test]
fn what_leaves_no_time_was_noticed_when_it_was_first_told_also_by_an_operator_before_this_one() {
    for change in [Change::Deleted, Change::Stripped("spec.x".into()), edited(None)] {
        let first = entry(&drifted(change.clone()), &[], EARLY);
        assert_eq!(first.at, EARLY.to_string());
        assert_eq!(entry(&drifted(change), std::slice::from_ref(&first), LATE), first);
    }
    let other = entry(&drifted(edited(None)), &[entry(&drifted(Change::Deleted), &[], EARLY)], LATE);
    assert_eq!(other.at, LATE.to_string(), "another change is news");
    let timed = entry(&drifted(edited(Some(EARLY))), &[], LATE);
    assert_eq!(line(&timed), "Service api was edited by kubectl (spec.ports), at 2027-01-15T08:00:00Z");
    let gone = entry(&drifted(Change::Deleted), &[], LATE);
    assert_eq!(line(&gone), "Service api was deleted, noticed at 2027-01-15T08:01:40Z");
}

#[test]
fn each_change_is_told_once_and_object_by_object() {
    let child = |drift: Vec<ObjectDrift>| ChildStatus { drift, ..ChildStatus::default() };
    let (one, two) = (entry(&drifted(Change::Deleted), &[], EARLY), entry(&drifted(edited(Some(EARLY))), &[], EARLY));
    let before = child(vec![one.clone()]);
    assert_eq!(events("x", None, &before).len(), 1);
    assert!(events("x", Some(&before), &before).is_empty());
    let told = events("x", Some(&before), &child(vec![one, two]));
    assert_eq!(told.len(), 1);
    assert!(
        told[0].warning
            && matches!(&told[0].about, Some(About::Object { kind, name }) if kind == "Service" && name == "api"),
        "{told:?}"
    );
    assert!(events("x", Some(&before), &child(Vec::new())).is_empty());
}

/// A Job and a Service of a release are gone, by what is seen of its third revision.
fn gone() -> World {
    let object = |kind_: &str, version: &str, name: &str| Drifted {
        id: Id { kind: kind(version, kind_).unwrap(), namespace: "openstack".into(), name: name.into() },
        change: Change::Deleted,
    };
    let objects = vec![object("Job", "batch/v1", "store-setup"), object("Service", "v1", "store")];
    world::world().see("store", world::seen("deployed")).with(|world| {
        let key = world.desired.releases["store"].key.clone();
        world.observed.drift = std::sync::Arc::new([(key, DriftSeen { revision: 3, objects })].into());
    })
}

/// What is told of its objects after this status.
fn told(world: &World, before: Option<&ChildStatus>) -> ChildStatus {
    let (plan, spec) = (world.plan(), crate::api::OpenStackDeploymentSpec::default());
    let report = Report::new(&spec, 1, (&world.desired, &world.observed), &plan);
    let mut child = ChildStatus::default();
    tell(&mut child, before, "store", &plan.decisions["store"], &report, EARLY);
    child
}

fn names(child: &ChildStatus) -> Vec<&str> {
    child.drift.iter().map(|drift| drift.object.as_str()).collect()
}

#[test]
fn what_changes_while_our_own_helm_is_at_a_release_is_told_once_helm_is_done_and_what_was_told_before_all_along() {
    let at_rest = gone();
    let known = told(&at_rest, None);
    assert_eq!(names(&known), ["Job store-setup", "Service store"]);
    let at_work = gone().with(|world| {
        let key = world.desired.releases["store"].key.clone();
        world.observed.running.insert(key, world::child("newer"));
        world.desired.releases.get_mut("store").unwrap().inputs = "newer".into();
    });
    assert_eq!(told(&at_work, None), ChildStatus::default());
    assert_eq!(names(&told(&at_work, Some(&known))), ["Service store"]);
}

#[test]
fn a_job_that_the_upgrade_to_come_deletes_itself_is_missed_by_nobody() {
    let waiting = gone().with(|world| world.desired.releases.get_mut("store").unwrap().inputs = "newer".into());
    assert_eq!(names(&told(&waiting, None)), ["Service store"]);
}
