//! Builds the report of `osdpl validate` about files.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::file::{Content, Document, ParsedDocument};
use super::{Kind, ReviewInput, Schemas, beside, is_deployment, kinds, metadata, read_spec};
use osdpl_core::catalog::{Catalog, LABEL, Level};
use osdpl_core::finding::{Finding, SourceLine};
use osdpl_core::observed::ClusterInfo;
use osdpl_values::yaml;

/// The report, printed as it is by `-o json`; fields are only ever added.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The findings, sorted by file and line.
    pub findings: Vec<Finding>,
    /// What was not validated, and why.
    pub notes: Vec<String>,
    /// The totals.
    pub summary: Summary,
}

/// The numbers of resources and findings.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The number of validated resources.
    pub resources: usize,
    /// The number of errors.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
}

/// Validates all documents; each sees the others, as if all were applied to one cluster.
pub fn report(
    documents: &[Document],
    catalog: &Catalog,
    schemas: &Schemas,
    site: &ClusterInfo,
    now: Option<Timestamp>,
) -> Report {
    let mut report = Report::default();
    let beside: Vec<Value> = documents.iter().flat_map(objects_of).map(|(_, object)| object.clone()).collect();
    let question = ReviewInput { catalog, schemas, beside: &beside, site, now };
    let names = names(&question);
    let mut known = BTreeMap::new();
    for document in documents {
        if let Content::Wrong(error) = &document.content {
            report.findings.push(finding(document, error.line + document.before, "", yaml_finding(document, error)));
        }
        let Content::Object(read) = &document.content else { continue };
        for (at, object) in kinds::objects(&read.value) {
            let location = Location { document, read, at };
            location.check_duplicate(object, &mut known, &mut report);
            location.validate(object, &names, &question, &mut report);
        }
    }
    report.settle();
    report
}

/// Returns the objects of a document.
fn objects_of(document: &Document) -> Vec<(String, &Value)> {
    match &document.content {
        Content::Object(read) => kinds::objects(&read.value),
        Content::Wrong(_) => Vec::new(),
    }
}

/// Returns the names of all objects that the resources reference, including Secrets of certificates.
fn names(question: &ReviewInput) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if !question.beside.iter().any(kinds::is_source) {
        return names;
    }
    for (kind, object) in question.beside.iter().filter_map(|object| Some((Kind::of(object)?, object))) {
        kinds::named(&object["spec"], &mut names);
        names.extend(question.certificates(kind, object));
    }
    names
}

/// Returns the finding for a document that is not YAML: only a warning in a folder, which may contain templates.
fn yaml_finding(document: &Document, error: &yaml::Error) -> Finding {
    let problem = &error.message;
    if document.is_ours || document.is_named {
        return Finding::error("yaml", "", format!("{problem}; correct the YAML"));
    }
    let message = format!(
        "{problem}; correct the YAML, or move the file elsewhere if it is not a manifest: its content was not validated"
    );
    Finding::warning("yaml", "", message)
}

/// An argument of `osdpl validate`, with its documents.
pub struct Argument<'a> {
    /// The argument: a file, a folder, `stdin` for standard input.
    pub place: String,
    /// The documents found in it.
    pub documents: &'a [Document],
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The files that can't be read, each with the reason and what to do.
    pub unread: &'a [(String, String)],
}

impl Report {
    /// Adds findings about an argument without osdpl resources, and about its unreadable files.
    ///
    /// Secrets and `ConfigMap`s are read by the resources beside them: a file that contains only these is fine if there
    /// is such a resource.
    pub fn visit(&mut self, named: &Argument<'_>) {
        for (file, why) in named.unread {
            self.findings.push(finding_without_line(file, format!("can't be read: {why}")));
        }
        let kinds: Vec<&Value> = named.documents.iter().flat_map(objects_of).map(|(_, object)| object).collect();
        // Invalid YAML is already an error if the file was named itself or looks like an osdpl resource.
        let is_reported = |document: &Document| {
            matches!(document.content, Content::Wrong(_)) && (document.is_ours || document.is_named)
        };
        let has_reported = named.documents.iter().any(is_reported);
        let is_beside =
            self.summary.resources > 0 && !kinds.is_empty() && kinds.iter().all(|value| kinds::is_source(value));
        let is_judged = |value: &&Value| Kind::of(value).is_some() || kinds::likely_mistake(value).is_some();
        if !kinds.iter().any(is_judged) && !has_reported && !is_beside && named.unread.is_empty() {
            self.findings.push(finding_without_line(&named.place, describe_missing(named, &kinds)));
        }
        self.settle();
    }

    /// Sorts and deduplicates the findings, and counts them.
    pub(super) fn settle(&mut self) {
        self.findings.sort_by(|one, other| order(one).cmp(&order(other)));
        self.findings.dedup();
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        (self.summary.errors, self.summary.warnings) = (count(Level::Error), count(Level::Warning));
    }
}

/// The order of findings: by file, line, level and rule.
fn order(finding: &Finding) -> (&str, u64, &str, &str, &Finding) {
    (finding.file(), finding.line(), finding.level.as_str(), finding.rule, finding)
}

