use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::Notify;

use super::*;
use crate::helm::Instance;
use osdpl_core::observed::{Attempt, Liveness};

fn failed(failure: Failure) -> Outcome {
    Outcome {
        release: ReleaseKey::new("cloud", "nova"),
        verb: Verb::Upgrade,
        attempt: Instance::of_this_process(None).unwrap().attempt(1, 4),
        exit: Exit::Failed(1),
        failure: Some(failure),
        text: "helm failed".into(),
        started: Timestamp::UNIX_EPOCH,
        duration: Duration::ZERO,
    }
}

/// Returns what [`remember_failure`] stores in the [`Memory`] after helm has failed with `failure`.
fn remembered(failure: Failure, has_record: bool) -> Failed {
    let mut memory = Memory::default();
    remember_failure(&failed(failure), "0a1b".into(), has_record, &Observation::default(), &mut memory);
    memory.failures[&ReleaseKey::new("cloud", "nova")].clone()
}

fn object(kind: &str, name: &str) -> Subject {
    Subject { kind: kind.into(), name: name.into() }
}

#[test]
fn derives_the_fix_from_the_failure() {
    for (failure, has_record, fix) in [
        (Failure::HookFailed(None), true, RetryCondition::Time),
        (Failure::Unreachable, false, RetryCondition::Time),
        (Failure::KindUnknown, false, RetryCondition::Time),
        (Failure::Other, false, RetryCondition::Time),
        (Failure::Unrenderable, false, RetryCondition::Inputs),
        (Failure::Unrenderable, true, RetryCondition::Time),
        (Failure::TooLarge, false, RetryCondition::Inputs),
        (Failure::TooLarge, true, RetryCondition::Inputs),
        (Failure::Immutable(Vec::new()), true, RetryCondition::Manual),
        (Failure::NotOurs(None), false, RetryCondition::Manual),
        (Failure::Invalid(None), true, RetryCondition::Manual),
    ] {
        assert_eq!(remembered(failure.clone(), has_record).fix, fix, "{failure:?}, {has_record}");
    }
}

#[test]
fn advises_on_failures_that_time_does_not_fix() {
    assert_eq!(remembered(Failure::TimedOut(None), true).message, "helm failed");
    let objects = vec![object("Job", "nova-setup"), object("StatefulSet", "db")];
    let message = remembered(Failure::Immutable(objects), true).message;
    assert!(message.starts_with("helm failed; "), "{message}");
    assert!(message.contains("kubectl -n cloud delete job nova-setup; "), "{message}");
    let command = "kubectl -n cloud delete statefulset db --cascade=orphan (its pods keep running); then annotate";
    assert!(message.contains(command), "{message}");
    let message = remembered(Failure::Unrenderable, false).message;
    assert!(message.contains("does not retry until the values or the chart change"), "{message}");
    let message = remembered(Failure::TooLarge, true).message;
    assert!(
        message.contains("all objects of cloud/nova in one Secret, which may not be larger than 1 MiB"),
        "{message}"
    );
}

#[test]
fn counts_failures_with_the_same_inputs() {
    let mut memory = Memory::default();
    let outcome = failed(Failure::Unreachable);
    let mut count = |inputs: &str| {
        remember_failure(&outcome, inputs.into(), false, &Observation::default(), &mut memory);
        memory.failures[&outcome.release].count
    };
    assert_eq!((count("a"), count("a"), count("b"), count("b")), (1, 2, 1, 2));
}

#[test]
fn finished_helm_counts_as_running_until_its_record_is_seen() {
    let outcome = failed(Failure::Unrenderable);
    let key = outcome.release.clone();
    let mut memory = Memory::default();
    assert_eq!(memory.next_record_read(Timestamp::UNIX_EPOCH), None);
    memory.started.insert(key.clone(), "0a1b".into());
    memory.unread.push(outcome.clone());
    assert_eq!(memory.unobserved_processes()[&key].inputs, "0a1b");
    assert!(
        memory.next_record_read(Timestamp::UNIX_EPOCH).is_some(),
        "a timer triggers the next attempt to read the record"
    );
    assert!(memory.failures.is_empty(), "osdpl classifies a failure only after it has read the record");

    memory.unread.clear();
    let record = NewestRecord { revision: 4, status: Status::Failed };
    memory.process_outcome(&outcome, Some(record), &Observation::default());
    assert_eq!((memory.failures[&key].fix, memory.failures[&key].inputs.as_str()), (RetryCondition::Time, "0a1b"));
    assert_eq!(
        memory.unobserved_processes()[&key].inputs,
        "0a1b",
        "the process counts as running until the watch has reported its record"
    );
    assert!(memory.started.is_empty());
}

