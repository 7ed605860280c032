use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;
use crate::tasks::health::store::{Batch, add};
use crate::tasks::partial::{Claim, Deployment, Job, Kind, Partial, StatefulSet};
use osdpl_core::health::{storage, workload};

const QUOTA: &str = "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3";

fn object<K: Kind>(value: Value) -> Event<Partial<K>> {
    Event::Apply(serde_json::from_value(value).unwrap())
}

fn owned(name: &str) -> Value {
    json!({"name": name, "namespace": "n", "annotations": {"meta.helm.sh/release-name": "nova"}, "labels": {"release_group": "nova"}})
}

/// A store that has listed everything: nothing.
fn listed() -> Store {
    let mut store = Store::default();
    add(&mut store.workloads);
    add(&mut store.jobs);
    add(&mut store.claims);
    store.workloads[0].take::<Partial<Deployment>>(Event::InitDone, |_| None);
    store.jobs[0].take::<Partial<Job>>(Event::InitDone, |_| None);
    store.claims[0].take::<Partial<Claim>>(Event::InitDone, |_| None);
    store
}

fn stateful(store: &mut Store, ready: i32) {
    let set = json!({"metadata": owned("db"), "spec": {"replicas": 1}, "status": {"readyReplicas": ready, "updatedReplicas": 1}});
    let read = |set: &Partial<StatefulSet>| {
        workload::observe(WorkloadKind::StatefulSet, &set.metadata, &set.spec, &set.status)
    };
    store.workloads[0].take(object(set), read);
}

fn troubles(store: &Store) -> Vec<(String, bool)> {
    let health = store.picture().unwrap();
    let workloads = health.workloads.into_iter().map(|workload| workload.trouble);
    let all = workloads.chain(health.jobs.into_iter().map(|job| job.trouble)).flatten();
    all.map(|trouble| (trouble.message, trouble.stuck)).collect()
}

#[test]
fn a_workload_without_pods_is_asked_about_at_the_second_look_and_ever_more_seldom_until_something_is_said() {
    let mut store = listed();
    stateful(&mut store, 0);
    let mut asked = Vec::new();
    for look in 1..=10 {
        let due = store.listen();
        if let Some(subject) = due.first() {
            assert_eq!((subject.kind, subject.name.as_str(), due.len()), ("StatefulSet", "db", 1));
            asked.push(look);
            store.keep_heard(Heard { subject: subject.clone(), said: None });
        }
    }
    assert_eq!(asked, [2, 3, 5, 9]);
    assert_eq!(troubles(&store), []);
}

#[test]
fn who_can_make_no_pod_is_stuck_and_its_own_root_until_it_can() {
    let mut store = listed();
    stateful(&mut store, 0);
    store.jobs[0].take::<Partial<Job>>(object(json!({"metadata": owned("sync")})), Batch::read);
    assert_eq!(store.listen(), []);
    for subject in store.listen() {
        let message = format!("Error creating: pods \"x-\" is forbidden: {QUOTA}");
        store.keep_heard(Heard { subject, said: Some(message) });
    }
    let why = format!("no pod can be created: forbidden: {QUOTA}");
    assert_eq!(troubles(&store), [(why.clone(), true), (why.clone(), true)]);
    let messages: Vec<_> = store.picture().unwrap().causes.into_iter().map(|cause| cause.message).collect();
    assert_eq!(messages, [format!("Job sync: {why}"), format!("nova/db: {why}")]);
    stateful(&mut store, 1);
    let subjects: Vec<_> = store.listen().into_iter().map(|subject| subject.kind).collect();
    assert_eq!((subjects, troubles(&store).len()), (vec!["Job"], 1));
}

#[test]
fn a_deployment_tells_by_its_condition() {
    let mut store = listed();
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": format!("pods \"api-5f-abcde\" is forbidden: {QUOTA}")});
    let deployment = json!({"metadata": owned("api"), "spec": {"replicas": 1}, "status": {"conditions": [condition]}});
    let read = |object: &Partial<Deployment>| {
        workload::observe(WorkloadKind::Deployment, &object.metadata, &object.spec, &object.status)
    };
    store.workloads[0].take(object(deployment), read);
    assert!(!store.look_over(0).silent);
    assert_eq!(troubles(&store), [(format!("no pod can be created: forbidden: {QUOTA}"), true)]);
}

#[test]
fn a_claim_without_a_volume_is_asked_about_where_it_is_of_a_release() {
    let mut store = listed();
    let mut claim = |name: &str, release: &str, phase: &str| {
        let metadata = json!({"name": name, "namespace": "n", "labels": {release: "nova"}});
        let claim = json!({"metadata": metadata, "status": {"phase": phase}});
        store.claims[0]
            .take(object(claim), |claim: &Partial<Claim>| storage::claim(&claim.metadata, &claim.spec, &claim.status));
    };
    claim("waits", "release_group", "Pending");
    claim("bound", "release_group", "Bound");
    claim("others", "app", "Pending");
    assert_eq!(store.listen(), []);
    let due = store.listen();
    assert_eq!(due.iter().map(|subject| subject.name.as_str()).collect::<Vec<_>>(), ["waits"]);
    store.keep_heard(Heard { subject: due[0].clone(), said: Some("no\n capacity".into()) });
    assert_eq!(store.provisioners(), [(("n", "waits"), "no capacity")].into());
}
