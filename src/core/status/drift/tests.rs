use super::*;
use crate::drift::{ForeignWrite, ObjectId, ObservedDrift, find_kind};
use crate::release::Status;
use crate::testing::{self, Fixture};

const EARLY: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LATE: Timestamp = Timestamp::constant(1_800_000_100, 0);

fn drifted(change: Change) -> DriftedObject {
    DriftedObject {
        id: ObjectId { kind: find_kind("v1", "Service").unwrap(), namespace: "n".into(), name: "api".into() },
        change,
    }
}

fn edited(at: Option<Timestamp>) -> Change {
    Change::Edited(ForeignWrite { manager: "kubectl".into(), at, fields: "spec.ports".into() })
}

#[test]
fn drift_without_time_keeps_first_report_time() {
    for change in [Change::Deleted, Change::Stripped("spec.x".into()), edited(None)] {
        let first = entry(&drifted(change.clone()), &[], EARLY);
        assert_eq!(first.at, EARLY.to_string());
        assert_eq!(entry(&drifted(change), std::slice::from_ref(&first), LATE), first);
    }
    let other = entry(&drifted(edited(None)), &[entry(&drifted(Change::Deleted), &[], EARLY)], LATE);
    assert_eq!(other.at, LATE.to_string(), "another change gets a new time");
    let timed = entry(&drifted(edited(Some(EARLY))), &[], LATE);
    assert_eq!(describe(&timed), "Service api was edited by kubectl (spec.ports), at 2027-01-15T08:00:00Z");
    let gone = entry(&drifted(Change::Deleted), &[], LATE);
    assert_eq!(describe(&gone), "Service api was deleted, noticed at 2027-01-15T08:01:40Z");
}

#[test]
fn reports_each_object_once() {
    let child = |drift: Vec<ObjectDrift>| HelmReleaseStatus { drift, ..HelmReleaseStatus::default() };
    let (one, two) = (entry(&drifted(Change::Deleted), &[], EARLY), entry(&drifted(edited(Some(EARLY))), &[], EARLY));
    let before = child(vec![one.clone()]);
    assert_eq!(events("x", None, &before).len(), 1);
    assert!(events("x", Some(&before), &before).is_empty());
    let new = events("x", Some(&before), &child(vec![one, two]));
    assert_eq!(new.len(), 1);
    assert!(
        new[0].warning
            && matches!(&new[0].subject, Some(Subject::Object { kind, name }) if kind == "Service" && name == "api"),
        "{new:?}"
    );
    assert!(events("x", Some(&before), &child(Vec::new())).is_empty());
}

/// Returns the third revision of a release of which a Job and a Service were deleted.
fn deleted_objects() -> Fixture {
    let object = |kind_: &str, version: &str, name: &str| DriftedObject {
        id: ObjectId { kind: find_kind(version, kind_).unwrap(), namespace: "openstack".into(), name: name.into() },
        change: Change::Deleted,
    };
    let objects = vec![object("Job", "batch/v1", "store-setup"), object("Service", "v1", "store")];
    testing::fixture().with_release("store", testing::observed_release(Status::Deployed)).with(|fixture| {
        let key = fixture.desired.releases["store"].key.clone();
        fixture.observed.drift = std::sync::Arc::new([(key, ObservedDrift { revision: 3, objects })].into());
    })
}

/// Returns the reported drift of the store, following the status `before`.
fn reported(fixture: &Fixture, before: Option<&HelmReleaseStatus>) -> HelmReleaseStatus {
    let (plan, spec) = (fixture.plan(), crate::api::OpenStackDeploymentSpec::default());
    let report = Report::new(&spec, 1, (&fixture.desired, &fixture.observed), &plan);
    let mut child = HelmReleaseStatus::default();
    report_drift(&mut child, before, "store", &plan.decisions["store"], &report, EARLY);
    child
}

fn names(child: &HelmReleaseStatus) -> Vec<&str> {
    child.drift.iter().map(|drift| drift.object.as_str()).collect()
}

#[test]
fn reports_new_drift_only_after_helm_ended() {
    let idle = deleted_objects();
    let known = reported(&idle, None);
    assert_eq!(names(&known), ["Job store-setup", "Service store"]);
    let busy = deleted_objects().with(|fixture| {
        let key = fixture.desired.releases["store"].key.clone();
        fixture.observed.running.insert(key, testing::running_helm("newer"));
        fixture.desired.releases.get_mut("store").unwrap().inputs = "newer".into();
    });
    assert_eq!(reported(&busy, None), HelmReleaseStatus::default());
    assert_eq!(names(&reported(&busy, Some(&known))), ["Service store"]);
}

#[test]
fn ignores_jobs_that_the_next_upgrade_deletes() {
    let waiting =
        deleted_objects().with(|fixture| fixture.desired.releases.get_mut("store").unwrap().inputs = "newer".into());
    assert_eq!(names(&reported(&waiting, None)), ["Service store"]);
}