#[tokio::test]
async fn a_cancelled_pass_loses_no_outcome() {
    let requested = Arc::new(Notify::new());
    let requests = Arc::clone(&requested);
    // The API server never responds to requests about heat, and has no records of other releases.
    let router = Router::new().fallback(async move |request: Request| -> String {
        if request.uri().query().unwrap_or_default().contains("heat") {
            requests.notify_one();
            std::future::pending::<()>().await;
        }
        r#"{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}"#.to_owned()
    });
    let reader = Reader::new(kube::Client::new(router, "cloud"));
    let outcome = |name: &str| Outcome { release: ReleaseKey::new("cloud", name), ..failed(Failure::Unreachable) };
    let unread = ["nova", "heat", "glance"].map(outcome).to_vec();
    let (mut memory, observation) = (Memory { unread, ..Memory::default() }, Observation::default());
    tokio::select! {
        () = memory.process_unread(&reader, &observation) => panic!("the API server does not respond"),
        () = requested.notified() => {}
    }
    let left: Vec<&str> = memory.unread.iter().map(|outcome| outcome.release.name.as_str()).collect();
    assert_eq!(left, ["heat", "glance"]);
    assert_eq!(memory.failures.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["nova"]);
}

#[test]
fn reads_no_record_that_the_watch_has_reported() {
    let succeeded = Outcome { exit: Exit::Success, failure: None, ..failed(Failure::Other) };
    let attempt = Attempt { label: succeeded.attempt.to_string(), revision: 4, owner: Liveness::Us };
    let deployed =
        ObservedRelease { revision: 4, status: Status::Deployed, attempt: Some(attempt), ..ObservedRelease::default() };
    let record = NewestRecord { revision: 4, status: Status::Deployed };
    assert_eq!(reported_record(&succeeded, Some(&deployed)), Some(record));
    let earlier = Instance::of_this_process(None).unwrap().attempt(0, 4);
    let earlier = Attempt { label: earlier.to_string(), revision: 4, owner: Liveness::Us };
    for (outcome, observed) in [
        (&succeeded, None),
        (&succeeded, Some(ObservedRelease { status: Status::PendingUpgrade, ..deployed.clone() })),
        (&succeeded, Some(ObservedRelease { attempt: Some(earlier), ..deployed.clone() })),
        (&succeeded, Some(ObservedRelease { revision: 5, ..deployed.clone() })),
        (&failed(Failure::Other), Some(deployed.clone())),
    ] {
        assert_eq!(reported_record(outcome, observed.as_ref()), None, "{observed:?}");
    }
}

#[test]
fn rereads_records_that_the_watch_does_not_show() {
    let uninstalled = Outcome { verb: Verb::Uninstall, exit: Exit::Success, ..failed(Failure::Other) };
    let (key, mut memory) = (uninstalled.release.clone(), Memory::default());
    memory.process_outcome(&uninstalled, None, &Observation::default());
    let observed = ObservedRelease { revision: 1, status: Status::Deployed, ..ObservedRelease::default() };
    let read_at = memory.unobserved[&key].read_at;
    let later = read_at.checked_add(REREAD_DELAY).unwrap();
    assert!(!memory.unobserved[&key].is_done(Some(&observed)) && memory.overdue(read_at).is_empty());
    assert_eq!(memory.next_record_read(read_at), Some(later));
    assert_eq!(memory.overdue(later), std::slice::from_ref(&key));
    memory.update_record(&key, Some(NewestRecord { revision: 1, status: Status::Deployed }), later);
    assert!(memory.unobserved[&key].is_done(Some(&observed)) && memory.overdue(later).is_empty());
}
