//! The changes that a soak test makes, and the writes that each change may cause.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{ComponentHealth, FORGET_NODES_ANNOTATION, OpenStackDeployment, REPAIR};
use serde_json::{Value, json};

use super::RACK;
use super::journal::{Cause, Journal, POD};
use crate::ceph::NEWER;
use crate::cloud::{NAME, StatusAccess, with_values};
use crate::fake_apis::FakeApis;
use crate::nodes::Nodes;
use crate::world::{World, now, with_timeout};

/// The number of kinds of changes. Each round lets a pod die, and then makes a change of one kind.
pub const KINDS: usize = 5;

/// The beginnings of the names of the pods that die, one in each round. In an even round the pod crashes, and in an odd
/// round it is deleted. Because the number of names is odd, a pod that crashed is deleted the next time, and vice
/// versa.
const VICTIMS: [&str; 9] = [
    "memcached-memcached-",
    "keystone-api-",
    "nova-compute-",
    "glance-api-",
    "mariadb-server-",
    "neutron-server-",
    "openvswitch-",
    "rabbitmq-rabbitmq-",
    "cinder-volume-",
];

/// The ConfigMap of mariadb's release that a person edits, and the key whose value the person changes.
const EDITED: (&str, &str) = ("mariadb-bin", "stand-in.sh");

/// The maximum number of writes after each kind of change: about twice the number that a soak test of an hour measured.
mod most {
    /// Writes after a pod dies: the operator reports that the pod does not work, and later that it works again.
    /// Measured: 4 to 5.
    pub const POD: usize = 10;
    /// Writes after a node joins. Measured: 8 to 9.
    pub const NODE_JOINS: usize = 18;
    /// Writes after a node leaves. Measured: 4 to 5.
    pub const NODE_LEAVES: usize = 10;
    /// Writes after a request to delete a host from Nova. Measured: 4.
    pub const HOST_IS_FORGOTTEN: usize = 8;
    /// Writes after a person edits an object. Measured: 2.
    pub const EDIT: usize = 5;
    /// Writes after a request to repair the edited object. Measured: 33 to 35.
    pub const REPAIR: usize = 70;
    /// Writes after a rotation of glance's key; glance's chart has many objects and hooks. Measured: 74 to 77.
    pub const KEY: usize = 150;
    /// Writes after a change of a value in the spec. Measured: 15 to 17.
    pub const VALUE: usize = 34;
}

/// A cloud in a soak test.
pub struct Soak<'a> {
    world: &'a World,
    server: &'a FakeApis,
    spec: Value,
    /// The node that a round has added, until a later round removes it.
    node: Option<Nodes<'a>>,
    pub journal: Journal,
}

/// Returns a cause after which the operator may write only the status and events, in at most `most` writes.
fn cause(what: String, most: usize) -> Cause {
    Cause { what, upgrades: None, writes: Vec::new(), most }
}

/// Whether the cloud is Ready, and each component is healthy.
fn is_healthy(cloud: &OpenStackDeployment) -> bool {
    let mut components = cloud.status().health.into_values().flat_map(std::collections::BTreeMap::into_values);
    cloud.is_ready() && components.all(|component| component.status == ComponentHealth::Ready)
}

impl<'a> Soak<'a> {
    pub fn new(world: &'a World, server: &'a FakeApis, spec: Value) -> Self {
        Self { world, server, spec, node: None, journal: Journal::default() }
    }

    /// Waits until the operator writes nothing more after the install.
    pub async fn settle(&self) {
        // This cause allows any number of writes, because the test checks only the writes that come later.
        let cause = cause("nothing: the cloud is installed".into(), usize::MAX);
        self.journal.record(self.world, cause, self.until_healthy()).await;
    }

    async fn until_healthy(&self) {
        self.world.until("all components are healthy", |cloud| is_healthy(cloud).then_some(())).await;
    }

    /// Lets a pod die, and then makes one more change, whose kind depends on `round`.
    pub async fn round(&mut self, round: usize) {
        self.kill_pod(VICTIMS[round % VICTIMS.len()], round.is_multiple_of(2)).await;
        match round % KINDS {
            0 => self.add_node(&format!("extra-{round}")).await,
            1 => self.rotate_key(round).await,
            2 => self.edit_by_hand(round).await,
            3 => self.change_value(round).await,
            _ => Box::pin(self.remove_node()).await,
        }
    }

    /// Removes the added node if no round has removed it, because later tests on this control plane do not expect the
    /// node.
    pub async fn finish(&mut self) {
        if self.node.is_some() {
            Box::pin(self.remove_node()).await;
        }
    }

