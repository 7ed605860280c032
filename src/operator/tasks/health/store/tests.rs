use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::failures::ATTEMPTS;
use super::*;
use crate::tasks::health::logs::Log;
use crate::tasks::health::mounts::Found;
use crate::tasks::partial::{Deployment, Job, Kind, Node, Partial, Pod, Service};
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::health::pod::{Mount, MountKind};
use osdpl_core::health::workload;

fn object<K: Kind>(value: Value) -> Event<Partial<K>> {
    Event::Apply(serde_json::from_value(value).unwrap())
}

/// Returns an empty store whose required watches have completed their first list.
fn listed() -> Store {
    let mut store = Store::default();
    add(&mut store.workloads);
    add(&mut store.jobs);
    add(&mut store.pods);
    add(&mut store.services);
    assert_eq!(store.assess(), None);
    store.workloads[0].apply::<Partial<Deployment>>(Event::InitDone, |_| None);
    store.jobs[0].apply::<Partial<Job>>(Event::InitDone, |_| None);
    assert_eq!(store.assess(), None);
    store.pods[0].apply::<Partial<Pod>>(Event::InitDone, |_| None);
    assert_eq!(store.assess(), None);
    store.services[0].apply::<Partial<Service>>(Event::InitDone, |_| None);
    assert_eq!(store.assess(), Some(Health::default()));
    store
}

fn add_job(store: &mut Store, status: &Value) {
    let job = json!({"metadata": {"name": "db-sync", "namespace": "n", "labels": {"release_group": "nova"}}, "status": status});
    store.jobs[0].apply::<Partial<Job>>(object(job), |job| Batch::read(job, &Scrubber::default()));
}

fn add_pod(store: &mut Store, name: &str, owner: &str, container: &Value) {
    let pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"pod-template-hash": "5f"},
            "ownerReferences": [{"apiVersion": "v1", "kind": if owner == "Job" { "Job" } else { "ReplicaSet" },
                "name": if owner == "Job" { "db-sync" } else { "api-5f" }, "uid": "o", "controller": true}]},
        "spec": {"containers": [{"name": "main", "image": "quay.io/main"}]},
        "status": {"containerStatuses": [container]},
    });
    store.pods[0].apply::<Partial<Pod>>(object(pod), observe_pod);
}

fn observe_pod(pod: &Partial<Pod>) -> Option<WatchedPod> {
    WatchedPod::read(pod, &Scrubber::default(), &mut Shared::default(), &mut Shared::default())
}

fn observe_workload(kind: WorkloadKind) -> impl FnMut(&Partial<Deployment>) -> Option<Workload> {
    move |object| workload::observe(kind, &object.metadata, &object.spec, &object.status, &Scrubber::default())
}

fn add_deployment(store: &mut Store, ready: i32) {
    let deployment = json!({
        "metadata": {"name": "api", "namespace": "n", "annotations": {"meta.helm.sh/release-name": "nova"}},
        "spec": {"replicas": 2}, "status": {"updatedReplicas": 2, "replicas": 2, "readyReplicas": ready},
    });
    store.workloads[0].apply::<Partial<Deployment>>(object(deployment), observe_workload(WorkloadKind::Deployment));
}

