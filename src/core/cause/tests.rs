use serde_json::{Value, json};

use super::*;
use crate::health::{job, pod, storage, workload};
use crate::observed::{Claim, ClaimPhase, Class};

/// Deployments, `DaemonSets`, Jobs and unready pods, in few words.
#[derive(Default)]
struct World {
    workloads: Vec<Workload>,
    jobs: Vec<JobSeen>,
    pods: Vec<Unready>,
    services: Vec<(String, BTreeMap<String, String>)>,
    claims: Vec<Claim>,
    classes: Vec<Class>,
    lost: Vec<String>,
}

impl World {
    fn workload(mut self, kind: WorkloadKind, component: &str, ready: i32) -> Self {
        let (application, own) = component.split_once('/').unwrap();
        let labels = json!({"application": application, "component": own});
        let metadata = json!({"name": own, "namespace": "n", "labels": labels,
            "annotations": {"meta.helm.sh/release-name": application}});
        let status = json!({"readyReplicas": ready, "numberReady": ready, "desiredNumberScheduled": 3});
        let read = |value: Value| serde_json::from_value(value).unwrap();
        let spec = serde_json::from_value(json!({"replicas": 1})).unwrap();
        let status = serde_json::from_value(status).unwrap();
        self.workloads.push(workload::observe(kind, &read(metadata), &spec, &status).unwrap());
        let labels = serde_json::from_value(labels).unwrap();
        self.services.push((own.to_owned(), labels));
        self
    }

    fn job(mut self, name: &str) -> Self {
        let metadata = json!({"name": name, "namespace": "n", "labels": {"release_group": "nova"}});
        let metadata = serde_json::from_value(metadata).unwrap();
        self.jobs.push(job::observe(&metadata, &job::Spec::default(), &job::Status::default()).unwrap());
        self
    }

    fn pod(mut self, kind: &str, owner: &str, node: &str, spec: &Value, status: &Value) -> Self {
        let metadata = json!({"name": format!("{owner}-0"), "namespace": "n", "uid": owner, "ownerReferences":
            [{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "o", "controller": true}]});
        let mut spec = spec.clone();
        spec["nodeName"] = if node.is_empty() { Value::Null } else { json!(node) };
        let metadata = serde_json::from_value(metadata).unwrap();
        let spec = serde_json::from_value(spec).unwrap();
        self.pods.push(pod::observe(&metadata, &spec, &serde_json::from_value(status.clone()).unwrap()).unwrap());
        self
    }

    /// A pod in its waiting init container, with this environment.
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

    /// A pod without a node, with these claims and these words of the scheduler.
    fn homeless(self, kind: &str, owner: &str, claims: &[&str], scheduler: &str) -> Self {
        let volumes: Vec<_> = claims.iter().map(|name| json!({"persistentVolumeClaim": {"claimName": name}})).collect();
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": scheduler});
        self.pod(kind, owner, "", &json!({"volumes": volumes}), &json!({"conditions": [condition]}))
    }

    /// What is told of the first workload, with whether it can't go on.
    fn told(&self) -> (String, bool) {
        self.seen(|scene| scene.of_workload(scene.workloads[0]))
    }

    /// The same of the first Job.
    fn told_of_job(&self) -> (String, bool) {
        self.seen(|scene| scene.of_job(scene.jobs[0]))
    }

