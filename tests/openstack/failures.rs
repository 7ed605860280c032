//! Pods die, and the cloud recovers without help.

use std::time::Instant;

use serde_json::Value;

use crate::cloud::{Cloud, is_new, until};
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
    println!("{}", cloud.osdpl(&["smoke"]));
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