fn crashed(restarts: i32) -> Value {
    json!({"name": "main", "restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1}}})
}

fn pulling() -> Value {
    json!({"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}})
}

fn creating() -> Value {
    json!({"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}})
}

fn log(text: &str) -> Log {
    Log { uid: "p1".into(), text: Some(text.into()) }
}

fn job_trouble(store: &Store) -> Option<String> {
    store.assess().unwrap().jobs[0].trouble.as_ref().map(|trouble| trouble.message.clone())
}

#[test]
fn explains_a_workload_by_its_worst_pod() {
    let mut store = listed();
    add_deployment(&mut store, 0);
    add_pod(&mut store, "c", "api", &creating());
    add_pod(&mut store, "b", "api", &pulling());
    add_pod(&mut store, "a", "api", &pulling());
    let trouble = store.assess().unwrap().workloads[0].trouble.clone().unwrap();
    assert_eq!((trouble.stuck, trouble.message.as_str()), (true, "a: ImagePullBackOff quay.io/main"));
}

#[test]
fn a_complete_workload_has_no_trouble() {
    let mut store = listed();
    add_deployment(&mut store, 2);
    add_pod(&mut store, "a", "api", &pulling());
    assert_eq!(store.assess().unwrap().workloads[0].trouble, None);
}

#[test]
fn explains_a_failing_job_by_its_pod_and_log() {
    let mut store = listed();
    add_job(&mut store, &json!({}));
    assert_eq!(job_trouble(&store), None);
    add_pod(&mut store, "p1", "Job", &crashed(1));
    assert_eq!(job_trouble(&store).as_deref(), Some("p1: container main fails: exit code 1"));
    let wanted = store.overview(2).wanted;
    assert_eq!(wanted.iter().map(|wanted| wanted.pod.as_str()).collect::<Vec<_>>(), ["p1"]);
    store.store_log(log("no route to mariadb"));
    let expected = "p1: container main fails: exit code 1; its log ends: no route to mariadb";
    assert_eq!(job_trouble(&store).as_deref(), Some(expected));
}

#[test]
fn an_abandoned_job_reports_its_reason() {
    let mut store = listed();
    add_job(
        &mut store,
        &json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}),
    );
    add_pod(&mut store, "p1", "Job", &crashed(6));
    assert_eq!(job_trouble(&store).as_deref(), Some("BackoffLimitExceeded; p1: container main fails: exit code 1"));
}

#[test]
fn a_complete_job_has_no_trouble_and_no_log() {
    let mut store = listed();
    add_job(&mut store, &json!({"conditions": [{"type": "Complete", "status": "True"}]}));
    add_pod(&mut store, "p1", "Job", &crashed(1));
    assert_eq!(job_trouble(&store), None);
    assert_eq!(store.overview(2).wanted, []);
}

#[test]
fn fetches_one_log_per_failure_and_keeps_the_previous_one() {
    let mut store = listed();
    add_job(&mut store, &json!({}));
    add_pod(&mut store, "p1", "Job", &crashed(1));
    assert_eq!(store.overview(2).wanted.len(), 1);
    assert_eq!(store.overview(2).wanted, []);
    store.store_log(log("first"));
    assert_eq!(store.overview(2).wanted, []);
    add_pod(&mut store, "p1", "Job", &crashed(2));
    assert_eq!(store.overview(2).wanted.len(), 1);
    assert!(job_trouble(&store).unwrap().ends_with("first"));
    store.store_log(log("second"));
    assert!(job_trouble(&store).unwrap().ends_with("second"));
}

#[test]
fn stops_fetching_a_log_after_a_few_attempts() {
    let mut store = listed();
    add_job(&mut store, &json!({}));
    add_pod(&mut store, "p1", "Job", &crashed(1));
    for _ in 0..ATTEMPTS {
        assert_eq!(store.overview(2).wanted.len(), 1);
        store.store_log(Log { uid: "p1".into(), text: None });
    }
    assert_eq!(store.overview(2).wanted, []);
}

#[test]
fn limits_concurrent_log_requests() {
    let mut store = listed();
    add_job(&mut store, &json!({}));
    add_pod(&mut store, "p1", "Job", &crashed(1));
    assert_eq!(store.overview(0).wanted, []);
    assert_eq!(store.overview(1).wanted.len(), 1);
}

#[test]
fn ignores_a_repeated_failure() {
    let mut store = listed();
    add_job(&mut store, &json!({}));
    add_pod(&mut store, "p1", "Job", &crashed(1));
    let before = store.assess();
    add_pod(&mut store, "p1", "Job", &crashed(2));
    assert_eq!(store.assess(), before);
}

#[test]
fn ignores_changed_numbers_in_logs() {
    let mut store = listed();
    add_deployment(&mut store, 0);
    add_pod(&mut store, "p1", "api", &crashed(1));
    assert_eq!(store.overview(2).wanted.len(), 1);
    store.store_log(log("10:00:01 [pid 7] no memory"));
    let before = store.assess();
    let message = before.as_ref().unwrap().workloads[0].trouble.as_ref().unwrap().message.clone();
    assert_eq!(message, "p1: container main fails: exit code 1; its log ends: 10:00:01 [pid 7] no memory");
    add_pod(&mut store, "p1", "api", &crashed(2));
    assert_eq!(store.overview(2).wanted.len(), 1);
    store.store_log(log("10:05:01 [pid 8] no memory"));
    assert_eq!(store.assess(), before);
}

#[test]
fn checks_mounts_at_growing_intervals() {
    let mut store = listed();
    add_deployment(&mut store, 0);
    let pod = json!({
        "metadata": {"name": "p1", "namespace": "n", "uid": "p1", "labels": {"pod-template-hash": "5f"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ReplicaSet", "name": "api-5f", "uid": "o", "controller": true}]},
        "spec": {"volumes": [{"name": "etc", "secret": {"secretName": "etc"}}]},
        "status": {"containerStatuses": [creating()]},
    });
    store.pods[0].apply::<Partial<Pod>>(object(pod), observe_pod);
    assert!(store.overview(0).unexplained);
    let mut run_round = || {
        let queries = store.due_mount_queries();
        for query in &queries {
            store.store_missing_mounts(Found { uid: query.uid.clone(), absent: Vec::new() });
        }
        queries.len()
    };
    let counts: Vec<usize> = (0..9).map(|_| run_round()).collect();
    assert_eq!(counts, [0, 1, 1, 0, 1, 0, 0, 0, 1]);
    let absent = vec![Mount { kind: MountKind::Secret, name: "etc".into() }];
    store.store_missing_mounts(Found { uid: "p1".into(), absent });
    let message = store.assess().unwrap().workloads[0].trouble.clone().unwrap().message;
    assert_eq!(message, "p1: it mounts objects that do not exist: Secret etc");
    assert_eq!(store.due_mount_queries().len(), 1, "missing mounts are checked in every round");
}

/// A `DaemonSet` has run on three nodes, of which one is `NotReady`. The `DaemonSet` controller does not count that
/// node as desired, but osdpl must count it, to report the lost pod.
#[test]
fn counts_pods_that_a_daemon_set_lost_with_a_node() {
    let mut store = listed();
    let set = json!({
        "metadata": {"name": "agent", "namespace": "n", "annotations": {"meta.helm.sh/release-name": "nova"}},
        "status": {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2, "numberMisscheduled": 1},
    });
    store.workloads[0].apply::<Partial<Deployment>>(object(set), observe_workload(WorkloadKind::DaemonSet));
    let pod = json!({
        "metadata": {"name": "p3", "namespace": "n", "uid": "p3", "ownerReferences":
            [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "o", "controller": true}]},
        "spec": {"nodeName": "n3"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    });
    store.pods[0].apply::<Partial<Pod>>(object(pod), observe_pod);
    add(&mut store.nodes);
    store.nodes[0].apply::<Partial<Node>>(Event::InitDone, |_| None);
    let unknown = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-21T12:00:00Z"});
    let node = json!({"metadata": {"name": "n3"}, "status": {"conditions": [unknown]}});
    store.nodes[0].apply::<Partial<Node>>(object(node), |node| {
        Some((node.status.readiness(), osdpl_core::observed::Node::default()))
    });
    store.grace = Duration::from_secs(40);
    store.now = "2026-11-21T12:00:30Z".parse().unwrap();
    let health = store.assess().unwrap();
    let verdict = osdpl_core::health::assess(&health.workloads[0]);
    assert_eq!((verdict.status, verdict.ready.as_str()), (osdpl_core::api::ComponentHealth::Ready, "3/3"));
    assert_eq!((health.causes, store.next_loss()), (vec![], Some(Duration::from_secs(10))));
    store.now = "2026-11-21T12:00:40Z".parse().unwrap();
    assert_eq!(store.next_loss(), None);
    let health = store.assess().unwrap();
    let verdict = osdpl_core::health::assess(&health.workloads[0]);
    assert_eq!((verdict.ready.as_str(), verdict.reason.as_str()), ("2/3", "node n3 is NotReady"));
    assert_eq!(health.causes[0].message, "node n3: NotReady");
}
