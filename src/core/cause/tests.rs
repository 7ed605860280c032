use serde_json::{Value, json};

use super::*;
use crate::health::{job, pod, storage, workload};
use crate::observed::{Claim, ClaimPhase, Class};
use crate::scrub::Scrubber;

/// The objects of a simulated cluster. Each test adds the objects that it needs.
#[derive(Default)]
struct Cluster {
    workloads: Vec<Workload>,
    jobs: Vec<ObservedJob>,
    pods: Vec<UnreadyPod>,
    services: Vec<(String, BTreeMap<String, String>)>,
    claims: Vec<Claim>,
    classes: Vec<Class>,
    lost: Vec<String>,
}

impl Cluster {
    fn workload(mut self, kind: WorkloadKind, component: &str, ready: i32) -> Self {
        let (application, own) = component.split_once('/').unwrap();
        let labels = json!({"application": application, "component": own});
        let metadata = json!({"name": own, "namespace": "n", "labels": labels,
            "annotations": {"meta.helm.sh/release-name": application}});
        let status = json!({"readyReplicas": ready, "numberReady": ready, "desiredNumberScheduled": 3});
        let read = |value: Value| serde_json::from_value(value).unwrap();
        let spec = serde_json::from_value(json!({"replicas": 1})).unwrap();
        let status = serde_json::from_value(status).unwrap();
        let observed = workload::observe(kind, &read(metadata), &spec, &status, &Scrubber::default());
        self.workloads.push(observed.unwrap());
        let labels = serde_json::from_value(labels).unwrap();
        self.services.push((own.to_owned(), labels));
        self
    }

    fn job(mut self, name: &str) -> Self {
        let metadata = json!({"name": name, "namespace": "n", "labels": {"release_group": "nova"}});
        let metadata = serde_json::from_value(metadata).unwrap();
        let (spec, status) = (job::Spec::default(), job::Status::default());
        self.jobs.push(job::observe(&metadata, &spec, &status, &Scrubber::default()).unwrap());
        self
    }

    fn pod(mut self, kind: &str, owner: &str, node: &str, spec: &Value, status: &Value) -> Self {
        let metadata = json!({"name": format!("{owner}-0"), "namespace": "n", "uid": owner, "ownerReferences":
            [{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "o", "controller": true}]});
        let mut spec = spec.clone();
        spec["nodeName"] = if node.is_empty() { Value::Null } else { json!(node) };
        let metadata = serde_json::from_value(metadata).unwrap();
        let spec = serde_json::from_value(spec).unwrap();
        let status = serde_json::from_value(status.clone()).unwrap();
        self.pods.push(pod::observe(&metadata, &spec, &status, &Scrubber::default()).unwrap());
        self
    }

    /// Adds a pod of `owner` with an init container that waits for dependencies. `environment` contains the container's
    /// environment variables, which name the dependencies.
    fn waits(self, kind: &str, owner: &str, node: &str, environment: &Value) -> Self {
        let mut all = json!({"DEPENDENCY_SERVICE": ""});
        all.as_object_mut().unwrap().extend(environment.as_object().unwrap().clone());
        let env: Vec<Value> =
            all.as_object().unwrap().iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let spec = json!({"initContainers": [{"name": "init", "image": "entrypoint", "env": env}]});
        let status = json!({"phase": "Pending", "initContainerStatuses": [{"name": "init", "state": {"running": {}}}]});
        self.pod(kind, owner, node, &spec, &status)
    }

