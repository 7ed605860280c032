use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::helm::Instance;
use osdpl_core::observed::ObservedRelease;

fn failed(failure: Failure) -> Outcome {
    Outcome {
        release: ReleaseKey::new("cloud", "nova"),
        verb: "upgrade",
        attempt: Instance::of_this_process(None).unwrap().attempt(1, 4),
        exit: Exit::Failed(1),
        failure: Some(failure),
        text: "helm said no".into(),
        started: Timestamp::UNIX_EPOCH,
        duration: Duration::ZERO,
    }
}

/// What is remembered of a failure.
fn remembered(failure: Failure, recorded: bool) -> Failed {
    let mut memory = Memory::default();
    remember(&failed(failure), "0a1b".into(), recorded, &Observation::default(), &mut memory);
    memory.failures[&ReleaseKey::new("cloud", "nova")].clone()
}

fn object(kind: &str, name: &str) -> Subject {
    Subject { kind: kind.into(), name: name.into() }
}

#[test]
fn what_mends_a_failure_follows_from_helms_words() {
    for (failure, recorded, mend) in [
        (Failure::HookFailed(None), true, Fix::Time),
        (Failure::Unreachable, false, Fix::Time),
        (Failure::KindUnknown, false, Fix::Time),
        (Failure::Other, false, Fix::Time),
        (Failure::Unrenderable, false, Fix::Inputs),
        (Failure::Unrenderable, true, Fix::Time),
        (Failure::Immutable(Vec::new()), true, Fix::Manual),
        (Failure::NotOurs(None), false, Fix::Manual),
        (Failure::Invalid(None), true, Fix::Manual),
    ] {
        assert_eq!(remembered(failure.clone(), recorded).mend, mend, "{failure:?}, {recorded}");
    }
}

#[test]
fn what_time_does_not_mend_is_told_with_what_to_do() {
    assert_eq!(remembered(Failure::TimedOut(None), true).message, "helm said no");
    let told =
        remembered(Failure::Immutable(vec![object("Job", "nova-setup"), object("StatefulSet", "db")]), true).message;
    assert!(told.starts_with("helm said no; "), "{told}");
    assert!(told.contains("kubectl -n cloud delete job nova-setup; "), "{told}");
    assert!(
        told.contains("kubectl -n cloud delete statefulset db --cascade=orphan (its pods keep running); then annotate"),
        "{told}"
    );
    let told = remembered(Failure::Unrenderable, false).message;
    assert!(told.contains("not tried again until they, or the chart, change"), "{told}");
}

#[test]
fn failures_in_a_row_are_counted_for_the_same_inputs() {
    let mut memory = Memory::default();
    let outcome = failed(Failure::Unreachable);
    let mut count = |inputs: &str| {
        remember(&outcome, inputs.into(), false, &Observation::default(), &mut memory);
        memory.failures[&outcome.release].count
    };
    assert_eq!((count("a"), count("a"), count("b"), count("b")), (1, 2, 1, 2));
}

#[test]
fn nothing_is_planned_for_a_release_whose_record_could_not_be_read_since_its_helm_ended() {
    let outcome = failed(Failure::Unrenderable);
    let key = outcome.release.clone();
    let mut memory = Memory::default();
    assert_eq!(memory.again(Timestamp::UNIX_EPOCH), None);
    memory.started.insert(key.clone(), "0a1b".into());
    memory.unread.push(outcome.clone());
    assert_eq!(memory.unseen()[&key].inputs, "0a1b");
    assert!(memory.again(Timestamp::UNIX_EPOCH).is_some(), "no watch tells that it can be read");
    assert!(memory.failures.is_empty(), "whether it left a record decides what mends it");

    memory.unread.clear();
    memory.ended(&outcome, Some((4, "failed".into())), &Observation::default());
    assert_eq!((memory.failures[&key].mend, memory.failures[&key].inputs.as_str()), (Fix::Time, "0a1b"));
    assert_eq!(memory.unseen()[&key].inputs, "0a1b", "the watch has not told it yet");
    assert!(memory.started.is_empty());
}

#[test]
fn a_release_that_someone_installs_again_right_after_its_end_is_not_waited_for_for_ever() {
    let gone = Outcome { verb: "uninstall", exit: Exit::Success, ..failed(Failure::Other) };
    let (key, mut memory) = (gone.release.clone(), Memory::default());
    memory.ended(&gone, None, &Observation::default());
    let seen = ObservedRelease { revision: 1, status: "deployed".into(), ..ObservedRelease::default() };
    let asked = memory.catching_up[&key].asked;
    let later = asked.checked_add(OVERDUE).unwrap();
    assert!(!memory.catching_up[&key].is_done(Some(&seen)) && memory.overdue(asked).is_empty());
    assert_eq!(memory.again(asked), Some(later));
    assert_eq!(memory.overdue(later), std::slice::from_ref(&key));
    memory.reread(&key, Some((1, "deployed".into())), later);
    assert!(memory.catching_up[&key].is_done(Some(&seen)) && memory.overdue(later).is_empty());
}
