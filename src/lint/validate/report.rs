//! Validates the documents in files, and builds the report of `osdpl validate`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::crd::{Schemas, read_spec};
use super::file::{Content, Document, ParsedDocument};
use super::kinds::{self, Kind};
use super::metadata;
use super::review::ReviewInput;
use crate::manifests::{missing_sources, named_additions};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::finding::{Finding, SourceLine};
use osdpl_core::observed::ClusterInfo;
use osdpl_values::yaml;

/// The report of `osdpl validate`.
///
/// With `-o json`, programs of users read the report. So a new version may add fields, but never rename or remove one.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The findings, sorted by file and line.
    pub findings: Vec<Finding>,
    /// A note about each object that osdpl has not validated, or has validated only in part.
    pub notes: Vec<String>,
    /// The numbers of validated resources, errors and warnings.
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

/// Returns the objects of all documents.
pub fn manifests(documents: &[Document]) -> Vec<Value> {
    documents.iter().flat_map(objects_of).map(|(_, object)| object.clone()).collect()
}

/// Validates all documents as if the user applied them to the same cluster, so that a resource can reference an object
/// in another document.
///
/// `catalog_of` returns the catalogue for a resource, including the additions that the resource references.
pub fn report<'a>(
    documents: &[Document],
    catalog_of: &dyn Fn(&Value) -> (&'a Catalog, &'a Schemas),
    cluster_info: &ClusterInfo,
    now: Option<Timestamp>,
) -> Report {
    let mut report = Report::default();
    let manifests = manifests(documents);
    let input_of = |object: &Value| {
        let (catalog, schemas) = catalog_of(object);
        ReviewInput { catalog, schemas, manifests: &manifests, cluster_info, now }
    };
    let names = referenced_names(&manifests, &input_of);
    let mut known = BTreeMap::new();
    for document in documents {
        if let Content::Invalid(error) = &document.content {
            report.findings.push(with_line(document, error.line + document.before, "", yaml_finding(document, error)));
        }
        let Content::Object(parsed) = &document.content else { continue };
        for (field, object) in kinds::objects(&parsed.value) {
            let location = Location { document, parsed, field };
            location.check_duplicate(object, &mut known, &mut report);
            location.validate(object, &names, &input_of, &mut report);
        }
    }
    report.sort_and_count();
    report
}

/// Returns the objects of a document, each with its path in the document; no object if the document is not valid YAML.
fn objects_of(document: &Document) -> Vec<(String, &Value)> {
    match &document.content {
        Content::Object(parsed) => kinds::objects(&parsed.value),
        Content::Invalid(_) => Vec::new(),
    }
}

/// A function that returns the input for the validation of an object, except for the object itself.
type InputOf<'a> = &'a dyn Fn(&Value) -> ReviewInput<'a>;

/// Returns the names of all objects that the OpenStackDeployments and NodeMaintenances in the manifests refer to,
/// including Secrets of certificates.
///
/// With these names, the checks find the Secrets and `ConfigMap`s in the manifests that no resource references. If the
/// manifests contain no Secret and no `ConfigMap`, the checks need no names, and the function returns none.
fn referenced_names(manifests: &[Value], input_of: InputOf<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if !manifests.iter().any(kinds::is_source) {
        return names;
    }
    for (kind, object) in manifests.iter().filter_map(|object| Some((Kind::of(object)?, object))) {
        kinds::collect_names(&object["spec"], &mut names);
        names.extend(input_of(object).certificates(kind, object));
    }
    names
}

/// Returns the finding for a document that is not valid YAML.
///
/// If the document is from a folder and does not look like an osdpl resource, the finding is only a warning, because
/// the folder may contain templates.
fn yaml_finding(document: &Document, error: &yaml::Error) -> Finding {
    let problem = &error.message;
    if document.is_ours || document.is_named {
        return Finding::error("yaml", "", format!("{problem}; correct the YAML"));
    }
    let message = format!(
        "{problem}, so osdpl did not validate this document; correct the YAML or, if the file is not a manifest, move it out of the folder"
    );
    Finding::warning("yaml", "", message)
}