    fn seen(&self, look: impl FnOnce(&Scene<'_>) -> Option<Chain>) -> (String, bool) {
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
        let scene = Scene { workloads, jobs, pods: &pods, services: Some(services), facts: &facts };
        let chain = look(&scene).unwrap();
        let told = if chain.is_victim() { chain.to_string() } else { chain.why.clone().unwrap_or_default() };
        (told, chain.stuck)
    }
}

mod claims;

use WorkloadKind::{DaemonSet, StatefulSet};

#[test]
fn the_chain_goes_through_pods_on_the_same_node_to_the_root() {
    let on_node = |application: &str, component: &str| {
        let labels = json!({"application": application, "component": component});
        json!({"DEPENDENCY_POD_JSON": json!([{"labels": labels, "requireSameNode": true}]).to_string()})
    };
    let told = World::default()
        .workload(DaemonSet, "nova/compute", 2)
        .workload(DaemonSet, "neutron/ovs-agent", 2)
        .workload(DaemonSet, "openvswitch/server", 2)
        .waits("DaemonSet", "compute", "n3", &on_node("neutron", "ovs-agent"))
        .waits("DaemonSet", "ovs-agent", "n3", &on_node("openvswitch", "server"))
        .pulls("DaemonSet", "server", "n3")
        .told();
    let expected =
        "waits for neutron/ovs-agent on n3 ← openvswitch/server on n3: server-0: ImagePullBackOff quay.io/none:1";
    assert_eq!(told, (expected.to_owned(), true));
}

#[test]
fn a_service_leads_to_what_is_behind_it_and_one_that_answers_is_passed_over() {
    let environment = json!({"DEPENDENCY_SERVICE": "n:cache,n:server"});
    let world = |ready| {
        World::default()
            .workload(StatefulSet, "keystone/api", 0)
            .workload(StatefulSet, "memcached/cache", 1)
            .workload(StatefulSet, "mariadb/server", ready)
            .waits("StatefulSet", "api", "n1", &environment)
    };
    let told = world(0).pulls("StatefulSet", "server", "n2").told();
    assert_eq!(told, ("waits for mariadb/server: server-0: ImagePullBackOff quay.io/none:1".to_owned(), true));
    assert_eq!(world(0).told().0, "waits for mariadb/server");
    assert_eq!(world(1).told().0, "api-0: waits in init container init");
}

#[test]
fn what_is_not_there_is_a_root() {
    for (variable, value, expected) in [
        ("DEPENDENCY_SERVICE", "n:none", "waits for Service none: it is not there"),
        ("DEPENDENCY_JOBS", "none", "waits for Job none: it is not there"),
        ("DEPENDENCY_JOBS_JSON", r#"[{"name": "none"}]"#, "waits for Job none: it is not there"),
        ("DEPENDENCY_DAEMONSET", "none", "waits for DaemonSet none: it is not there"),
        ("DEPENDENCY_JOBS", "db-sync", "waits for Job db-sync"),
        ("DEPENDENCY_POD_JSON", "nonsense", "api-0: waits in init container init"),
    ] {
        let world = World::default().workload(StatefulSet, "keystone/api", 0).job("db-sync");
        let told = world.waits("StatefulSet", "api", "n1", &json!({variable: value})).told();
        assert_eq!(told.0, expected, "{variable}");
    }
}

#[test]
fn those_who_wait_for_each_other_are_told_once_around() {
    let told = World::default()
        .workload(StatefulSet, "nova/api", 0)
        .workload(StatefulSet, "neutron/server", 0)
        .waits("StatefulSet", "api", "n1", &json!({"DEPENDENCY_SERVICE": "n:server"}))
        .waits("StatefulSet", "server", "n1", &json!({"DEPENDENCY_SERVICE": "n:api"}))
        .told();
    assert_eq!(told, ("waits for neutron/server ← nova/api: they wait for each other".to_owned(), true));
}

#[test]
fn what_a_jobs_own_release_lost_is_told_and_of_other_releases_nothing_is_guessed() {
    let environment = json!({"DEPENDENCY_SERVICE": "n:server"});
    let world = |release: &str| {
        let mut world = World::default().job("nova-wait").waits("Job", "nova-wait", "n1", &environment);
        let labels = json!({"application": "nova", "component": "server", "release_group": release});
        world.services.push(("server".into(), serde_json::from_value(labels).unwrap()));
        world.told_of_job()
    };
    assert_eq!(world("nova"), ("waits for nova/server: it was deleted".to_owned(), true));
    assert_eq!(world("other"), ("nova-wait-0: waits in init container init".to_owned(), false));
}

#[test]
fn a_node_that_is_not_there_is_the_root_whatever_its_pods_say() {
    let mut world = World::default()
        .workload(DaemonSet, "libvirt/libvirt", 2)
        .pulls("DaemonSet", "libvirt", "n3")
        .claim("c", None, "Pending");
    assert!(world.told().0.starts_with("libvirt-0: ImagePullBackOff"));
    world.lost.push("n3".into());
    assert_eq!(world.told(), ("waits for node n3: NotReady".to_owned(), false));
}
