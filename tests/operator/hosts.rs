//! The operator maps new compute hosts into their cell in Nova. If a person requests it, the operator deletes the hosts
//! of removed nodes from Nova and Neutron.

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
use crate::cloud::{BACKENDS, StatusAccess, services, with_values};
use crate::fake_apis::FakeApis;
use crate::nodes::Nodes;
use crate::world::{World, run_test, with_timeout};

/// Returns a spec with nova, but without libvirt and Open vSwitch: Nova's compute pods do not wait for the pods of
/// these two on their node. The spec has this effect only with the catalogue of [`without_node_dependencies`]. The
/// caller adds the [`BACKENDS`].
pub fn nova() -> Value {
    let compute = json!({"pod": [], "services": [{"endpoint": "internal", "service": "compute"}]});
    let dependencies = json!({
        "static": {"compute": compute}, "dynamic": {"targeted": {"openvswitch": {"compute": {"pod": []}}}},
    });
    let spec = services(&["keystone", "nova"]);
    with_values(spec, "nova", json!({"dependencies": dependencies}))
}

/// Returns the folder of a copy of the shipped catalogue. The copy lacks the entries that make nova's compute pods wait
/// for pods on the same node.
pub fn without_node_dependencies(world: &World) -> PathBuf {
    let folder = newer_catalogue(world);
    let file = folder.join("values/services/nova.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let is_needed = |line: &&str| !line.starts_with("    awaits: ") && !line.starts_with("    alongside: ");
    let lines: Vec<&str> = text.lines().filter(is_needed).collect();
    assert_eq!(lines.len() + 2, text.lines().count());
    std::fs::write(&file, lines.join("\n")).unwrap();
    folder
}

fn warning_with(text: &'static str) -> impl FnMut(&OpenStackDeployment) -> Option<String> {
    move |cloud| cloud.condition("Ready").map(|ready| ready.message).filter(|message| message.contains(text))
}

impl World {
    /// Returns the names of all Jobs that a `CronJob` owns. In these tests, the operator has created these Jobs from
    /// the `CronJob` nova-cell-setup.
    async fn cron_job_runs(&self) -> Vec<String> {
        let jobs = self.api::<Job>().list(&ListParams::default()).await.unwrap();
        let of_cron = |job: &Job| job.owner_references().iter().any(|owner| owner.kind == "CronJob");
        jobs.iter().filter(|job| of_cron(job)).map(ResourceExt::name_any).collect()
    }

    /// Waits for an event with this reason, and returns its message.
    async fn until_event(&self, reason: &str) -> String {
        let event = async {
            let mut events = pin!(watcher(self.api::<Event>(), watcher::Config::default()).applied_objects());
            loop {
                let event = events.next().await.unwrap().unwrap();
                if event.reason.as_deref() == Some(reason) {
                    return event.message.unwrap_or_default();
                }
            }
        };
        with_timeout(&format!("there is an event {reason}"), event).await
    }

    async fn until_job(&self, name: &str, is: impl Fn(&Job) -> bool) {
        let found =
            self.until_object::<Job>("the Job that maps new compute hosts has the expected state", name, |found| {
                found.is_some_and(&is)
            });
        Box::pin(found).await;
    }
}

/// Deletes a host from Nova and Neutron with `osdpl forget`. Checks that the command fails while the host's node
/// exists, and that the operator does not delete the host while Nova reports it as up or while it has instances.
async fn forget_host(world: &World, server: &FakeApis, nodes: &Api<Node>, host: &str) {
    let refused = world.osdpl_fails(&["forget", host]);
    assert_eq!(
        refused,
        format!("osdpl: node {host} still exists in the cluster; delete it first (kubectl delete node {host})\n")
    );
    server.nova.add_server(host, "instance", "ACTIVE");
    nodes.delete(host, &DeleteParams::default()).await.unwrap();
    world.osdpl(&["forget", host]);
    world.until("nova still reports the host as up", warning_with("is still up in Nova")).await;
    assert_eq!(server.nova.changes(), Vec::<String>::new());
    world.annotate(FORGET_NODES_ANNOTATION, Value::Null).await;
    server.nova.set_service(host, "state", json!("down"));
    let message = world
        .until(
            "the operator reports a host in Nova that has no node in the cluster",
            warning_with("nova still lists host"),
        )
        .await;
    assert!(message.contains(&format!("if the host was removed for good, run osdpl forget {host};")), "{message}");
    assert_eq!(server.nova.changes(), Vec::<String>::new(), "without a user's request, osdpl must not change Nova");

    world.annotate(FORGET_NODES_ANNOTATION, json!(format!("{host},nowhere"))).await;
    assert_eq!(
        world.until_event("HostNotForgotten").await,
        "osdpl did not delete the host of node nowhere from Nova and Neutron: nova knows no host of this name"
    );
    let message = world
        .until(
            "the operator reports that an instance prevents the deletion of the host",
            warning_with("is still a host of the cloud"),
        )
        .await;
    assert!(
        message.contains("Nova has instances on") && message.contains(": instance-name; evacuate or delete them"),
        "{message}"
    );
    server.nova.remove_server("instance");
    let is_consumed =
        |cloud: &OpenStackDeployment| (!cloud.annotations().contains_key(FORGET_NODES_ANNOTATION)).then_some(());
    world.until("the operator has removed the annotation", is_consumed).await;
    let has_no_warning = |cloud: &OpenStackDeployment| {
        cloud.condition("Ready").filter(|ready| !ready.message.contains("host")).map(drop)
    };
    world.until("the Ready condition no longer warns of a host", has_no_warning).await;
    assert_eq!(server.nova.changes(), [format!("delete os-services/compute-{host}")]);
    let note = format!("osdpl deleted host {host}: its nova-compute service and 0 Neutron agents");
    assert_eq!(world.until_event("HostForgotten").await, note);
}

#[test]
fn maps_new_hosts_and_removes_gone_ones_on_request() {
    run_test("hosts", async |world| {
        let server = FakeApis::start(&["identity", "compute"]).await;
        let nodes: Api<Node> = Api::all(world.client.clone());
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            server.nova.add_compute(&node.name_any());
        }
        let catalogue = without_node_dependencies(world);
        let operator = world.setup_with_fake_apis(&server).catalog(&catalogue).start().await;
        world.apply(&world.with_external(nova(), &BACKENDS).await).await;
        world.until_ready().await;
        assert_eq!(
            world.cron_job_runs().await,
            Vec::<String>::new(),
            "the operator must create no Job for hosts that the install of nova has mapped"
        );

        let hanging = Rule::new(&world.namespace, "nova-cell-setup-", "hang");
        world.cluster().behaviour("mapping", &hanging).await.unwrap();
        let mut nodes_of_test = Nodes::of(world);
        let late = format!("{}-late", world.namespace);
        server.nova.add_unmapped_compute(&late);
        nodes_of_test.add("late", json!({"openstack-compute-node": "enabled"})).await;
        let hash = digest([late.as_str(), &format!("compute-{late}"), "1"]);
        let job = format!("nova-cell-setup-{}", &hash[..8]);
        world.until_job(&job, |_| true).await;
        assert_eq!(
            world.until_event("MappingHosts").await,
            format!("Job {job} maps new compute hosts into their cell: {late}")
        );
        operator.kill();
        let _operator = world.setup_with_fake_apis(&server).catalog(&catalogue).start().await;
        server.nova.discover();
        world.cluster().remove_rule("mapping").await.unwrap();
        world.until_job(&job, |job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1))).await;

        forget_host(world, &server, &nodes, &late).await;
        assert_eq!(
            world.cron_job_runs().await,
            [job],
            "the restarted operator must not create a second Job for the same host"
        );
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
        let reported = events.iter().filter(|event| event.reason.as_deref() == Some("MappingHosts"));
        assert_eq!(reported.map(|event| event.count.unwrap_or(1)).sum::<i32>(), 1);
    });
}
