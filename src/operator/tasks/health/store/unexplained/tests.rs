use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;
use crate::tasks::health::store::{Batch, add};
use crate::tasks::partial::{Claim, Deployment, Job, Kind, Partial, StatefulSet};
use osdpl_core::health::{storage, workload};
use osdpl_core::scrub::Scrubber;

const QUOTA: &str = "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3";

fn object<K: Kind>(value: Value) -> Event<Partial<K>> {
    Event::Apply(serde_json::from_value(value).unwrap())
}

fn owned(name: &str) -> Value {
    json!({"name": name, "namespace": "n", "annotations": {"meta.helm.sh/release-name": "nova"}, "labels": {"release_group": "nova"}})
}

/// Returns an empty store whose watches have completed their first list.
fn listed() -> Store {
    let mut store = Store::default();
    add(&mut store.workloads);
    add(&mut store.jobs);
    add(&mut store.claims);
    store.workloads[0].apply::<Partial<Deployment>>(Event::InitDone, |_| None);
    store.jobs[0].apply::<Partial<Job>>(Event::InitDone, |_| None);
    store.claims[0].apply::<Partial<Claim>>(Event::InitDone, |_| None);
    store
}

fn stateful(store: &mut Store, ready: i32) {
    let set = json!({"metadata": owned("db"), "spec": {"replicas": 1}, "status": {"readyReplicas": ready, "updatedReplicas": 1}});
    let read = |set: &Partial<StatefulSet>| {
        workload::observe(WorkloadKind::StatefulSet, &set.metadata, &set.spec, &set.status, &Scrubber::default())
    };
    store.workloads[0].apply(object(set), read);
}

fn troubles(store: &Store) -> Vec<(String, bool)> {
    let health = store.assess().unwrap();
    let workloads = health.workloads.into_iter().map(|workload| workload.trouble);
    let all = workloads.chain(health.jobs.into_iter().map(|job| job.trouble)).flatten();
    all.map(|trouble| (trouble.message, trouble.stuck)).collect()
}

#[test]
fn queries_events_from_the_second_round_at_growing_intervals() {
    let mut store = listed();
    stateful(&mut store, 0);
    let mut queried = Vec::new();
    for round in 1..=10 {
        let due = store.due_event_queries();
        if let Some(subject) = due.first() {
            assert_eq!((subject.kind, subject.name.as_str(), due.len()), ("StatefulSet", "db", 1));
            queried.push(round);
            store.store_event(EventMessage { subject: subject.clone(), message: None });
        }
    }
    assert_eq!(queried, [2, 3, 5, 9]);
    assert_eq!(troubles(&store), []);
}

#[test]
fn a_restarted_health_task_repeats_a_query_without_result() {
    let mut store = listed();
    stateful(&mut store, 0);
    assert_eq!(store.due_event_queries(), []);
    assert_eq!(store.due_event_queries().len(), 1);
    store.forget_fetches();
    assert_eq!(store.due_event_queries().len(), 1);
}

#[test]
fn a_workload_whose_pods_are_refused_is_its_own_root_cause() {
    let mut store = listed();
    stateful(&mut store, 0);
    let job = object(json!({"metadata": owned("sync")}));
    store.jobs[0].apply::<Partial<Job>>(job, |job| Batch::read(job, &Scrubber::default()));
    assert_eq!(store.due_event_queries(), []);
    for subject in store.due_event_queries() {
        let message = format!("Error creating: pods \"x-\" is forbidden: {QUOTA}");
        store.store_event(EventMessage { subject, message: Some(message) });
    }
    let why = format!("no pod can be created: forbidden: {QUOTA}");
    assert_eq!(troubles(&store), [(why.clone(), true), (why.clone(), true)]);
    let messages: Vec<_> = store.assess().unwrap().causes.into_iter().map(|cause| cause.message).collect();
    assert_eq!(messages, [format!("Job sync: {why}"), format!("nova/db: {why}")]);
    stateful(&mut store, 1);
    let subjects: Vec<_> = store.due_event_queries().into_iter().map(|subject| subject.kind).collect();
    assert_eq!((subjects, troubles(&store).len()), (vec!["Job"], 1));
}

#[test]
fn explains_a_deployment_by_its_condition() {
    let mut store = listed();
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": format!("pods \"api-5f-abcde\" is forbidden: {QUOTA}")});
    let deployment = json!({"metadata": owned("api"), "spec": {"replicas": 1}, "status": {"conditions": [condition]}});
    let read = |object: &Partial<Deployment>| {
        workload::observe(
            WorkloadKind::Deployment,
            &object.metadata,
            &object.spec,
            &object.status,
            &Scrubber::default(),
        )
    };
    store.workloads[0].apply(object(deployment), read);
    assert!(!store.overview(0).unexplained);
    assert_eq!(troubles(&store), [(format!("no pod can be created: forbidden: {QUOTA}"), true)]);
}

#[test]
fn queries_events_only_of_pending_claims_of_releases() {
    let mut store = listed();
    let mut claim = |name: &str, release: &str, phase: &str| {
        let metadata = json!({"name": name, "namespace": "n", "labels": {release: "nova"}});
        let claim = json!({"metadata": metadata, "status": {"phase": phase}});
        store.claims[0]
            .apply(object(claim), |claim: &Partial<Claim>| storage::claim(&claim.metadata, &claim.spec, &claim.status));
    };
    claim("waits", "release_group", "Pending");
    claim("bound", "release_group", "Bound");
    claim("others", "app", "Pending");
    assert_eq!(store.due_event_queries(), []);
    let due = store.due_event_queries();
    assert_eq!(due.iter().map(|subject| subject.name.as_str()).collect::<Vec<_>>(), ["waits"]);
    store.store_event(EventMessage { subject: due[0].clone(), message: Some("no\n capacity".into()) });
    assert_eq!(store.provisioners(), [(("n", "waits"), "no capacity")].into());
}
