//! Certificates in the files beside a resource.

use std::fmt::Write as _;

use rcgen::generate_simple_self_signed;

use super::judged;

const HEAD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n  \
                    openstackRelease: '2026.1'\n  presets: [core]\n  publicDomain: cloud.example.org\n  features:\n";

/// A Secret with a certificate for these names, which is its own authority.
fn secret(namespace: &str, name: &str, names: &[&str]) -> String {
    let made = generate_simple_self_signed(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    let mut text =
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\nstringData:\n");
    for (key, pem) in
        [("tls.crt", made.cert.pem()), ("tls.key", made.signing_key.serialize_pem()), ("ca.crt", made.cert.pem())]
    {
        let _ = writeln!(text, "  {key}: |");
        for line in pem.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// What is said of certificates; all of the Secrets are said to be judged.
fn said(features: &str, secrets: &[String]) -> Vec<String> {
    let report = judged(&[("cloud.yaml", &format!("{HEAD}{features}{}", secrets.concat()))]);
    assert_eq!(report.notes, Vec::<String>::new(), "each Secret was looked at");
    let found = report.findings.iter().filter(|found| found.rule == "certificate");
    found.map(|found| format!("{} {}: {}", found.level, found.field, found.message)).collect()
}

#[test]
fn the_public_certificate_is_looked_for_in_the_gateways_namespace() {
    let features = "    publicEndpoints: {enabled: true, gateway: {name: public, namespace: gateways}}\n    \
                    tls: {public: {secretName: public-tls, issuer: {name: acme}}}\n";
    let wrong = |namespace| secret(namespace, "public-tls", &["elsewhere.example.org"]);
    assert_eq!(said(features, &[wrong("openstack")]), Vec::<String>::new(), "nobody asks for that one");
    let found = said(features, &[wrong("gateways")]);
    let place = "error spec.features.tls.public.secretName: Secret gateways/public-tls: tls.crt is not valid for";
    assert!(found.len() == 1 && found[0].starts_with(&format!("{place} ")), "{found:?}");
    assert!(
        found[0].contains(" keystone.cloud.example.org") && found[0].contains(" glance.cloud.example.org"),
        "{found:?}"
    );
    let right = secret("gateways", "public-tls", &["*.cloud.example.org"]);
    assert_eq!(said(features, &[right]), Vec::<String>::new());
}

#[test]
fn certificates_inside_of_the_cluster_are_judged_where_they_are_given() {
    let features = "    tls: {internal: {enabled: true, given: true}}\n";
    let host = "keystone-api.openstack.svc.cluster.local";
    let right = ["keystone-api", "keystone-api.openstack", host];
    assert_eq!(said(features, &[secret("openstack", "keystone-api-tls", &right)]), Vec::<String>::new());
    let found = said(features, &[secret("openstack", "keystone-api-tls", &right[..2])]);
    let place = "error spec.features.tls.internal.given: Secret openstack/keystone-api-tls: tls.crt is not valid for";
    assert!(found.len() == 1 && found[0].starts_with(&format!("{place} {host}: ")), "{found:?}");
    let stranger = secret("openstack", "keystone-api-tls", &right).replace("  ca.crt:", "  authority.crt:");
    let found = said(features, &[stranger]);
    assert!(found.len() == 1 && found[0].contains("there is no ca.crt in it; add it"), "{found:?}");
}

#[test]
fn certificates_of_the_database_and_its_clients_are_judged_where_they_are_given() {
    let features = "    tls: {given: true, database: true}\n";
    let host = "mariadb.openstack.svc.cluster.local";
    let server = |names: &[&str]| secret("openstack", "mariadb-tls-direct", names);
    assert_eq!(said(features, &[server(&["mariadb", "mariadb.openstack", host])]), Vec::<String>::new());
    let found = said(features, &[server(&["mariadb", "mariadb.openstack"])]);
    let place = "error spec.features.tls.given: Secret openstack/mariadb-tls-direct: tls.crt is not valid for";
    assert!(found.len() == 1 && found[0].starts_with(&format!("{place} {host}: ")), "{found:?}");
    let client = secret("openstack", "keystone-client", &["anybody"]);
    assert_eq!(said(features, std::slice::from_ref(&client)), Vec::<String>::new(), "nobody looks for its names");
    let found = said(features, &[client.replace("  tls.key:", "  key:")]);
    assert!(found.len() == 1 && found[0].contains("openstack/keystone-client: there is no tls.key in it"), "{found:?}");
}
