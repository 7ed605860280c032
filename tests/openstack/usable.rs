//! A cloud that is Ready can be used.

use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::instance::Instance;

/// The steps of `osdpl smoke` that every cloud with the preset core must pass.
const STEPS: [&str; 6] = ["image", "network", "instance", "boot", "console", "floating-ip"];

#[test]
#[ignore = "needs a real cloud: make test-real"]
fn users_can_use_the_cloud() {
    smoke(&Cloud::find(), &STEPS);
}

/// Runs `osdpl smoke`, and checks that these steps have passed.
pub fn smoke(cloud: &Cloud, steps: &[&str]) {
    let result: Value = serde_json::from_str(&cloud.smoke(&["--output", "json"])).unwrap();
    println!("osdpl smoke: {result:#}");
    for name in steps {
        let step = result["steps"].as_array().unwrap().iter().find(|step| step["name"] == *name);
        assert_eq!(step.map(|step| &step["result"]), Some(&Value::from("passed")), "{name}");
    }
}

#[test]
#[ignore = "needs a real cloud: make test-real"]
fn instance_gets_its_address_and_metadata() {
    let cloud = Cloud::find();
    drop(Instance::start(&cloud, "osdpl-usable"));
}

/// Users log in to the dashboard with a browser, and see their instances. The environment variable `BROWSER_IMAGE` names
/// an image with chromedriver and curl. Without it, the test does nothing.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn user_can_log_in_to_the_dashboard() {
    const BROWSER: &str = "osdpl-test-browser";
    let Ok(image) = std::env::var("BROWSER_IMAGE") else { return println!("BROWSER_IMAGE is not set") };
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-dashboard");
    // The pod has the same login as the client's pod.
    let client = &cloud.get(&["deployment", "openstack-client"])["spec"]["template"]["spec"]["containers"][0];
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": BROWSER},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": "browser",
            "image": image,
            "command": ["chromedriver", "--port=9515"],
            "env": client["env"],
            "envFrom": client["envFrom"],
        }]},
    });
    cloud.kubectl_with(&["apply", "-f", "-"], &pod.to_string());
    cloud.kubectl(&["wait", "--for=condition=Ready", "pod", BROWSER, "--timeout=300s"]);
    // With TLS, the dashboard expects https at the same port.
    let scheme = if cloud.authority().is_some() { "https" } else { "http" };
    let url = format!("{scheme}://horizon-int.{}.svc.cluster.local:80", cloud.namespace);
    let command = ["exec", "-i", BROWSER, "--", "bash", "-eu", "-s", "--", &url];
    let page = cloud.kubectl_with(&command, include_str!("browser.sh"));
    println!("after the login, the browser shows: {page}");
    cloud.kubectl(&["delete", "pod", BROWSER]);
    assert!(page.starts_with("Instances"), "{page}");
    assert!(page.contains("osdpl-dashboard") && page.contains("Active"), "{page}");
    drop(instance);
}

/// Tools that use `osdpl openrc` get a working login.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn openrc_logs_in() {
    let cloud = Cloud::find();
    let variables = cloud.osdpl(&["openrc", "--show-secrets"]);
    let users = cloud.script(&format!("{variables}\nopenstack user list -f value -c Name"), &[]);
    println!(
        "with the variables of osdpl openrc, the users are: {}",
        users.split_whitespace().collect::<Vec<_>>().join(", ")
    );
    assert!(users.lines().any(|name| name == "admin"), "{users}");
}
