//! TLS inside the cloud (`features.tls`), with certificates of cert-manager. `make test-real` runs these tests only if
//! the sample has the feature.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::cloud::{Cloud, try_run, until};

/// Sends a request to the URL `$1`, and prints the status code of the response. Fails if curl does not accept the
/// server's certificate. `$2` is a file with CA certificates.
const REQUEST: &str = r#"curl -s -o /dev/null -m 30 -w '%{http_code}' --cacert "$2" "$1""#;
/// The CA certificates of Debian, which do not contain the cloud's CA.
const PUBLIC: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Prints the serial number of the certificate that `$1` uses at the port `$2`. Fails if the certificate is not valid
/// for this name.
const SERVED: &str = r#"set -o pipefail
openssl s_client -connect "$1:$2" -CAfile "$OS_CACERT" -verify_return_error -verify_hostname "$1" < /dev/null |
  openssl x509 -noout -serial"#;
/// Prints the serial number of the certificate `$1`.
const SERIAL: &str = r#"openssl x509 -noout -serial <<< "$1""#;
/// Logs in to the database as Keystone does, but without the parameters of the connection that the arguments name.
/// Prints the cipher.
const DATABASE: &str = r#"
import re, sqlalchemy, sys
connection = re.search("^connection = (.*)$", open("/etc/keystone/keystone.conf").read(), re.MULTILINE)[1]
url = sqlalchemy.make_url(connection).difference_update_query(sys.argv[1:])
with sqlalchemy.create_engine(url).connect() as connection:
    print(connection.execute(sqlalchemy.text("SHOW STATUS LIKE 'Ssl_cipher'")).one()[1])
"#;
/// Sends the header of AMQP to the broker `$1`, and prints the type of the first frame of the response: 1 for a method.
/// `$2` is plain for a connection without TLS, tls for one with TLS, and certificate for one with a client certificate.
const BROKER: &str = r#"
import socket, ssl, sys
host, kind = sys.argv[1:]
connection = socket.create_connection((host, 5672), 30)
if kind != "plain":
    context = ssl.create_default_context(cafile="/etc/rabbitmq/certs/ca.crt")
    if kind == "certificate":
        context.load_cert_chain("/etc/rabbitmq/certs/tls.crt", "/etc/rabbitmq/certs/tls.key")
    connection = context.wrap_socket(connection, server_hostname=host)
connection.sendall(b"AMQP\0\0\x09\x01")
print(*connection.recv(1))
"#;

/// Finds the cloud, and panics if it has no TLS.
fn cloud() -> Cloud {
    let cloud = Cloud::find();
    let hint = "needs a cloud with TLS: make test-real SAMPLE=deploy/samples/real-tls.yaml";
    assert!(cloud.authority().is_some(), "{hint}");
    cloud
}

/// Runs a Python program in a pod of Keystone. Returns its standard output, or its output and standard error if it
/// fails.
fn python(cloud: &Cloud, program: &str, arguments: &[&str]) -> Result<String, String> {
    let command = ["-n", &cloud.namespace, "exec", "-i", "deployment/keystone-api", "--", "python3", "-"];
    Ok(try_run("kubectl", &[&command, arguments].concat(), program)?.trim().to_owned())
}

/// Every URL of an API uses https with a certificate of the cloud's CA for the name in the URL, and refuses http.
#[test]
#[ignore = "needs a real cloud with TLS: make test-real SAMPLE=deploy/samples/real-tls.yaml"]
fn apis_have_certificates_of_the_cloud() {
    let cloud = cloud();
    let list = cloud.script("openstack endpoint list --interface internal -f value -c URL; echo $OS_CACERT", &[]);
    let mut urls: Vec<&str> = list.lines().collect();
    let authority = urls.pop().expect("the script prints OS_CACERT at its end");
    assert!(urls.len() >= 5, "the cloud has too few APIs: {list}");
    // Keystone's catalogue contains neither the dashboard nor the metadata service.
    let others = [("horizon-int", 80), ("nova-metadata", 8775)]
        .map(|(name, port)| format!("https://{name}.{}.svc.cluster.local:{port}/", cloud.namespace));
    for url in urls.into_iter().chain(others.iter().map(String::as_str)) {
        // The path of some URLs contains a placeholder for the project.
        let url = url.split('%').next().unwrap();
        let plain = url.replacen("https://", "http://", 1);
        assert_ne!(url, plain, "the URL must use https");
        println!("{url} responds with {}", cloud.script(REQUEST, &[url, authority]));
        // nginx responds to http with this code, but not with that of the API.
        assert_eq!(cloud.script(REQUEST, &[&plain, authority]), "400", "{plain} must not accept http");
        assert!(cloud.try_script(REQUEST, &[url, PUBLIC]).is_err(), "{url} has a certificate of another CA");
    }
}