    /// Lets a pod crash, or deletes it. Waits until the crashed pod works again, or until a new pod has replaced the
    /// deleted one.
    async fn kill_pod(&self, prefix: &str, crashes: bool) {
        let (world, api) = (self.world, self.world.api::<Pod>());
        let pods = pods(&api, prefix).await;
        // A simulated pod crashes only once, so choose a pod that has not crashed yet. If all have crashed, delete a
        // pod.
        let fresh = pods.iter().find(|pod| !has_restarted(pod)).filter(|_| crashes);
        let (victim, count, crashes) = (fresh.unwrap_or(&pods[0]).clone(), pods.len(), fresh.is_some());
        let what = format!("{POD}{}: {}", if crashes { "crashes" } else { "is deleted" }, victim.name_any());
        let change = async {
            if crashes {
                let annotation = json!({"metadata": {"annotations": {"kwok.osdpl.dev/behaviour": "fail-once"}}});
                let patch = Patch::Merge(annotation);
                api.patch(&victim.name_any(), &PatchParams::default(), &patch).await.unwrap();
            } else {
                api.delete(&victim.name_any(), &DeleteParams::default()).await.unwrap();
            }
            let recovered = async {
                loop {
                    let pods = self::pods(&api, prefix).await;
                    let same = pods.iter().find(|pod| pod.uid() == victim.uid());
                    let has_died = if crashes { same.is_some_and(has_restarted) } else { same.is_none() };
                    if has_died && pods.len() == count && pods.iter().all(is_pod_ready) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            with_timeout("the pod works again", recovered).await;
            self.until_healthy().await;
        };
        self.journal.record(world, cause(what, most::POD), change).await;
    }

    /// Adds a compute node. Waits until the operator has mapped the node's host in Nova, and until nova-compute on the
    /// node is ready.
    async fn add_node(&mut self, name: &str) {
        let world = self.world;
        let full = format!("{}-{name}", world.namespace);
        let writes = vec![("nodes", full.clone()), ("jobs", "nova-cell-setup-".to_owned())];
        let cause = Cause { writes, ..cause(format!("node joins: {full}"), most::NODE_JOINS) };
        let mut nodes = Nodes::of(world);
        let change = async {
            let began = now();
            self.server.nova.add_unmapped_compute(&full);
            nodes.add(name, json!({RACK.0: RACK.1})).await;
            let jobs = world.api::<Job>();
            let mapped = async {
                loop {
                    let jobs = jobs.list(&ListParams::default()).await.unwrap();
                    let is_new = |job: &Job| {
                        let created = job.creation_timestamp().is_some_and(|at| at.0.as_second() >= began.as_second());
                        created && job.name_any().starts_with("nova-cell-setup-")
                    };
                    if jobs.iter().any(is_new) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            with_timeout("the operator maps the host of the new node", mapped).await;
            self.server.nova.discover();
            let runs_on_node = |cloud: &OpenStackDeployment| {
                let ready = cloud.status().health.get("nova")?.get("compute")?.ready.clone();
                (ready == "4/4" && is_healthy(cloud)).then_some(())
            };
            world.until("the new node runs instances", runs_on_node).await;
        };
        self.journal.record(world, cause, change).await;
        self.node = Some(nodes);
    }

    /// Removes the node that [`Self::add_node`] added last, and then requests that the operator deletes the node's host
    /// from Nova.
    async fn remove_node(&mut self) {
        let (world, nodes) = (self.world, self.node.take().unwrap());
        let all = Api::<Node>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
        let name = all.iter().map(ResourceExt::name_any).find(|name| name.starts_with(&world.namespace)).unwrap();
        let leaves = async {
            self.server.nova.set_service(&name, "state", json!("down"));
            nodes.remove_all().await;
            self.delete_pods_on(&name).await;
            let is_noticed = |cloud: &OpenStackDeployment| {
                let message = cloud.condition("Ready")?.message;
                (message.contains("nova still lists host") && is_healthy(cloud)).then_some(())
            };
            world.until("the operator reports the host without a node", is_noticed).await;
        };
        let what = cause(format!("node leaves: {name}"), most::NODE_LEAVES);
        self.journal.record(world, what, Box::pin(leaves)).await;

        let resource = ("openstackdeployments", NAME.to_owned());
        let what = format!("host is forgotten: {name}");
        let forget = Cause { writes: vec![resource], ..cause(what, most::HOST_IS_FORGOTTEN) };
        let forgotten = async {
            world.annotate(FORGET_NODES_ANNOTATION, json!(name)).await;
            let is_done = |cloud: &OpenStackDeployment| {
                let has_warning = cloud.condition("Ready")?.message.contains("host");
                let is_consumed = !cloud.annotations().contains_key(FORGET_NODES_ANNOTATION);
                (is_consumed && !has_warning && is_healthy(cloud)).then_some(())
            };
            world.until("the host is forgotten", is_done).await;
        };
        self.journal.record(world, forget, forgotten).await;
    }

    /// Deletes the pods of a removed node at once. Otherwise the test would wait a minute until Kubernetes deletes
    /// them.
    async fn delete_pods_on(&self, node: &str) {
        let api = self.world.api::<Pod>();
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        for pod in api.list(&on_node).await.unwrap() {
            drop(api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.unwrap());
        }
    }

    /// Changes the key of Glance's user in Ceph.
    async fn rotate_key(&self, round: usize) {
        let world = self.world;
        let revision = world.deployments().get(NAME).await.unwrap().child("glance").revision.unwrap();
        let writes = vec![("secrets", "images-rbd-keyring".to_owned()), ("secrets", "sh.helm.".to_owned())];
        let what = format!("Ceph key is rotated: round {round}");
        let change = async {
            let is_odd = round / KINDS % 2 == 1;
            let pool = json!({"nova.pool": "vms"});
            let rotated = json!({"nova.pool": "vms", "glance.key": NEWER});
            world.describe_ceph(if is_odd { pool } else { rotated }).await;
            self.until_revision("glance", revision + 1).await;
        };
        let cause = Cause { what, upgrades: Some("glance"), writes, most: most::KEY };
        self.journal.record(world, cause, change).await;
    }

    async fn until_revision(&self, release: &str, revision: i64) {
        let is_current = |cloud: &OpenStackDeployment| {
            let child = cloud.child(release);
            (child.revision == Some(revision) && child.drift.is_empty() && is_healthy(cloud)).then_some(())
        };
        self.world.until(&format!("{release} has revision {revision}"), is_current).await;
    }

    /// Edits an object of mariadb's release by hand, and then requests that the operator repairs the object.
    async fn edit_by_hand(&self, round: usize) {
        let world = self.world;
        let edit = async |text: &str| {
            let patch = Patch::Merge(json!({"data": {EDITED.1: text}}));
            let by = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
            world.api::<ConfigMap>().patch(EDITED.0, &by, &patch).await.unwrap();
        };
        let until_drift = async |count: usize| {
            let has = |cloud: &OpenStackDeployment| (cloud.child("mariadb").drift.len() == count).then_some(());
            world.until(&format!("the status reports {count} edited objects"), has).await;
        };
        let edited = async {
            edit("exec false").await;
            until_drift(1).await;
        };
        let what = format!("object is edited by hand: round {round}");
        self.journal.record(world, cause(what, most::EDIT), edited).await;
        let revision = world.deployments().get(NAME).await.unwrap().child("mariadb").revision.unwrap();
        let writes = vec![("openstackdeployments", NAME.to_owned()), ("secrets", "sh.helm.".to_owned())];
        let what = format!("edit is repaired on request: round {round}");
        let repaired = async {
            world.annotate(REPAIR, json!("mariadb")).await;
            self.until_revision("mariadb", revision + 1).await;
        };
        let cause = Cause { what, upgrades: Some("mariadb"), writes, most: most::REPAIR };
        self.journal.record(world, cause, repaired).await;
    }

    /// Changes a value of memcached in the spec.
    async fn change_value(&mut self, round: usize) {
        let world = self.world;
        let revision = world.deployments().get(NAME).await.unwrap().child("memcached").revision.unwrap();
        let values = json!({"conf": {"memcached": {"memory": 300 + round}}});
        self.spec = with_values(self.spec.clone(), "memcached", values);
        let writes = vec![("secrets", "sh.helm.".to_owned())];
        let what = format!("value is changed: round {round}");
        let change = async {
            world.apply(&self.spec).await;
            self.until_revision("memcached", revision + 1).await;
        };
        let cause = Cause { what, upgrades: Some("memcached"), writes, most: most::VALUE };
        self.journal.record(world, cause, change).await;
    }
}

/// Returns the pods whose names begin with `prefix`, except for the pods of Jobs.
async fn pods(api: &Api<Pod>, prefix: &str) -> Vec<Pod> {
    let mut pods = api.list(&ListParams::default()).await.unwrap().items;
    let of_job = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.kind == "Job");
    pods.retain(|pod| pod.name_any().starts_with(prefix) && !of_job(pod));
    pods
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

fn has_restarted(pod: &Pod) -> bool {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.is_some_and(|all| all.iter().any(|one| one.restart_count > 0))
}
