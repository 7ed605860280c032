//! Checks what `osdpl validate` reports about certificates. The Secrets with the certificates and the
//! `OpenStackDeployment` are in the same file.

use std::fmt::Write as _;

use rcgen::generate_simple_self_signed;

use super::checked;

const HEAD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n  \
                    openstackRelease: '2026.1'\n  presets: [core]\n  publicDomain: cloud.example.org\n  features:\n";

/// Returns a Secret with a self-signed certificate for these names.
fn secret(namespace: &str, name: &str, names: &[&str]) -> String {
    let certificate =
        generate_simple_self_signed(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    let mut text =
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\nstringData:\n");
    for (key, pem) in [
        ("tls.crt", certificate.cert.pem()),
        ("tls.key", certificate.signing_key.serialize_pem()),
        ("ca.crt", certificate.cert.pem()),
    ] {
        let _ = writeln!(text, "  {key}: |");
        for line in pem.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Returns the findings about the certificates in these Secrets. Checks that osdpl has validated every Secret.
fn findings_of(features: &str, secrets: &[String]) -> Vec<String> {
    let report = checked(&[("cloud.yaml", &format!("{HEAD}{features}{}", secrets.concat()))]);
    assert_eq!(report.notes, Vec::<String>::new(), "osdpl must validate each Secret");
    let found = report.findings.iter().filter(|found| found.rule == "certificate");
    found.map(|found| format!("{} {}: {}", found.level.as_str(), found.field(), found.text())).collect()
}

#[test]
fn finds_public_certificate_in_the_gateway_namespace() {
    let features = "    publicEndpoints: {enabled: true, gateway: {name: public, namespace: gateways}}\n    \
                    tls: {public: {secretName: public-tls, issuer: {name: acme}}}\n";
    let of_other_host = |namespace| secret(namespace, "public-tls", &["elsewhere.example.org"]);
    assert_eq!(
        findings_of(features, &[of_other_host("openstack")]),
        Vec::<String>::new(),
        "there must be no finding, because the gateway does not use Secrets from the namespace openstack"
    );
    let found = findings_of(features, &[of_other_host("gateways")]);
    let expected = "error spec.features.tls.public.secretName: Secret gateways/public-tls: tls.crt is not valid for";
    assert!(found.len() == 1 && found[0].starts_with(&format!("{expected} ")), "{found:?}");
    assert!(
        found[0].contains(" keystone.cloud.example.org") && found[0].contains(" glance.cloud.example.org"),
        "{found:?}"
    );
    let right = secret("gateways", "public-tls", &["*.cloud.example.org"]);
    assert_eq!(findings_of(features, &[right]), Vec::<String>::new());
}

#[test]
fn checks_provided_internal_certificates() {
    let features = "    tls: {internal: {enabled: true, given: true}}\n";
    let host = "keystone-api.openstack.svc.cluster.local";
    let right = ["keystone-api", "keystone-api.openstack", host];
    assert_eq!(findings_of(features, &[secret("openstack", "keystone-api-tls", &right)]), Vec::<String>::new());
    let found = findings_of(features, &[secret("openstack", "keystone-api-tls", &right[..2])]);
    let expected =
        "error spec.features.tls.internal.given: Secret openstack/keystone-api-tls: tls.crt is not valid for";
    assert!(found.len() == 1 && found[0].starts_with(&format!("{expected} {host}: ")), "{found:?}");
    let without_ca = secret("openstack", "keystone-api-tls", &right).replace("  ca.crt:", "  authority.crt:");
    let found = findings_of(features, &[without_ca]);
    assert!(found.len() == 1 && found[0].contains("the entry ca.crt is missing; add it"), "{found:?}");
}

#[test]
fn checks_provided_database_certificates() {
    let features = "    tls: {given: true, database: true}\n";
    let host = "mariadb.openstack.svc.cluster.local";
    let server = |names: &[&str]| secret("openstack", "mariadb-tls-direct", names);
    assert_eq!(findings_of(features, &[server(&["mariadb", "mariadb.openstack", host])]), Vec::<String>::new());
    let found = findings_of(features, &[server(&["mariadb", "mariadb.openstack"])]);
    let expected = "error spec.features.tls.given: Secret openstack/mariadb-tls-direct: tls.crt is not valid for";
    assert!(found.len() == 1 && found[0].starts_with(&format!("{expected} {host}: ")), "{found:?}");
    let client = secret("openstack", "keystone-client", &["anybody"]);
    assert_eq!(
        findings_of(features, std::slice::from_ref(&client)),
        Vec::<String>::new(),
        "there must be no finding, because the names in a client certificate are not checked"
    );
    let found = findings_of(features, &[client.replace("  tls.key:", "  key:")]);
    assert!(
        found.len() == 1 && found[0].contains("openstack/keystone-client: the entry tls.key is missing"),
        "{found:?}"
    );
}