/// An argument of `osdpl validate`, with its documents.
pub struct Argument<'a> {
    /// The name of the file or folder, or `stdin` for standard input.
    pub name: String,
    /// The documents in the file or in the files of the folder.
    pub documents: &'a [Document],
    /// Whether the argument is a folder.
    pub is_folder: bool,
    /// The files that can't be read, each with the reason and the remedy.
    pub unread: &'a [(String, String)],
}

impl Report {
    /// Adds a finding for each file of an argument that can't be read. If osdpl can read all files, but none contains
    /// an osdpl resource, adds a finding that says so.
    ///
    /// An argument with only Secrets and `ConfigMap`s causes no finding if another argument contains a resource,
    /// because the resource can reference these objects.
    pub fn check_argument(&mut self, argument: &Argument<'_>) {
        for (file, reason) in argument.unread {
            self.findings.push(finding_without_line(file, format!("can't be read: {reason}")));
        }
        let objects: Vec<&Value> = argument.documents.iter().flat_map(objects_of).map(|(_, object)| object).collect();
        // If the report already contains an error about invalid YAML in this argument, do not also report that the
        // argument contains no resource. Invalid YAML is an error, not a warning, if the user named the file, or the
        // text looks like a resource.
        let is_reported = |document: &Document| {
            matches!(document.content, Content::Invalid(_)) && (document.is_ours || document.is_named)
        };
        let has_reported = argument.documents.iter().any(is_reported);
        let is_referenced =
            self.summary.resources > 0 && !objects.is_empty() && objects.iter().all(|object| kinds::is_source(object));
        let is_validated = |object: &&Value| Kind::of(object).is_some() || kinds::likely_mistake(object).is_some();
        if !objects.iter().any(is_validated) && !has_reported && !is_referenced && argument.unread.is_empty() {
            self.findings.push(finding_without_line(&argument.name, describe_missing(argument, &objects)));
        }
        self.sort_and_count();
    }

    /// Sorts the findings, removes duplicates, and counts errors and warnings.
    pub(super) fn sort_and_count(&mut self) {
        self.findings.sort_by(|one, other| order(one).cmp(&order(other)));
        self.findings.dedup();
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        (self.summary.errors, self.summary.warnings) = (count(Level::Error), count(Level::Warning));
    }
}

/// Returns the key by which the report sorts findings: file, line, level and rule.
fn order(finding: &Finding) -> (&str, u64, &str, &str, &Finding) {
    (finding.file(), finding.line(), finding.level.as_str(), finding.rule, finding)
}

fn describe_missing(argument: &Argument<'_>, values: &[&Value]) -> String {
    let content = match (values.is_empty(), argument.is_folder) {
        (true, true) => "there is no .yaml, .yml or .json file with content".to_owned(),
        _ => describe_kinds(values),
    };
    // osdpl validates Secrets and ConfigMaps only together with a resource that references them. So if the argument
    // contains only such objects, the message tells the user to name this resource, too.
    let are_sources = !values.is_empty() && values.iter().all(|value| kinds::is_source(value));
    let resource = if are_sources { "the resource that references these objects, too" } else { "your resource" };
    format!(
        "there is no resource of osdpl (OpenStackDeployment or NodeMaintenance, apiVersion osdpl.dev/v1alpha1) here, so nothing is validated: {content}; name the file or the folder \
         that contains {resource}"
    )
}

/// Describes the kinds of the objects in `values`, for the message about a file without the expected resource.
pub fn describe_kinds(values: &[&Value]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for kind in values.iter().map(|value| describe_kind(value)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() { "it is empty".to_owned() } else { format!("there is only {}", kinds.join(", ")) }
}

/// Returns the kind and the `apiVersion` of an object as text for a message.
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

/// The location of an object in a file.
struct Location<'a> {
    document: &'a Document,
    parsed: &'a ParsedDocument,
    /// The path of the object in the document, such as `items[0]`; empty if the document is the object.
    field: String,
}

