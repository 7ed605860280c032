//! A maintenance moves an instance to another node while the instance runs.

use std::time::Instant;

use serde_json::{Value, json};

use crate::cloud::{Cloud, try_run, until};
use crate::instance::Instance;
use crate::probe::{INSTANCE, Probes};

/// The name of the test's `NodeMaintenance`.
const MAINTENANCE: &str = "osdpl-test";

/// A maintenance migrates the instances of a node live: they run on, on another node. After the maintenance, the node
/// takes instances again. The migration interrupts the instance for a moment, so the test only prints how long the
/// instance did not respond.
#[test]
#[ignore = "needs a real cloud with two computes: make test-real NODES=2"]
fn maintenance_migrates_an_instance_live() {
    let cloud = Cloud::find();
    let computes = enabled_computes(&cloud);
    assert!(
        computes.len() > 1,
        "{computes:?}: the test needs two computes: make test-real NODES=2 SAMPLE=deploy/samples/real-two-nodes.yaml"
    );
    let source = movable(&cloud, &computes);
    let instance = Instance::start(&cloud, "osdpl-migration");
    if instance.host() != source {
        instance.migrate(&source);
    }
    let launched = instance.launched_at();

    let (probes, begin) = (Probes::start(&cloud, Some(&instance.url)), Instant::now());
    let maintenance = Maintenance::start(&cloud, &source);
    maintenance.until_ready_to_drain();
    let host = instance.host();
    println!("  the instance runs on {host}, and {source} can be drained, after {:.0?}", begin.elapsed());
    assert_ne!(host, source);
    assert!(!enabled_computes(&cloud).contains(&source), "nova must not start instances on {source}");
    instance.check();
    let reports = probes.stop();
    let gap = reports.iter().find(|report| report.name == INSTANCE).map(|report| report.longest_gap);
    println!("  the longest time without a response of the instance was {:.1?}", gap.unwrap());
    assert_runs_on(&instance, &launched);

    let begin = Instant::now();
    drop(maintenance);
    println!("  {source} is part of the cloud again, after {:.0?}", begin.elapsed());
    assert!(enabled_computes(&cloud).contains(&source), "nova must start instances on {source} again");
    instance.migrate(&source);
    instance.check();
    assert_runs_on(&instance, &launched);
}

/// Checks that the instance was neither created again nor rebooted on its present node. An instance that boots writes
/// into the log of its console, and the log of a migrated instance begins empty on the new node.
fn assert_runs_on(instance: &Instance<'_>, launched: &Value) {
    assert_eq!(instance.launched_at(), *launched, "the instance must run on");
    let console = instance.console();
    assert!(!console.contains("guest: ready"), "the instance must not boot on its new node: {console}");
}

/// Returns the names of the hosts on which nova may start instances.
fn enabled_computes(cloud: &Cloud) -> Vec<String> {
    let services = cloud.openstack(&["compute", "service", "list", "--service", "nova-compute"]);
    let usable = |service: &&Value| service["Status"] == "enabled" && service["State"] == "up";
    let services = services.as_array().unwrap().iter().filter(usable);
    services.map(|service| service["Host"].as_str().unwrap().to_owned()).collect()
}

/// Returns a compute that can be in maintenance. osdpl refuses the maintenance of a node with the only pod of a
/// database or broker.
fn movable(cloud: &Cloud, computes: &[String]) -> String {
    let only_node = |application: &str| {
        let pods = cloud.get(&["pods", "-l", &format!("application={application},component=server")]);
        let [pod] = pods["items"].as_array().unwrap().as_slice() else { return None };
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    };
    let needed: Vec<String> = ["mariadb", "rabbitmq"].into_iter().filter_map(only_node).collect();
    let found = computes.iter().find(|compute| !needed.iter().any(|node| node == node_of(compute)));
    found.unwrap_or_else(|| panic!("each of {computes:?} has the only pod of a database or broker: {needed:?}")).clone()
}

/// Returns the name of the node of a compute, which is the first label of the compute's host name.
fn node_of(compute: &str) -> &str {
    compute.split('.').next().unwrap_or(compute)
}

/// A `NodeMaintenance`, which is deleted at the end of the test.
struct Maintenance<'a>(&'a Cloud);

impl<'a> Maintenance<'a> {
    fn start(cloud: &'a Cloud, compute: &str) -> Self {
        let resource = json!({
            "apiVersion": "osdpl.dev/v1alpha1",
            "kind": "NodeMaintenance",
            "metadata": {"name": MAINTENANCE},
            "spec": {"node": node_of(compute), "reason": "a test"},
        });
        cloud.kubectl_with(&["apply", "--server-side", "-f", "-"], &resource.to_string());
        Self(cloud)
    }

    /// Waits until the node is empty and can be drained. Prints each new message of the maintenance.
    fn until_ready_to_drain(&self) {
        let mut last = String::new();
        until("the node can be drained", || {
            let status = self.0.get(&["nodemaintenance", MAINTENANCE])["status"].clone();
            let message = format!("{}: {}", status["phase"], status["message"]);
            if message != last {
                println!("    {message}");
                last = message;
            }
            let is_true = |kind: &str| {
                let mut conditions = status["conditions"].as_array().into_iter().flatten();
                conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            assert!(!is_true("Blocked"), "the maintenance needs help: {status:#}");
            is_true("ReadyToDrain").then_some(())
        });
    }
}

impl Drop for Maintenance<'_> {
    fn drop(&mut self) {
        // The deletion completes when osdpl has returned the node to the cloud.
        let deleted = try_run("kubectl", &["delete", "nodemaintenance", MAINTENANCE, "--timeout=900s"], "");
        match deleted {
            Err(error) if !std::thread::panicking() => panic!("the maintenance does not end: {error}"),
            Err(error) => println!("  the maintenance does not end: {error}"),
            Ok(_) => {}
        }
    }
}