    fn pulls(self, kind: &str, owner: &str, node: &str) -> Self {
        let spec = json!({"containers": [{"name": "main", "image": "quay.io/none:1"}]});
        let status = json!({"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}]});
        self.pod(kind, owner, node, &spec, &status)
    }

    fn claim(mut self, name: &str, class: Option<&str>, phase: &str) -> Self {
        let metadata = serde_json::from_value(json!({"name": name, "namespace": "n"})).unwrap();
        let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": "10Gi"}}});
        let (spec, status) =
            (serde_json::from_value(spec).unwrap(), serde_json::from_value(json!({"phase": phase})).unwrap());
        self.claims.extend(storage::claim(&metadata, &spec, &status));
        self
    }

    fn class(mut self, name: &str) -> Self {
        let metadata = serde_json::from_value(json!({"name": name})).unwrap();
        self.classes.extend(storage::class(&metadata, "example.com/disks"));
        self
    }

    /// Adds a pod of `owner` that mounts `claims` and that the scheduler can't place. `scheduler` is the scheduler's
    /// message.
    fn unschedulable(self, kind: &str, owner: &str, claims: &[&str], scheduler: &str) -> Self {
        let volumes: Vec<_> = claims.iter().map(|name| json!({"persistentVolumeClaim": {"claimName": name}})).collect();
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": scheduler});
        self.pod(kind, owner, "", &json!({"volumes": volumes}), &json!({"conditions": [condition]}))
    }

    /// Returns the message about the root cause of the first workload in the cluster, and whether a person must fix
    /// this root cause.
    fn workload_cause(&self) -> (String, bool) {
        self.cause(|scene| scene.workload_chain(scene.workloads[0]))
    }

    /// Returns the message about the root cause of the first Job in the cluster, and whether a person must fix this
    /// root cause.
    fn job_cause(&self) -> (String, bool) {
        self.cause(|scene| scene.job_chain(scene.jobs[0]))
    }

    fn cause(&self, find: impl FnOnce(&Input<'_>) -> Option<Chain>) -> (String, bool) {
        let mut pods = Pods::new();
        for pod in &self.pods {
            pods.entry(("n", pod.owner.kind, &pod.owner.name)).or_default().push(pod);
        }
        let services = self.services.iter().map(|(name, selector)| (("n", name.as_str()), selector)).collect();
        let claims = self.claims.iter().map(|claim| ((claim.namespace.as_str(), claim.name.as_str()), claim)).collect();
        let classes = Some(self.classes.iter().map(|class| (class.name.as_str(), class)).collect());
        let nodes = Some(self.lost.iter().map(|name| (name.as_str(), false)).collect());
        let facts = Facts { claims, classes, nodes, ..Facts::default() };
        let (workloads, jobs) = (self.workloads.iter().collect(), self.jobs.iter().collect());
        let scene = Input { workloads, jobs, pods: &pods, services: Some(services), facts: &facts };
        let chain = find(&scene).unwrap();
        let cause = if chain.is_affected() { chain.to_string() } else { chain.why.clone().unwrap_or_default() };
        (cause, chain.stuck)
    }
}

use WorkloadKind::{DaemonSet, StatefulSet};

#[test]
fn follows_pods_on_the_same_node() {
    let on_node = |application: &str, component: &str| {
        let labels = json!({"application": application, "component": component});
        json!({"DEPENDENCY_POD_JSON": json!([{"labels": labels, "requireSameNode": true}]).to_string()})
    };
    let cause = Cluster::default()
        .workload(DaemonSet, "nova/compute", 2)
        .workload(DaemonSet, "neutron/ovs-agent", 2)
        .workload(DaemonSet, "openvswitch/server", 2)
        .waits("DaemonSet", "compute", "n3", &on_node("neutron", "ovs-agent"))
        .waits("DaemonSet", "ovs-agent", "n3", &on_node("openvswitch", "server"))
        .pulls("DaemonSet", "server", "n3")
        .workload_cause();
    let expected =
        "waits for neutron/ovs-agent on n3 ← openvswitch/server on n3: server-0: ImagePullBackOff quay.io/none:1";
    assert_eq!(cause, (expected.to_owned(), true));
}

#[test]
fn follows_services_and_skips_ready_ones() {
    let environment = json!({"DEPENDENCY_SERVICE": "n:cache,n:server"});
    let fixture = |ready| {
        Cluster::default()
            .workload(StatefulSet, "keystone/api", 0)
            .workload(StatefulSet, "memcached/cache", 1)
            .workload(StatefulSet, "mariadb/server", ready)
            .waits("StatefulSet", "api", "n1", &environment)
    };
    let cause = fixture(0).pulls("StatefulSet", "server", "n2").workload_cause();
    assert_eq!(cause, ("waits for mariadb/server: server-0: ImagePullBackOff quay.io/none:1".to_owned(), true));
    assert_eq!(fixture(0).workload_cause().0, "waits for mariadb/server");
    assert_eq!(fixture(1).workload_cause().0, "api-0: waits in init container init");
}

#[test]
fn missing_dependencies_are_root_causes() {
    for (variable, value, expected) in [
        ("DEPENDENCY_SERVICE", "n:none", "waits for Service none: it does not exist"),
        ("DEPENDENCY_JOBS", "none", "waits for Job none: it does not exist"),
        ("DEPENDENCY_JOBS_JSON", r#"[{"name": "none"}]"#, "waits for Job none: it does not exist"),
        ("DEPENDENCY_DAEMONSET", "none", "waits for DaemonSet none: it does not exist"),
        ("DEPENDENCY_JOBS", "db-sync", "waits for Job db-sync"),
        ("DEPENDENCY_POD_JSON", "nonsense", "api-0: waits in init container init"),
    ] {
        let fixture = Cluster::default().workload(StatefulSet, "keystone/api", 0).job("db-sync");
        let cause = fixture.waits("StatefulSet", "api", "n1", &json!({variable: value})).workload_cause();
        assert_eq!(cause.0, expected, "{variable}");
    }
}

#[test]
fn reports_cycles_once() {
    let cause = Cluster::default()
        .workload(StatefulSet, "nova/api", 0)
        .workload(StatefulSet, "neutron/server", 0)
        .waits("StatefulSet", "api", "n1", &json!({"DEPENDENCY_SERVICE": "n:server"}))
        .waits("StatefulSet", "server", "n1", &json!({"DEPENDENCY_SERVICE": "n:api"}))
        .workload_cause();
    let expected = "waits for neutron/server ← nova/api: it is part of a cycle of objects that wait for each other";
    assert_eq!(cause, (expected.to_owned(), true));
}

#[test]
fn reports_deleted_workloads_of_the_same_release() {
    let environment = json!({"DEPENDENCY_SERVICE": "n:server"});
    let fixture = |release: &str| {
        let mut fixture = Cluster::default().job("nova-wait").waits("Job", "nova-wait", "n1", &environment);
        let labels = json!({"application": "nova", "component": "server", "release_group": release});
        fixture.services.push(("server".into(), serde_json::from_value(labels).unwrap()));
        fixture.job_cause()
    };
    assert_eq!(fixture("nova"), ("waits for nova/server: it was deleted".to_owned(), true));
    assert_eq!(fixture("other"), ("nova-wait-0: waits in init container init".to_owned(), false));
}

#[test]
fn lost_node_takes_precedence_over_pod_errors() {
    let mut fixture = Cluster::default()
        .workload(DaemonSet, "libvirt/libvirt", 2)
        .pulls("DaemonSet", "libvirt", "n3")
        .claim("c", None, "Pending");
    assert!(fixture.workload_cause().0.starts_with("libvirt-0: ImagePullBackOff"));
    fixture.lost.push("n3".into());
    assert_eq!(fixture.workload_cause(), ("waits for node n3: NotReady".to_owned(), false));
}

const UNBOUND: &str = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";

#[test]
fn missing_class_lists_commands_to_fix() {
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("nope"), "Pending");
    let cause = fixture.unschedulable("StatefulSet", "server", &["data-server-0"], UNBOUND).workload_cause();
    let expected = "server-0: claim data-server-0 (10Gi) is not bound: StorageClass \"nope\" does not exist; create the StorageClass, or delete the objects that request the volume \
                    (kubectl -n n delete statefulset server; kubectl -n n delete pvc data-server-0) and then set spec.storageClass to an existing StorageClass";
    assert_eq!(cause, (expected.to_owned(), true));
}

#[test]
fn keeps_pods_with_bound_claims() {
    let fixture =
        Cluster::default().claim("data-server-0", Some("old"), "Bound").claim("data-server-1", Some("nope"), "Pending");
    let bound = Claim { phase: ClaimPhase::Bound, name: "data-server-0".into(), ..fixture.claims[0].clone() };
    let cause = deletion_commands([&bound, &fixture.claims[0]].into_iter(), "n", "server");
    let expected = "kubectl -n n delete statefulset server --cascade=orphan (its pods keep running); kubectl -n n delete pvc data-server-1 --wait=false; \
                    kubectl -n n delete pod server-1";
    assert_eq!(cause, expected);
}

#[test]
fn names_each_pod_once() {
    let fixture = Cluster::default().claim("data-server-0", Some("nope"), "Pending");
    let claim = |name: &str, phase| Claim { phase, name: name.into(), ..fixture.claims[0].clone() };
    let claims = [
        claim("data-server-0", ClaimPhase::Pending),
        claim("data-server-1", ClaimPhase::Pending),
        claim("logs-server-0", ClaimPhase::Pending),
        claim("logs-server-1", ClaimPhase::Bound),
    ];
    let commands = deletion_commands(claims.iter(), "n", "server");
    let expected = "kubectl -n n delete pvc data-server-0 data-server-1 logs-server-0 --wait=false; kubectl -n n delete pod server-0 server-1";
    assert!(commands.ends_with(expected), "{commands}");
}

#[test]
fn lost_claim_needs_a_person() {
    let message = "0/3 nodes are available: persistentvolumeclaim \"data-server-0\" bound to non-existent persistentvolume \"v\".";
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Lost");
    let cause = fixture.unschedulable("StatefulSet", "server", &["data-server-0"], message).workload_cause();
    let expected = "server-0: claim data-server-0 (10Gi) is not bound: its volume and its data are lost; restore the PersistentVolume if the storage still has the data, \
                    or delete the claim and the pod to get an empty volume (kubectl -n n delete pvc data-server-0 --wait=false; kubectl -n n delete pod server-0)";
    assert_eq!(cause, (expected.to_owned(), true));
}

#[test]
fn deletes_only_the_claim_of_a_chart() {
    let fixture = Cluster::default().workload(DaemonSet, "glance/api", 0).claim("images-1", Some("nope"), "Pending");
    let (cause, _) = fixture.unschedulable("DaemonSet", "api", &["images-1"], UNBOUND).workload_cause();
    assert!(cause.contains("(kubectl -n n delete pvc images-1)"), "{cause}");
}

#[test]
fn reports_missing_default_class() {
    let fixture = Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", None, "Pending");
    let (cause, stuck) =
        fixture.class("disks").unschedulable("StatefulSet", "server", &["data-server-0"], UNBOUND).workload_cause();
    let problem =
        "the claim names no StorageClass, and no StorageClass is the default; mark a StorageClass as the default, or";
    assert!(stuck && cause.contains(problem), "{cause}");
}

#[test]
fn reports_provisioner_without_volume() {
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Pending");
    let fixture = fixture.class("disks").unschedulable("StatefulSet", "server", &["data-server-0"], UNBOUND);
    let expected = "server-0: claim data-server-0 (10Gi) is not bound: StorageClass \"disks\" (example.com/disks) has not created a volume yet";
    assert_eq!(fixture.workload_cause(), (expected.to_owned(), false));
}

#[test]
fn claim_that_waits_for_its_pod_is_not_the_cause() {
    let message = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Pending");
    let (cause, stuck) =
        fixture.class("disks").unschedulable("StatefulSet", "server", &["data-server-0"], message).workload_cause();
    assert!(stuck && cause.ends_with(&format!("it cannot be scheduled: {message}")), "{cause}");
}
