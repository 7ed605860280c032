//! Changes of a running cloud, while users use its APIs and an instance.

use std::time::Duration;

use serde_json::json;

use crate::cloud::{Cloud, run};
use crate::instance::Instance;
use crate::probe::{INSTANCE, Probes, Report};

/// Each change of a running cloud reaches the pods. Meanwhile, the instance serves all requests. An API with one replica
/// is away for less time than a new pod needs to become ready, because the old pod serves until the new one is ready.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn changes_interrupt_no_instance_and_hardly_an_api() {
    let cloud = Cloud::find();
    let (original, instance) = (cloud.resource(), Instance::start(&cloud, "osdpl-day-2"));
    let launched = instance.launched_at();

    println!("one key of Keystone");
    let values = json!({"conf": {"keystone": {"token": {"expiration": 40000}}}});
    let key = json!({"services": {"keystone": {"releases": {"keystone": {"values": values}}}}});
    let (before, probes) = (cloud.pods(), Probes::start(&cloud, Some(&instance.url)));
    println!("  Ready after {:.1?}", cloud.change(&key));
    assert_setting(&cloud, "deployment/keystone-api", "/etc/keystone/keystone.conf", "expiration = 40000");
    assert_small_gaps(&probes.stop(), cloud.slowest_start(&before));

    println!("features.logging.debug, and the operator is killed while helm runs");
    let (before, probes) = (cloud.pods(), Probes::start(&cloud, Some(&instance.url)));
    let debug = json!({"features": {"logging": {"debug": true}}});
    let time = std::thread::scope(|scope| {
        scope.spawn(|| kill_operator_during_helm_run(&cloud));
        cloud.change(&debug)
    });
    println!("  Ready after {time:.1?}");
    assert_setting(&cloud, "deployment/nova-api-osapi", "/etc/nova/nova.conf", "debug = true");
    assert_small_gaps(&probes.stop(), cloud.slowest_start(&before));

    println!("both changes are reverted");
    let (before, probes) = (cloud.pods(), Probes::start(&cloud, Some(&instance.url)));
    println!("  Ready after {:.1?}", cloud.replace(&original));
    assert_small_gaps(&probes.stop(), cloud.slowest_start(&before));

    instance.check();
    assert_eq!(instance.launched_at(), launched, "the instance must run on");
}

/// Waits until the operator runs helm, and kills all pods of the operator without a grace period.
fn kill_operator_during_helm_run(cloud: &Cloud) {
    cloud.until_message("helm is running");
    let operator = ["delete", "pods", "-A", "-l", "app.kubernetes.io/name=osdpl"];
    let kill = [&operator[..], &["--force", "--grace-period=0", "--wait=false"]].concat();
    println!("  {}", run("kubectl", &kill, "").trim().replace('\n', "; "));
}

/// Checks that a file in a pod of this workload contains the setting.
fn assert_setting(cloud: &Cloud, workload: &str, file: &str, setting: &str) {
    let content = cloud.kubectl(&["exec", workload, "--", "cat", file]);
    assert!(content.contains(setting), "{file} in {workload} has no {setting:?}");
}

/// Checks that no API was away for longer than `start`, the time that the slowest new pod needed to become ready, and
/// that no request to the instance failed.
fn assert_small_gaps(reports: &[Report], start: Duration) {
    println!("    the slowest pod became ready {start:.0?} after its creation");
    for Report { name, failures, longest_gap, .. } in reports {
        assert!(*longest_gap < start, "{name} did not respond for {longest_gap:?}");
        assert!(name != INSTANCE || *failures == 0, "the instance did not respond to {failures} requests");
    }
}
