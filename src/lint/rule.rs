//! Validates resources: the CRD's schema and CEL rules as the API server applies them, the catalogue, and further
//! rules.
//!
//! Pure module. `osdpl validate` checks all of this offline. The webhook checks what the API server has not checked
//! already. The operator and `osdpl plan` check what goes beyond the catalogue ([`check`]).

mod address;
mod admission;
pub(crate) mod beside;
mod certificate;
mod classes;
mod connections;
mod controllers;
mod crd;
mod cron;
mod document;
mod domain;
mod fields;
mod file;
mod kinds;
mod metadata;
mod nulls;
mod place;
mod refused;
mod release;
mod replicas;
mod report;
mod schema;
mod unknown;
mod values;

pub use address::{check_network, names_networks};
pub use admission::spec_to_check;
pub use beside::missing_sources;
pub(crate) use certificate::check as check_certificates;
pub use certificate::{CertificateCheck, Held, check_certificate, describe_problem};
pub use connections::count_connections;
pub use controllers::labels as node_labels;
pub use crd::{Schemas, read_spec};
pub use document::{Kind, ReviewInput, is_deployment};
pub use file::{Content, Document, ParsedDocument, split_documents};
pub use kinds::{likely_mistake, objects};
pub use place::keys_of_field;
pub use release::{check_release_move, pinned_in_values_from};
pub use report::{Argument, Report, Summary, describe_kinds, report};

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::hazard::{self, Cloud};
use osdpl_core::finding::Finding;

/// Returns the findings of all rules about a cloud, beside those of [`osdpl_core::desired::resolve`].
///
/// Expiry is checked only if `now` is given.
pub fn check(cloud: &Cloud<'_>, now: Option<Timestamp>) -> Vec<Finding> {
    let mut found = values::check(cloud);
    found.extend(certificate::check_values(cloud, now));
    let counts = replicas::check(cloud);
    found.extend(counts.iter().map(|count| count.judged.clone()));
    found.extend(cron::check(cloud));
    found.extend(connections::check(cloud));
    found.extend(domain::check(cloud.spec));
    found.extend(address::check(cloud));
    found.extend(controllers::check(cloud));
    found.extend(classes::check(cloud));
    // One wrong map can cause many unknown keys: a shortened report begins with the other findings.
    let unknown = unknown::check(cloud);
    let fields: BTreeSet<&String> = unknown.iter().map(|finding| &finding.location.field).collect();
    let hazards = hazard::lint_warnings(cloud).into_iter();
    // An unknown key removes nothing anyway.
    let hazards = hazards.filter(|found| found.rule != "null-nothing" || !fields.contains(&found.location.field));
    found.extend(hazards.filter(|finding| !counts.iter().any(|count| count.covers(finding))));
    found.extend(unknown);
    found
}

/// Every rule's name and description.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    RULES.iter().copied().chain(hazard::KINDS)
}

const RULES: &[(&str, &str)] = &[
    ("resource", "Files contain osdpl resources, each under one name."),
    ("yaml", "The file is YAML."),
    ("field", "Every field exists in the custom resource definition."),
    ("schema", "Values have the types, bounds, patterns and enumerations of the custom resource definition."),
    ("cel", "The CEL rules of the custom resource definition hold."),
    ("catalogue", "Names exist in the catalogue, and its requirements and checks are met."),
    ("unknown-key", "Values use keys that exist in their chart."),
    ("values", "Values of different releases fit together, and numbers of pods are whole numbers."),
    ("cron", "Schedules are valid for Kubernetes CronJobs."),
    ("release-move", "The OpenStack release moves only along supported upgrade paths."),
    ("image-pinned", "No image is pinned when the OpenStack release moves."),
    ("certificate", "Certificates match their keys and hosts, are signed by a trusted CA, and have not expired."),
    ("connections", "The database accepts the connections of all connection pools."),
    ("address", "Networks and addresses are valid, and networks overlap neither each other nor the cluster's own."),
    ("controllers", "There are enough nodes for the configured servers."),
    ("storage-class", "StorageClasses of volume claims exist and support the access modes."),
    ("domain", "DNS names can be published in the public domain."),
];
