//! Pods or the node die, and the cloud recovers without help.

use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::cloud::{Cloud, is_new, run, try_run, until};
use crate::instance::Instance;
use crate::probe::{INSTANCE, Probes};

#[test]
#[ignore = "needs a real cloud: make test-real"]
fn cloud_recovers_from_the_death_of_database_and_broker() {
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-failures");
    for (what, selector) in [
        ("the message broker", "application=rabbitmq,component=server"),
        ("the database", "application=mariadb,component=server"),
    ] {
        let before = cloud.pods();
        let probes = Probes::start(&cloud, Some(&instance.url));
        let begin = Instant::now();
        cloud.kubectl(&["delete", "pods", "-l", selector, "--force", "--grace-period=0"]);
        until(&format!("{what} has a new pod, which is ready"), || {
            let pods = cloud.get(&["pods", "-l", selector]);
            let pods = pods["items"].as_array().unwrap();
            (!pods.is_empty() && pods.iter().all(|pod| is_ready(pod) && is_new(pod, &before))).then_some(())
        });
        cloud.until_ready();
        println!("  {what} was killed; the cloud is Ready after {:.0?}", begin.elapsed());
        let reports = probes.stop();
        let lost = reports.iter().find(|report| report.name == INSTANCE).map(|report| report.failures);
        assert_eq!(lost, Some(0), "the instance must not notice the death of {what}");
        instance.check();
    }
    drop(instance);
    println!("{}", cloud.smoke(&[]));
}

/// After a power failure of the only node, all services return without an upgrade, and users can start their instances.
/// The environment variable `RESTART_NODE` contains the command that kills all processes of the node, and starts them
/// again. Without it, the test does nothing.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn cloud_recovers_from_a_power_failure_of_its_node() {
    let Ok(restart) = std::env::var("RESTART_NODE") else { return println!("RESTART_NODE is not set") };
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-power");
    let revisions = || cloud.get(&["secrets", "-l", "owner=helm"])["items"].as_array().unwrap().len();
    let (records, before, begin) = (revisions(), cloud.pods(), Timestamp::now());
    run("sh", &["-c", &restart], "");
    println!("  the node was restarted");
    until("all pods of workloads run again", || {
        let command = ["-n", &cloud.namespace, "get", "pods", "-o", "json"];
        let pods: Value = serde_json::from_str(&try_run("kubectl", &command, "").ok()?).ok()?;
        let pods = pods["items"]
            .as_array()?
            .iter()
            .filter(|pod| before.contains_key(pod["metadata"]["name"].as_str().unwrap_or_default()));
        let mut pods = pods.peekable();
        (pods.peek().is_some() && pods.all(|pod| is_ready(pod) && started_after(pod, begin))).then_some(())
    });
    cloud.until_ready();
    println!("  Ready {:.0} s after the power failure", Timestamp::now().duration_since(begin).as_secs_f32());
    assert_eq!(revisions(), records, "the operator must not upgrade any release");
    cloud.script("openstack server reboot --hard --wait $1", &["osdpl-power"]);
    instance.check();
    drop(instance);
    println!("{}", cloud.smoke(&[]));
}

/// Whether all containers of a pod have started after this time.
fn started_after(pod: &Value, time: Timestamp) -> bool {
    let start = |container: &Value| container["state"]["running"]["startedAt"].as_str()?.parse::<Timestamp>().ok();
    let containers = pod["status"]["containerStatuses"].as_array();
    containers.is_some_and(|all| all.iter().all(|container| start(container).is_some_and(|start| start > time)))
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
