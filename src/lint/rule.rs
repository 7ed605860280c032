//! What a resource is judged by, everything at once: the CRD's schema and rules as the API server applies them, the catalogue, and rules of our own.
//!
//! Pure room. `osdpl validate` asks all of it offline, the webhook what the API server has not judged already, the operator and `osdpl plan`
//! what goes beyond the catalogue ([`judge`]).

mod address;
mod admission;
mod beside;
mod certificate;
mod classes;
mod connections;
mod controllers;
mod cron;
mod document;
mod domain;
mod fields;
mod file;
mod kinds;
mod lacking;
mod made_up;
mod metadata;
mod nulls;
mod place;
mod refused;
mod release;
mod replicas;
mod report;
mod schema;
mod served;
mod sound;
mod unknown;
mod values;

pub use address::{check_network, names_networks};
pub use admission::asked;
pub use beside::unseen;
pub use certificate::{Examined, Held, examine, told};
pub use connections::connections;
pub use controllers::labels as node_labels;
pub use document::{Kind, Question, Schemas, is_ours};
pub use file::{Content, Document, Read, split};
pub use kinds::{meant, objects};
pub use made_up::made_up_beside;
pub use place::keys_of;
pub use release::{moved, moves_from, pinned_beside};
pub use report::{Finding as Reported, Named, Report, Summary, other_kinds, report};
pub use served::read_spec;

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::hazard::{self, Cloud};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{self, Desired, Facts, Finding, Selection};

/// Something that a rule says of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Judged {
    /// The rule's name, one of [`rules`].
    pub rule: &'static str,
    /// Whether it is refused.
    pub level: Level,
    /// The field: `spec.services.nova`; the whole resource where empty.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Judged {
    /// Something that is refused.
    pub fn error(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, level: Level::Error, field: field.into(), message: message.into() }
    }

    /// Something that is carried out, and should be known.
    pub fn warning(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, level: Level::Warning, field: field.into(), message: message.into() }
    }

    fn of(rule: &'static str, finding: Finding) -> Self {
        Self { rule, level: finding.level, field: finding.field, message: finding.message }
    }
}

impl From<Judged> for Finding {
    fn from(judged: Judged) -> Self {
        Self { level: judged.level, field: judged.field, message: judged.message }
    }
}

/// What our own rules say of a cloud, beside what [`osdpl_core::desired::resolve`] finds; of what has run out only where it is known what time it is.
pub fn judge(cloud: &Cloud<'_>, now: Option<Timestamp>) -> Vec<Judged> {
    let mut found = values::judge(cloud);
    found.extend(certificate::written(cloud, now));
    let counts = replicas::judge(cloud);
    found.extend(counts.iter().map(|count| count.judged.clone()));
    found.extend(cron::judge(cloud));
    found.extend(connections::judge(cloud));
    found.extend(domain::judge(cloud.spec));
    found.extend(address::judge(cloud));
    found.extend(controllers::judge(cloud));
    found.extend(classes::judge(cloud));
    // Of one wrong map there may be many: what is told in part begins with the others.
    let unknown = unknown::judge(cloud);
    let fields: BTreeSet<&String> = unknown.iter().map(|told| &told.field).collect();
    let hazards = hazard::hazards(cloud).into_iter();
    // That nothing is removed by it goes without saying.
    let hazards = hazards.filter(|found| found.kind != "null-nothing" || !fields.contains(&found.field));
    let hazards = hazards.map(|found| Judged::warning(found.kind, found.field, found.message));
    found.extend(hazards.filter(|told| !counts.iter().any(|count| count.covers(told))));
    found.extend(unknown);
    found
}

/// What a selection comes to, with what our rules say of it among the findings.
pub fn resolve(spec: &OpenStackDeploymentSpec, catalog: &Catalog, selection: &Selection, facts: &Facts) -> Desired {
    let mut layered = desired::layered(spec, catalog, selection, facts);
    let judged = judge(&Cloud::new(spec, catalog, selection, facts, &layered), None);
    layered.desired.findings.extend(judged.into_iter().map(Finding::from));
    layered.desired
}

/// Every rule by its name, with one line for people.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    RULES.iter().copied().chain(hazard::KINDS)
}

const RULES: &[(&str, &str)] = &[
    ("resource", "What is named holds something to judge."),
    ("yaml", "The file is YAML."),
    ("field", "Every field is one that the custom resource definition knows."),
    (
        "schema",
        "Types, bounds, patterns and enumerations of the custom resource definition, as the API server judges them.",
    ),
    ("cel", "The custom resource definition's CEL rules, as the API server judges them."),
    ("catalogue", "Names, features, needs and checks of the catalogue."),
    ("unknown-key", "Values name keys that their chart knows."),
    ("values", "What must hold between values, whoever set them, holds, and numbers of pods are some."),
    ("cron", "Schedules are such that Kubernetes takes them."),
    ("release-move", "The OpenStack release moves as its databases can."),
    ("image-pinned", "No image stays behind where the OpenStack release moves."),
    (
        "certificate",
        "Certificates belong to their keys, speak for their hosts, were signed by who is trusted, and still count.",
    ),
    ("connections", "The database takes the connections of all pools."),
    (
        "address",
        "Networks and addresses are some, and do not overlap, neither each other nor those of the cluster's pods and Services.",
    ),
    ("controllers", "There are nodes for the servers that are wanted."),
    ("storage-class", "The classes that volume claims ask for are there, and make such volumes."),
    ("domain", "The public domain is one that names can be published in."),
];