fn describe_missing(named: &Argument<'_>, values: &[&Value]) -> String {
    let there = match (values.is_empty(), named.is_folder) {
        (true, true) => "there is no .yaml, .yml or .json file with anything in it".to_owned(),
        _ => describe_kinds(values),
    };
    // Secrets and ConfigMaps need the cloud that references them.
    let serves = !values.is_empty() && values.iter().all(|value| kinds::is_source(value));
    let yours = if serves { "yours beside this one" } else { "yours" };
    format!(
        "there is no resource of osdpl (OpenStackDeployment or NodeMaintenance, apiVersion osdpl.dev/v1alpha1) here, so that nothing is validated: {there}; name the file or the folder \
         that contains {yours}"
    )
}

/// Describes the objects that are there instead of osdpl resources.
pub fn describe_kinds(values: &[&Value]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for kind in values.iter().map(|value| describe_kind(value)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() { "it is empty".to_owned() } else { format!("there is only {}", kinds.join(", ")) }
}

/// Describes the kind of an object with its `apiVersion`.
fn describe_kind(value: &Value) -> String {
    match (value["kind"].as_str(), value["apiVersion"].as_str()) {
        (Some(kind), Some(version)) => format!("{kind} ({version})"),
        (Some(kind), None) => format!("{kind} without an apiVersion"),
        (None, _) => "something without a kind".to_owned(),
    }
}

fn finding_without_line(file: &str, message: String) -> Finding {
    let line = SourceLine { file: file.to_owned(), line: 1, resource: String::new() };
    Finding::error("resource", "", message).at_line(line)
}

/// The location of an object.
struct Location<'a> {
    document: &'a Document,
    read: &'a ParsedDocument,
    /// The field of the object in the document; empty if the document is the object.
    at: String,
}

impl Location<'_> {
    fn line(&self, field: &str) -> u64 {
        let dot = if self.at.is_empty() || field.is_empty() { "" } else { "." };
        self.read.line(&format!("{}{dot}{field}", self.at)) + self.document.before
    }

    /// Describes where the object begins.
    fn location(&self) -> String {
        let line = if self.at.is_empty() { self.document.before + 1 } else { self.line("") };
        format!("{}:{line}", self.document.file)
    }

    fn report(&self, resource: &str, judged: Finding, report: &mut Report) {
        report.findings.push(finding(self.document, self.line(&judged.location.field), resource, judged));
    }

    /// Reports a resource that is already defined in the same file.
    fn check_duplicate(&self, object: &Value, known: &mut BTreeMap<String, u64>, report: &mut Report) {
        let Some(kind) = Kind::of(object).filter(|_| object["metadata"]["name"].is_string()) else { return };
        let name = describe_resource(kind, object);
        let Some(first) = known.insert(format!("{}:{name}", self.document.file), self.line("metadata.name")) else {
            return;
        };
        let message = format!(
            "{name} is already defined on line {first}, and the one that is applied last replaces the other; give this one another name, or take one of them out"
        );
        self.report(&name, Finding::error("resource", "metadata.name", message), report);
    }

    fn validate(&self, object: &Value, names: &BTreeSet<String>, question: &ReviewInput<'_>, report: &mut Report) {
        // An object without a version is validated as what it most likely is; the missing version is reported as well.
        let assumed = || is_deployment(object).then_some(Kind::OpenStackDeployment);
        let Some(kind) = Kind::of(object).or_else(assumed) else {
            self.check_other(object, names, report);
            return;
        };
        report.summary.resources += 1;
        for judged in question.document(kind, object) {
            self.report(&describe_resource(kind, object), judged, report);
        }
        let spec = read_spec(object);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("openstack");
        for unseen in spec.iter().flat_map(|spec| beside::missing_sources(spec, namespace, question.beside)) {
            report.notes.push(format!("{}: not validated: {unseen}: its values are unknown", self.location()));
        }
    }

    /// Reports an object that is not an osdpl resource.
    fn check_other(&self, object: &Value, names: &BTreeSet<String>, report: &mut Report) {
        let kind = object["kind"].as_str().unwrap_or("something without a kind");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let wrong: Vec<Finding> =
            kinds::likely_mistake(object).into_iter().chain(metadata::of_addition(object)).collect();
        // Objects that a resource references were read with it.
        let is_read =
            kinds::is_source(object) && (names.contains(name) || !object["metadata"]["labels"][LABEL].is_null());
        if wrong.is_empty() && !is_read {
            report.notes.push(format!("{}: {kind} is not validated", self.location()));
        }
        for judged in wrong {
            self.report(format!("{kind} {name}").trim_end(), judged, report);
        }
    }
}

/// Returns the kind and name of a resource.
fn describe_resource(kind: Kind, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    format!("{} {namespace}{name}", kind.name()).trim_end().to_owned()
}

fn finding(document: &Document, line: u64, resource: &str, judged: Finding) -> Finding {
    judged.at_line(SourceLine { file: document.file.clone(), line, resource: resource.to_owned() })
}
