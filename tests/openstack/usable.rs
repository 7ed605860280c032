//! A cloud that is Ready can be used.

use serde_json::Value;

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
    let result: Value = serde_json::from_str(&cloud.osdpl(&["smoke", "--output", "json"])).unwrap();
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

/// Logs in to the dashboard as a browser does, and reads a page that needs the APIs of Keystone and Nova.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn user_can_log_in_to_the_dashboard() {
    const LOGIN: &str = r#"
cd /tmp; rm -f cookies
base=http://horizon-int.$1.svc.cluster.local
page() { curl -s -L -m 60 -b cookies -c cookies "$@"; }
page "$base/auth/login/" > login.html
token=$(grep -o 'name="csrfmiddlewaretoken" value="[^"]*"' login.html | head -n 1 | cut -d '"' -f 4)
region=$(grep -o 'name="region" value="[^"]*"' login.html | head -n 1 | cut -d '"' -f 4)
page -e "$base/auth/login/" --data-urlencode "csrfmiddlewaretoken=$token" --data-urlencode "region=${region:-default}" \
  --data-urlencode "domain=$OS_USER_DOMAIN_NAME" --data-urlencode "username=$OS_USERNAME" \
  --data-urlencode "password=$OS_PASSWORD" "$base/auth/login/" > /dev/null
page "$base/project/instances/"
rm -f cookies login.html"#;
    let cloud = Cloud::find();
    let page = cloud.script(LOGIN, &[&cloud.namespace]);
    let title = page.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or_default().trim();
    println!("after the login, the dashboard shows the page {title:?}");
    assert!(title.starts_with("Instances"), "{page}");
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