impl Location<'_> {
    fn line(&self, field: &str) -> u64 {
        let dot = if self.field.is_empty() || field.is_empty() { "" } else { "." };
        self.parsed.line(&format!("{}{dot}{field}", self.field)) + self.document.before
    }

    /// Returns the file and the line where the object begins, such as `cloud.yaml:3`.
    fn describe(&self) -> String {
        let line = if self.field.is_empty() { self.document.before + 1 } else { self.line("") };
        format!("{}:{line}", self.document.file)
    }

    fn report(&self, resource: &str, finding: Finding, report: &mut Report) {
        report.findings.push(with_line(self.document, self.line(finding.field()), resource, finding));
    }

    /// Reports a resource with the same kind, namespace and name as an earlier resource in the same file. `known`
    /// contains the earlier resources, each with its line.
    fn check_duplicate(&self, object: &Value, known: &mut BTreeMap<String, u64>, report: &mut Report) {
        let Some(kind) = Kind::of(object).filter(|_| object["metadata"]["name"].is_string()) else { return };
        let name = describe_resource(kind, object);
        let Some(first) = known.insert(format!("{}:{name}", self.document.file), self.line("metadata.name")) else {
            return;
        };
        let message = format!(
            "{name} is already defined on line {first}, and the definition that you apply last replaces the other definition; give this resource another name, or remove one of the definitions"
        );
        self.report(&name, Finding::error("resource", "metadata.name", message), report);
    }

    fn validate(&self, object: &Value, names: &BTreeSet<String>, input_of: InputOf<'_>, report: &mut Report) {
        // Validate even an `OpenStackDeployment` without an `apiVersion`. The validation reports that `apiVersion` is
        // missing.
        let assumed = || kinds::is_deployment(object).then_some(Kind::OpenStackDeployment);
        let Some(kind) = Kind::of(object).or_else(assumed) else {
            self.check_other(object, names, report);
            return;
        };
        report.summary.resources += 1;
        let input = input_of(object);
        let additions = named_additions(object, input.manifests);
        for finding in input.review(kind, object).0.into_iter().chain(additions.errors) {
            self.report(&describe_resource(kind, object), finding, report);
        }
        for (field, source) in additions.missing {
            let note = format!("{source}, which {field} references, is not in the file, so its content is not known");
            report.notes.push(format!("{}: {note}", self.describe()));
        }
        let spec = read_spec(object);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("openstack");
        for missing in spec.iter().flat_map(|spec| missing_sources(spec, namespace, input.manifests)) {
            report.notes.push(format!("{}: {missing}, so its values are not validated", self.describe()));
        }
    }

    /// Adds findings or a note about an object that is not an osdpl resource.
    fn check_other(&self, object: &Value, names: &BTreeSet<String>, report: &mut Report) {
        let kind = object["kind"].as_str().unwrap_or("something without a kind");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let unnamed = metadata::check_unnamed_addition(object, names);
        let found: Vec<Finding> = kinds::likely_mistake(object).into_iter().chain(unnamed).collect();
        // An object that an osdpl resource references needs no note, because osdpl checks the object with the resource.
        let is_used = kinds::is_source(object) && names.contains(name);
        if found.is_empty() && !is_used {
            report.notes.push(format!("{}: {kind} is not validated", self.describe()));
        }
        for finding in found {
            self.report(format!("{kind} {name}").trim_end(), finding, report);
        }
    }
}

/// Returns the kind and name of a resource.
pub fn describe_resource(kind: Kind, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    format!("{} {namespace}{name}", kind.name()).trim_end().to_owned()
}

/// Adds the location of a resource to a finding: the file, the line and the resource's name.
fn with_line(document: &Document, line: u64, resource: &str, finding: Finding) -> Finding {
    finding.at_line(SourceLine { file: document.file.clone(), line, resource: resource.to_owned() })
}
