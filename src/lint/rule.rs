//! The rules that a cloud must satisfy in addition to the schema of the CRD and the checks in the catalogue.
//!
//! Pure module. The operator, the webhook and every command apply the rules with [`check`].

mod address;
mod certificate;
mod classes;
mod connections;
mod controllers;
mod cron;
mod domain;
mod release;
mod replicas;
mod unknown;
mod values;

pub(crate) use certificate::check_secrets as check_certificate_secrets;
pub(crate) use release::{check_release_move, pinned_in_values_from};

pub use address::{check_network, names_networks};
pub use certificate::{CertificateCheck, SecretTexts, check_certificate, describe_problem};
pub use connections::count_connections;
pub use controllers::node_labels;

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use crate::cloud::Cloud;
use crate::overrides;
use osdpl_core::finding::Finding;

/// Returns the findings of all rules about a cloud.
///
/// The result does not contain the findings of [`osdpl_core::desired::resolve`]. The function checks the expiry of
/// certificates only if `now` is given.
pub(crate) fn check(cloud: &Cloud<'_>, now: Option<Timestamp>) -> Vec<Finding> {
    let mut found = values::check(cloud);
    found.extend(certificate::check_values(cloud, now));
    let counts = replicas::check(cloud);
    found.extend(counts.iter().map(|count| count.finding.clone()));
    found.extend(cron::check(cloud));
    found.extend(connections::check(cloud));
    found.extend(domain::check(cloud.spec));
    found.extend(address::check(cloud));
    found.extend(controllers::check(cloud));
    found.extend(classes::check(cloud));
    // One wrong map can cause many findings about unknown keys. Put them last, so that a report that shows only the
    // first findings still contains the other findings.
    let unknown = unknown::check(cloud);
    let unknown_fields: BTreeSet<&str> = unknown.iter().map(Finding::field).collect_set();
    let mut warnings = overrides::check(cloud);
    // A null under an unknown key causes two findings about the same field: `null-nothing` and `unknown-key`. Keep only
    // `unknown-key`.
    warnings.retain(|warning| warning.rule != "null-nothing" || !unknown_fields.contains(warning.field()));
    warnings.retain(|warning| !counts.iter().any(|count| count.covers(warning)));
    found.extend(warnings);
    found.extend(unknown);
    found
}

/// Returns the name and description of every rule.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    RULES.iter().copied().chain(overrides::KINDS)
}

const RULES: &[(&str, &str)] = &[
    ("resource", "Files contain osdpl resources, and no file defines a resource twice."),
    ("yaml", "The file is YAML."),
    ("field", "Every field exists in the custom resource definition."),
    ("schema", "Values have the types, bounds, patterns and enumerations of the custom resource definition."),
    ("cel", "The CEL rules of the custom resource definition hold."),
    ("catalogue", "Names exist in the catalogue, and the spec meets the catalogue's requirements and checks."),
    ("unknown-key", "Values use keys that exist in their chart."),
    ("values", "Values of different releases fit together, and numbers of pods are whole numbers."),
    ("cron", "Schedules are valid for Kubernetes CronJobs."),
    (
        "release-move",
        "The OpenStack release of a deployed cloud does not change: osdpl does not support such a change yet.",
    ),
    ("image-pinned", "No image is pinned when the OpenStack release changes."),
    ("certificate", "Certificates match their keys and hosts, are signed by a trusted CA, and have not expired."),
    ("connections", "The database accepts as many connections as all connection pools can open."),
    (
        "address",
        "Networks and addresses are valid, and networks overlap neither each other nor the networks of the cluster.",
    ),
    ("controllers", "The cluster has a node for each replica of a server, such as a database server."),
    ("storage-class", "StorageClasses of volume claims exist and support the access modes of the claims."),
    ("domain", "DNS, browsers and certificates accept host names below `spec.publicDomain`."),
];
