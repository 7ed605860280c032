use super::*;
use crate::drift::{Id, Write, kind};

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
