//! Detach, adoption, deletion, and a second installation in the same namespace.

use std::time::Instant;

use serde_json::json;

use crate::cloud::{Cloud, kill_operator, try_run, until};
use crate::instance::Instance;
use crate::probe::Probes;

/// A detached cloud keeps running. osdpl describes and adopts it again, and no pod restarts. Afterwards, the cloud has
/// the spec of this description.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn cloud_is_detached_and_adopted_without_a_restart() {
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-life-cycle");
    let before = cloud.pods();
    let probes = Probes::start(&cloud, Some(&instance.url));

    // With the webhook, the API server refuses the deletion. Without the webhook, the deletion waits.
    let delete = ["-n", &cloud.namespace, "delete", "osdpl", &cloud.name, "--wait=false"];
    let reason = match try_run("kubectl", &delete, "") {
        Err(refused) => refused,
        Ok(_) => cloud.until_message("instances"),
    };
    println!("with an instance, nothing is deleted: {}", reason.trim());
    assert!(reason.contains("osdpl-life-cycle"), "{reason}");

    println!("{}", cloud.osdpl(&["detach", "--all"]));
    cloud.kubectl(&["wait", "--for=delete", &format!("osdpl/{}", cloud.name), "--timeout=300s"]);
    assert_eq!(cloud.pods(), before, "the pods of a detached cloud run on");

    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    println!("{}", cloud.osdpl(&["adopt", "--out", path]));
    cloud.kubectl(&["apply", "--server-side", "-f", path]);
    println!("{}", cloud.osdpl(&["plan"]));
    println!("{}", cloud.osdpl(&["adopt", "--all"]));
    let cloud = Cloud::find_any();
    println!("Ready after {:.0?}", cloud.change(&json!({"paused": false})));
    assert_eq!(cloud.pods(), before, "an adoption must restart no pod");
    for report in probes.stop() {
        assert_eq!(report.failures, 0, "{}", report.name);
    }
}

/// A cloud that was deleted with the policy Retain returns with the same keys, passwords and records.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn retained_cloud_returns_with_its_keys_and_records() {
    const KEYS: [&str; 3] = ["keystone-fernet-keys", "keystone-credential-keys", "cloud-credentials-keystone"];
    let cloud = Cloud::find();
    cloud.openstack(&["project", "create", "osdpl-retained"]);
    let keys = |cloud: &Cloud| KEYS.map(|name| cloud.get(&["secret", name])["data"].clone());
    let before = keys(&cloud);
    delete_and_apply(&cloud, "Retain", || cloud.until_ready());
    for (name, (before, after)) in KEYS.iter().zip(before.iter().zip(keys(&cloud))) {
        assert!(*before == after, "the Secret {name} has another content than before the deletion");
    }
    cloud.script("openstack project delete osdpl-retained", &[]);
}

/// A cloud that was deleted with the policy Purge can be installed again in the same namespace, even if the operator is
/// killed whenever a release has become ready.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn purged_cloud_is_installed_again_in_its_namespace() {
    let cloud = Cloud::find();
    cloud.openstack(&["project", "create", "osdpl-purged"]);
    delete_and_apply(&cloud, "Purge", || kill_operator_until_ready(&cloud));
    let projects = cloud.script("openstack project list -f value -c Name", &[]);
    assert!(!projects.contains("osdpl-purged"), "{projects}");
    println!("{}", cloud.smoke(&[]));
}

/// Kills all pods of the operator whenever another release has become ready, until the cloud is Ready.
fn kill_operator_until_ready(cloud: &Cloud) {
    let (mut before, mut kills) = (0, 0);
    until("all releases are ready", || {
        let status = cloud.get(&["osdpl", &cloud.name])["status"].clone();
        let (ready, all) = status["releases"].as_str()?.split_once('/')?;
        let (ready, all): (u32, u32) = (ready.parse().ok()?, all.parse().ok()?);
        if ready > before && ready < all {
            kill_operator();
            kills += 1;
        }
        before = ready;
        (ready == all).then_some(())
    });
    println!("the operator was killed {kills} times during the install");
    assert!(kills > 0, "the operator must be killed during the install");
    cloud.until_ready();
}

/// Deletes the cloud with this deletion policy, prints what is left in its namespace, applies its resource again, and
/// calls `until_ready`, which waits until the cloud is Ready.
fn delete_and_apply(cloud: &Cloud, policy: &str, until_ready: impl Fn()) {
    let resource = cloud.resource();
    cloud.change(&json!({"deletionPolicy": policy}));
    let begin = Instant::now();
    cloud.kubectl(&["delete", "osdpl", &cloud.name, "--timeout=900s"]);
    println!("the cloud was deleted with the policy {policy} in {:.0?}; the namespace contains:", begin.elapsed());
    println!("{}", cloud.kubectl(&["get", "pods,jobs,pvc,secrets,configmaps,services", "-o", "name"]));
    let begin = Instant::now();
    cloud.kubectl_with(&["apply", "--server-side", "-f", "-"], &resource.to_string());
    until_ready();
    println!("applied again, the cloud is Ready after {:.0?}", begin.elapsed());
}
