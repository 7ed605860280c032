//! Changes of a running cloud, while users use its APIs and an instance.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cloud::{Cloud, kill_operator, until};
use crate::instance::Instance;
use crate::probe::{INSTANCE, Probes, Report};
use crate::usable::smoke;

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

/// A token stays valid while Keystone's Fernet keys are rotated, and all pods of Keystone get the new keys.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn tokens_outlive_a_rotation_of_the_fernet_keys() {
    const ROTATION: &str = "osdpl-test-rotation";
    let cloud = Cloud::find();
    let keys = || cloud.get(&["secret", "keystone-fernet-keys"])["data"].as_object().unwrap().clone();
    let before = keys();
    // Each request of the probes has the same token, which is older than the rotation.
    let probes = Probes::start(&cloud, None);

    cloud.kubectl(&["create", "job", ROTATION, "--from=cronjob/keystone-fernet-rotate"]);
    cloud.kubectl(&["wait", "--for=condition=Complete", "job", ROTATION, "--timeout=300s"]);
    cloud.kubectl(&["delete", "job", ROTATION]);
    let after = keys();
    let newest = |keys: &serde_json::Map<String, Value>| keys.keys().filter_map(|key| key.parse::<u32>().ok()).max();
    println!("the newest Fernet key was {:?}, and is {:?} after the rotation", newest(&before), newest(&after));
    assert!(newest(&after) > newest(&before), "the rotation must add a key");
    let newest = newest(&after).unwrap().to_string();

    // The kubelet updates the files of a mounted Secret once per minute.
    until("Keystone has the new key", || {
        let files = cloud.kubectl(&["exec", "deployment/keystone-api", "--", "ls", "/etc/keystone/fernet-keys"]);
        files.split_whitespace().any(|file| file == newest).then_some(())
    });
    cloud.openstack(&["token", "issue"]);
    for report in probes.stop() {
        assert_eq!(report.failures, 0, "{} must accept the older token", report.name);
    }
}

/// The services that a test adds to a running cloud. Each of them is also the name of its release.
const ADDED: [&str; 5] = ["heat", "barbican", "powerdns", "designate", "magnum"];

/// Requests the list of clusters from magnum.
const CLUSTERS: &str = r#"
token=$(openstack token issue -f value -c id)
url=$(openstack endpoint list --service container-infra --interface internal -f value -c URL)
curl -sSf -H "X-Auth-Token: $token" "$url/clusters""#;

/// Services that are added to a running cloud can be used, and their removal leaves the other services as they are.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn services_are_added_and_removed() {
    let cloud = Cloud::find();
    let (original, before) = (cloud.resource(), cloud.pods());
    println!("{} are added", ADDED.join(", "));
    let services: serde_json::Map<String, Value> =
        ADDED.iter().map(|name| ((*name).to_owned(), json!({"enabled": true}))).collect();
    let time = cloud.change(&json!({"services": services}));
    println!("  Ready after {time:.0?}");
    smoke(&cloud, &["stack", "secret", "zone"]);
    println!("  the clusters of magnum: {}", cloud.script(CLUSTERS, &[]).trim());

    println!("the services are removed");
    cloud.kubectl_with(&["replace", "-f", "-"], &original.to_string());
    println!("  {}", cloud.until_message("approv"));
    cloud.osdpl(&["approve"]);
    cloud.until_ready();
    let releases = cloud.get(&["osdpl", &cloud.name])["status"]["children"].as_object().unwrap().clone();
    assert!(ADDED.iter().all(|name| !releases.contains_key(*name)), "{:?}", releases.keys());
    // Pods of the removed services may still be ending.
    let after = cloud.pods();
    for (pod, uid) in &before {
        assert_eq!(after.get(pod), Some(uid), "{pod} must run on");
    }
}

/// Waits until the operator runs helm, and kills all pods of the operator without a grace period.
fn kill_operator_during_helm_run(cloud: &Cloud) {
    cloud.until_message("helm is running");
    kill_operator();
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
