//! Changes of a running cloud, while users use its APIs and an instance.

use serde_json::json;

use crate::cloud::{Cloud, run};
use crate::instance::Instance;
use crate::probe::{Probes, Report};

/// Each change of a running cloud reaches the pods, and no request fails meanwhile, even with one replica: the old pod
/// serves until the new one is ready.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn changes_interrupt_no_api_and_no_instance() {
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-day-2");
    let launched = instance.launched_at();

    println!("one key of Keystone");
    let key = |value| json!({"services": {"keystone": {"releases": {"keystone": {"values": {"conf": {"keystone": {"token": {"expiration": value}}}}}}}}});
    let probes = Probes::start(&cloud, Some(&instance.url));
    println!("  Ready after {:.1?}", cloud.change(&key(json!(40000))));
    assert_setting(&cloud, "deployment/keystone-api", "/etc/keystone/keystone.conf", "expiration = 40000");
    assert_no_failure(&probes.stop());

    println!("features.logging.debug, and the operator is killed while helm runs");
    let probes = Probes::start(&cloud, Some(&instance.url));
    let killer = std::thread::spawn(kill_operator_during_helm_run);
    println!("  Ready after {:.1?}", cloud.change(&json!({"features": {"logging": {"debug": true}}})));
    killer.join().unwrap();
    assert_setting(&cloud, "deployment/nova-api-osapi", "/etc/nova/nova.conf", "debug = true");
    assert_no_failure(&probes.stop());

    println!("both changes are reverted");
    let probes = Probes::start(&cloud, Some(&instance.url));
    let mut before = key(json!(null));
    before["features"] = json!({"logging": {"debug": null}});
    println!("  Ready after {:.1?}", cloud.change(&before));
    assert_no_failure(&probes.stop());

    instance.check();
    assert_eq!(instance.launched_at(), launched, "the instance must run on");
}

/// Waits until the operator runs helm, and kills all pods of the operator without a grace period.
fn kill_operator_during_helm_run() {
    let status = ["get", "osdpl", "-A", "-o", "jsonpath={.items[0].status.message}"];
    let end = std::time::Instant::now() + crate::instance::PATIENCE;
    while !run("kubectl", &status, "").contains("helm is running") {
        assert!(std::time::Instant::now() < end, "the operator does not run helm");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let kill = ["-n", "osdpl-system", "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false"];
    println!("  {}", run("kubectl", &kill, "").trim().replace('\n', "; "));
}

/// Checks that a file in a pod of this workload contains the setting.
fn assert_setting(cloud: &Cloud, workload: &str, file: &str, setting: &str) {
    let content = cloud.kubectl(&["exec", workload, "--", "cat", file]);
    assert!(content.contains(setting), "{file} in {workload} has no {setting:?}");
}

fn assert_no_failure(reports: &[Report]) {
    let failed: Vec<_> = reports.iter().filter(|report| report.failures > 0).map(|report| &report.name).collect();
    assert!(failed.is_empty(), "requests failed: {failed:?}");
}
