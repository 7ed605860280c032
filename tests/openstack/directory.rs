//! Users in an LDAP directory.

use serde_json::json;

use crate::cloud::Cloud;

/// The name of the directory's pod, Service and Secret.
const NAME: &str = "osdpl-test-directory";
/// The password of the directory's only user. The directory exists only during the test.
const PASSWORD: &str = "osdpl-test-directory-password";

/// Logs in as a user of the domain corp, with the name `$1` and the password `$2`.
const LOG_IN: &str = r#"
for variable in $(env | grep -o '^OS_[A-Z_]*DOMAIN[A-Z_]*'); do unset "$variable"; done
export OS_USERNAME="$1" OS_PASSWORD="$2" OS_USER_DOMAIN_NAME=corp
export OS_PROJECT_NAME=osdpl-directory OS_PROJECT_DOMAIN_ID=default
openstack token issue -f value -c user_id"#;

/// Users of an LDAP directory log in with their own passwords, and get their roles through a group of the directory. The
/// environment variable `DIRECTORY_IMAGE` names an image with slapd. Without it, the test does nothing.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn users_of_a_directory_log_in() {
    let Ok(image) = std::env::var("DIRECTORY_IMAGE") else { return println!("DIRECTORY_IMAGE is not set") };
    let cloud = Cloud::find();
    let original = cloud.resource();
    create_directory(&cloud, &image);

    let time = cloud.change(&json!({"features": {"identity": {"ldap": [{
        "name": "corp",
        "url": format!("ldap://{NAME}.{}.svc.cluster.local", cloud.namespace),
        "bindDn": "cn=admin,dc=example,dc=org",
        "passwordSecret": {"name": NAME, "key": "password"},
        "suffix": "dc=example,dc=org",
        "userTreeDn": "ou=people,dc=example,dc=org",
        "groupTreeDn": "ou=groups,dc=example,dc=org",
    }]}}}));
    println!("the domain of the directory is Ready after {time:.0?}");
    cloud.script("openstack project create osdpl-directory", &[]);
    let grant = "openstack role add --project osdpl-directory --group engineers --group-domain corp member";
    cloud.script(grant, &[]);
    let user = cloud.script(LOG_IN, &["ada", PASSWORD]);
    println!("ada logs in as the user {}", user.trim());
    let refused = cloud.try_script(LOG_IN, &["ada", "wrong"]).expect_err("a wrong password must be refused");
    println!("with a wrong password: {}", refused.trim());
    assert!(refused.contains("HTTP 401"), "{refused}");

    cloud.script("openstack project delete osdpl-directory", &[]);
    println!("without the directory, the cloud is Ready after {:.0?}", cloud.replace(&original));
    cloud.script("openstack domain set --disable corp && openstack domain delete corp", &[]);
    cloud.kubectl(&["delete", "pod,service,secret", NAME]);
}

/// Creates an LDAP server in a pod, and waits until it is ready.
fn create_directory(cloud: &Cloud, image: &str) {
    let metadata = json!({"name": NAME, "labels": {"app": NAME}});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": "directory",
            "image": image,
            "command": ["sh", "-c", include_str!("directory.sh")],
            "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": NAME, "key": "password"}}}],
            "readinessProbe": {"tcpSocket": {"port": 389}},
        }]},
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 389}]},
    });
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": PASSWORD}});
    for object in [secret, service, pod] {
        cloud.kubectl_with(&["apply", "-f", "-"], &object.to_string());
    }
    cloud.kubectl(&["wait", "--for=condition=Ready", "pod", NAME, "--timeout=300s"]);
}
