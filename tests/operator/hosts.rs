//! Computes that come, and computes that are gone for good.

use std::path::PathBuf;
use std::pin::pin;

use cluster::Rule;
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use osdpl_core::api::{FORGET_NODES_ANNOTATION, OpenStackDeployment};
use osdpl_values::digest;
use serde_json::{Value, json};

use crate::approval::newer_catalogue;
use crate::cloud::{Told, services, with_values};
use crate::nodes::Nodes;
use crate::standin::StandIn;
use crate::world::{World, patience, story};

/// Nova without what its computes wait for on their own node, to go with [`alone`].
fn nova() -> Value {
    let compute = json!({"pod": [], "services": [{"endpoint": "internal", "service": "compute"}]});
    let dependencies = json!({
        "static": {"compute": compute}, "dynamic": {"targeted": {"openvswitch": {"compute": {"pod": []}}}},
    });
    let spec = services(&["keystone", "mariadb", "memcached", "nova", "rabbitmq"]);
    with_values(spec, "nova", json!({"dependencies": dependencies}))
}

/// A copy of the shipped catalogue in which nova needs nothing of what its computes wait for.
fn alone(world: &World) -> PathBuf {
    let folder = newer_catalogue(world);
    let file = folder.join("values/services/nova.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let is_kept = |line: &&str| !line.starts_with("    awaits: ") && !line.starts_with("    alongside: ");
    let kept: Vec<&str> = text.lines().filter(is_kept).collect();
    assert_eq!(kept.len() + 2, text.lines().count());
    std::fs::write(&file, kept.join("\n")).unwrap();
    folder
}

fn says(words: &'static str) -> impl FnMut(&OpenStackDeployment) -> Option<String> {
    move |cloud| cloud.condition("Ready").map(|ready| ready.message).filter(|message| message.contains(words))
}

impl World {
    /// The Jobs that were made of the `CronJob`.
    async fn runs(&self) -> Vec<String> {
        let jobs = self.api::<Job>().list(&ListParams::default()).await.unwrap();
        let of_cron = |job: &Job| job.owner_references().iter().any(|owner| owner.kind == "CronJob");
        jobs.iter().filter(|job| of_cron(job)).map(ResourceExt::name_any).collect()
    }

    /// What an event of this reason says, once there is one.
    async fn until_note(&self, reason: &str) -> String {
        let note = async {
            let mut seen = pin!(watcher(self.api::<Event>(), watcher::Config::default()).applied_objects());
            loop {
                let event = seen.next().await.unwrap().unwrap();
                if event.reason.as_deref() == Some(reason) {
                    return event.message.unwrap_or_default();
                }
            }
        };
        patience(&format!("an event {reason}"), note).await
    }

    async fn until_job(&self, name: &str, is: impl Fn(&Job) -> bool) {
        let found = self.until_object::<Job>("the Job is as it should be", name, |found| found.is_some_and(&is));
        Box::pin(found).await;
    }
}

#[test]
fn a_new_compute_is_mapped_at_once_and_one_that_is_gone_is_forgotten_when_a_person_says_so() {
    story("hosts", async |world| {
        let server = StandIn::start(&["identity", "compute"]).await;
        let nodes: Api<Node> = Api::all(world.client.clone());
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            server.nova.compute(&node.name_any());
        }
        let catalogue = alone(world);
        let operator = world.asking(&server).catalog(&catalogue).start().await;
        world.apply(&nova()).await;
        world.until_ready().await;
        assert_eq!(world.runs().await, Vec::<String>::new(), "whoever was there was mapped by the install");

        let held = Rule::new(&world.namespace, "nova-cell-setup-", "hang");
        world.cluster().behaviour("mapping", &held).await.unwrap();
        let mut own = Nodes::of(world);
        let late = format!("{}-late", world.namespace);
        server.nova.new_compute(&late);
        own.join("late", json!({"openstack-compute-node": "enabled"})).await;
        let hash = digest([late.as_str(), &format!("compute-{late}"), "1"]);
        let job = format!("nova-cell-setup-{}", &hash[..8]);
        world.until_job(&job, |_| true).await;
        assert_eq!(
            world.until_note("MappingHosts").await,
            format!("Job {job} maps new compute hosts into their cell: {late}")
        );
        operator.kill();
        let _operator = world.asking(&server).catalog(&catalogue).start().await;
        server.nova.discover();
        world.cluster().mend("mapping").await.unwrap();
        world.until_job(&job, |job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1))).await;

        let refused = world.osdpl_fails(&["forget", &late]);
        assert_eq!(
            refused,
            format!("osdpl: {late} is a node of the cluster: delete it first (kubectl delete node {late})\n")
        );
        server.nova.server(&late, "guest", "ACTIVE");
        nodes.delete(&late, &DeleteParams::default()).await.unwrap();
        world.osdpl(&["forget", &late]);
        world.until("nova has not missed it yet", says("is still up in nova")).await;
        assert_eq!(server.nova.changes(), Vec::<String>::new());
        world.annotate(FORGET_NODES_ANNOTATION, Value::Null).await;
        server.nova.set_service(&late, "state", json!("down"));
        let said = world.until("the host without a node is told", says("nova still lists host")).await;
        assert!(said.contains(&format!("when it is gone for good: osdpl forget {late};")), "{said}");
        assert_eq!(server.nova.changes(), Vec::<String>::new(), "nobody asks for it any more");

        world.annotate(FORGET_NODES_ANNOTATION, json!(format!("{late},nowhere"))).await;
        assert_eq!(
            world.until_note("HostNotForgotten").await,
            "host of node nowhere is not deleted from Nova and Neutron: nova knows no host of this name"
        );
        let said = world.until("an instance keeps it", says("is not forgotten yet")).await;
        assert!(
            said.contains("nova has instances on") && said.contains(": guest-name; evacuate or delete them"),
            "{said}"
        );
        server.nova.remove_server("guest");
        let spent =
            |cloud: &OpenStackDeployment| (!cloud.annotations().contains_key(FORGET_NODES_ANNOTATION)).then_some(());
        world.until("it is forgotten", spent).await;
        let quiet = |cloud: &OpenStackDeployment| {
            cloud.condition("Ready").filter(|ready| !ready.message.contains("host")).map(drop)
        };
        world.until("nothing is left to tell", quiet).await;
        assert_eq!(server.nova.changes(), [format!("delete os-services/compute-{late}")]);
        let note = format!("deleted host {late}: its nova-compute service and 0 Neutron agents");
        assert_eq!(world.until_note("HostForgotten").await, note);
        assert_eq!(world.runs().await, [job], "one Job for one compute, whoever was killed in between");
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
        let told = events.iter().filter(|event| event.reason.as_deref() == Some("MappingHosts"));
        assert_eq!(told.map(|event| event.count.unwrap_or(1)).sum::<i32>(), 1);
    });
}