/// The database refuses Keystone's account without a client certificate, although the password is right.
#[test]
#[ignore = "needs a real cloud with TLS: make test-real SAMPLE=deploy/samples/real-tls.yaml"]
fn database_refuses_accounts_without_a_certificate() {
    let cloud = cloud();
    println!("with its certificate, Keystone uses {}", python(&cloud, DATABASE, &[]).unwrap());
    for without in [&["ssl_cert", "ssl_key"][..], &["ssl_cert", "ssl_key", "ssl_ca", "ssl_verify_cert"]] {
        let refused = python(&cloud, DATABASE, without).expect_err("the database must refuse the login");
        let reason = refused.lines().rfind(|line| line.contains("OperationalError")).unwrap_or(&refused);
        println!("without {without:?}: {reason}");
        // The error "Access denied for user".
        assert!(reason.contains("1045"), "{refused}");
    }
}

/// The broker speaks AMQP only over TLS, and only with clients that have a certificate.
#[test]
#[ignore = "needs a real cloud with TLS: make test-real SAMPLE=deploy/samples/real-tls.yaml"]
fn broker_refuses_clients_without_a_certificate() {
    let cloud = cloud();
    let host = format!("rabbitmq.{}.svc.cluster.local", cloud.namespace);
    assert_eq!(python(&cloud, BROKER, &[&host, "certificate"]).as_deref(), Ok("1"));
    for kind in ["tls", "plain"] {
        let response = python(&cloud, BROKER, &[&host, kind]);
        println!("{kind}: {response:?}");
        assert_ne!(response.as_deref(), Ok("1"), "the broker must not answer a client of the kind {kind}");
    }
}

/// cert-manager renews Keystone's certificate without an effect on running pods. A new pod uses the new certificate.
#[test]
#[ignore = "needs a real cloud with TLS: make test-real SAMPLE=deploy/samples/real-tls.yaml"]
fn new_pods_use_a_renewed_certificate() {
    const NAME: &str = "keystone-api-tls";
    let cloud = cloud();
    let host = format!("keystone-api.{}.svc.cluster.local", cloud.namespace);
    let served = || cloud.try_script(SERVED, &[&host, "5000"]);
    let certificate = "go-template={{index .data \"tls.crt\" | base64decode}}";
    let stored = || cloud.script(SERIAL, &[&cloud.kubectl(&["get", "secret", NAME, "-o", certificate])]);
    let (old, pods) = (stored(), cloud.pods());
    assert_eq!(served().as_ref(), Ok(&old), "Keystone must use the certificate in the Secret");

    renew(&cloud, NAME);
    let new = until("the Secret has another certificate", || Some(stored()).filter(|serial| *serial != old));
    println!("the certificate has the {}, and before its renewal it had the {}", new.trim(), old.trim());
    cloud.kubectl(&["wait", "--for=condition=Ready", "certificate", NAME, "--timeout=60s"]);
    cloud.until_ready();
    assert_eq!(cloud.pods(), pods, "a renewal must not restart pods");
    assert_eq!(served(), Ok(old), "running pods use the certificate that they have read at their start");

    cloud.kubectl(&["rollout", "restart", "deployment/keystone-api"]);
    cloud.kubectl(&["rollout", "status", "deployment/keystone-api", "--timeout=600s"]);
    until("Keystone uses the new certificate", || (served().as_ref() == Ok(&new)).then_some(()));
    cloud.until_ready();
    cloud.openstack(&["token", "issue"]);
}

/// Lets cert-manager renew a certificate now, like the command `cmctl renew`.
fn renew(cloud: &Cloud, name: &str) {
    let mut certificate = cloud.get(&["certificate", name]);
    let generation = certificate["metadata"]["generation"].clone();
    certificate["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "a test renews the certificate",
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "observedGeneration": generation,
    }));
    cloud.kubectl_with(&["replace", "--subresource=status", "-f", "-"], &certificate.to_string());
}
