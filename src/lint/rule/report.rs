//! What is found in files, as `osdpl validate` prints it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::file::{Content, Document, Read};
use super::{Judged, Kind, Question, Schemas, beside, is_ours, kinds, metadata, read_spec};
use osdpl_core::catalog::{Catalog, LABEL, Level};
use osdpl_core::observed::Site;
use osdpl_values::yaml;

/// What is printed. `-o json` is this form, which only grows.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// By file and line.
    pub findings: Vec<Finding>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// How much there is of it.
    pub summary: Summary,
}

/// How much was judged and found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Resources that were judged.
    pub resources: usize,
    /// What is refused.
    pub errors: usize,
    /// What should be known.
    pub warnings: usize,
}

/// One finding.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// As it was named, `stdin` for standard input.
    pub file: String,
    /// The line, from 1, of the field or of what is nearest above it.
    pub line: u64,
    /// `error`, `warning` or `note`.
    pub level: &'static str,
    /// The rule's name; `osdpl validate -o sarif` says what each is about.
    pub rule: &'static str,
    /// The kind and name of the resource; empty where the document could not be understood.
    pub resource: String,
    /// The field; empty for the whole resource.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Judges all documents; each sees the others, as a cluster would that they are applied to.
pub fn report(
    documents: &[Document],
    catalog: &Catalog,
    schemas: &Schemas,
    site: &Site,
    now: Option<Timestamp>,
) -> Report {
    let mut report = Report::default();
    let beside: Vec<Value> = documents.iter().flat_map(held).map(|(_, object)| object.clone()).collect();
    let question = Question { catalog, schemas, beside: &beside, site, now };
    let names = names(&question);
    let mut known = BTreeMap::new();
    for document in documents {
        if let Content::Wrong(error) = &document.content {
            report.findings.push(finding(document, error.line + document.before, "", misread(document, error)));
        }
        let Content::Object(read) = &document.content else { continue };
        for (at, object) in kinds::objects(&read.value) {
            let place = Place { document, read, at };
            place.again(object, &mut known, &mut report);
            place.judge(object, &names, &question, &mut report);
        }
    }
    report.settle();
    report
}

/// The objects of a document.
fn held(document: &Document) -> Vec<(String, &Value)> {
    match &document.content {
        Content::Object(read) => kinds::objects(&read.value),
        Content::Wrong(_) => Vec::new(),
    }
}

/// What the resources among the objects name, and what their features look for by names of their own: certificates.
fn names(question: &Question) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if !question.beside.iter().any(kinds::serves) {
        return names;
    }
    for (kind, object) in question.beside.iter().filter_map(|object| Some((Kind::of(object)?, object))) {
        kinds::named(&object["spec"], &mut names);
        names.extend(question.certificates(kind, object));
    }
    names
}

/// What is said of a document that is no YAML: in a folder there may be templates, and the like, that were never meant to be.
fn misread(document: &Document, error: &yaml::Error) -> Judged {
    let problem = &error.problem;
    if document.is_ours || document.is_named {
        return Judged::error("yaml", "", format!("{problem}; correct the YAML"));
    }
    let message = format!(
        "{problem}; correct the YAML, or where it is none that is applied, keep it elsewhere: what it holds was not judged"
    );
    Judged::warning("yaml", "", message)
}

/// Something that was named to be judged, with what was found in it.
pub struct Named<'a> {
    /// As it was named: a file, a folder, `stdin` for standard input.
    pub place: String,
    /// Its documents.
    pub documents: &'a [Document],
    /// Whether it is a folder.
    pub is_folder: bool,
    /// What of it can't be read, each with why and what to do.
    pub unread: &'a [(String, String)],
}

impl Report {
    /// Adds what is said of a place that was named in vain: one that holds no resource of ours, and whatever of it can't be read.
    ///
    /// Secrets and `ConfigMap`s are looked at by the resources beside them: a file of these alone is welcome where there is such a resource.
    pub fn visit(&mut self, named: &Named<'_>) {
        for (file, why) in named.unread {
            self.findings.push(of_place(file, format!("it can't be read: {why}")));
        }
        let kinds: Vec<&Value> = named.documents.iter().flat_map(held).map(|(_, object)| object).collect();
        // What is wrong is an error already where it was named itself, or is meant to be ours.
        let is_told = |document: &Document| {
            matches!(document.content, Content::Wrong(_)) && (document.is_ours || document.is_named)
        };
        let has_told = named.documents.iter().any(is_told);
        let is_beside =
            self.summary.resources > 0 && !kinds.is_empty() && kinds.iter().all(|value| kinds::serves(value));
        let is_judged = |value: &&Value| Kind::of(value).is_some() || kinds::meant(value).is_some();
        if !kinds.iter().any(is_judged) && !has_told && !is_beside && named.unread.is_empty() {
            self.findings.push(of_place(&named.place, nothing(named, &kinds)));
        }
        self.settle();
    }

    /// Puts findings into their order, each once, and counts them.
    pub(super) fn settle(&mut self) {
        self.findings.sort();
        self.findings.dedup();
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        (self.summary.errors, self.summary.warnings) = (count("error"), count("warning"));
    }
}

fn nothing(named: &Named<'_>, values: &[&Value]) -> String {
    let there = match (values.is_empty(), named.is_folder) {
        (true, true) => "there is no .yaml, .yml or .json file with anything in it".to_owned(),
        _ => other_kinds(values),
    };
    // Secrets and ConfigMaps mean nothing without the cloud that they are for.
    let serves = !values.is_empty() && values.iter().all(|value| kinds::serves(value));
    let yours = if serves { "yours beside this one" } else { "yours" };
    format!(
        "there is no resource of osdpl (OpenStackDeployment or NodeMaintenance, apiVersion osdpl.dev/v1alpha1) here, so that nothing is judged: {there}; name the file, or the folder, \
         that holds {yours}"
    )
}

/// What is there instead of a resource of ours, for people.
pub fn other_kinds(values: &[&Value]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for kind in values.iter().map(|value| described(value)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() { "it is empty".to_owned() } else { format!("there is {} alone", kinds.join(", ")) }
}

/// The kind of an object with the version that it names.
fn described(value: &Value) -> String {
    match (value["kind"].as_str(), value["apiVersion"].as_str()) {
        (Some(kind), Some(version)) => format!("{kind} ({version})"),
        (Some(kind), None) => format!("{kind} without an apiVersion"),
        (None, _) => "something without a kind".to_owned(),
    }
}

fn of_place(file: &str, message: String) -> Finding {
    let (resource, field) = (String::new(), String::new());
    Finding { file: file.to_owned(), line: 1, level: Level::Error.word(), rule: "resource", resource, field, message }
}

/// Where an object stands.
struct Place<'a> {
    document: &'a Document,
    read: &'a Read,
    /// The field of the document that leads to it; empty where it is the whole.
    at: String,
}

impl Place<'_> {
    fn line(&self, field: &str) -> u64 {
        let dot = if self.at.is_empty() || field.is_empty() { "" } else { "." };
        self.read.line(&format!("{}{dot}{field}", self.at)) + self.document.before
    }

    /// Where it begins, for people.
    fn place(&self) -> String {
        let line = if self.at.is_empty() { self.document.before + 1 } else { self.line("") };
        format!("{}:{line}", self.document.file)
    }

    fn tell(&self, resource: &str, judged: Judged, report: &mut Report) {
        report.findings.push(finding(self.document, self.line(&judged.field), resource, judged));
    }

    /// Tells of a resource that stands in the file already.
    fn again(&self, object: &Value, known: &mut BTreeMap<String, u64>, report: &mut Report) {
        let Some(kind) = Kind::of(object).filter(|_| object["metadata"]["name"].is_string()) else { return };
        let name = described_by_name(kind, object);
        let Some(first) = known.insert(format!("{}:{name}", self.document.file), self.line("metadata.name")) else {
            return;
        };
        let message = format!(
            "{name} stands on line {first} already, and of two of one name the last that is applied stays; give this one another name, or take one of them out"
        );
        self.tell(&name, Judged::error("resource", "metadata.name", message), report);
    }

    fn judge(&self, object: &Value, names: &BTreeSet<String>, question: &Question<'_>, report: &mut Report) {
        // One without a version is judged as what it is most likely meant to be; that it has none is among what is said of it.
        let meant = || is_ours(object).then_some(Kind::OpenStackDeployment);
        let Some(kind) = Kind::of(object).or_else(meant) else {
            self.other(object, names, report);
            return;
        };
        report.summary.resources += 1;
        for judged in question.document(kind, object) {
            self.tell(&described_by_name(kind, object), judged, report);
        }
        let spec = read_spec(object);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("openstack");
        for unseen in spec.iter().flat_map(|spec| beside::unseen(spec, namespace, question.beside)) {
            report.notes.push(format!("{}: not seen: {unseen}: what it sets is not judged", self.place()));
        }
    }

    /// What is said of an object that is none of ours.
    fn other(&self, object: &Value, names: &BTreeSet<String>, report: &mut Report) {
        let kind = object["kind"].as_str().unwrap_or("something without a kind");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let wrong: Vec<Judged> = kinds::meant(object).into_iter().chain(metadata::of_addition(object)).collect();
        // What a resource names was read with it.
        let is_read = kinds::serves(object) && (names.contains(name) || !object["metadata"]["labels"][LABEL].is_null());
        if wrong.is_empty() && !is_read {
            report.notes.push(format!("{}: {kind} is not judged", self.place()));
        }
        for judged in wrong {
            self.tell(format!("{kind} {name}").trim_end(), judged, report);
        }
    }
}

/// A resource by its kind and name.
fn described_by_name(kind: Kind, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    format!("{} {namespace}{name}", kind.name()).trim_end().to_owned()
}

fn finding(document: &Document, line: u64, resource: &str, judged: Judged) -> Finding {
    let Judged { rule, level, field, message } = judged;
    Finding {
        file: document.file.clone(),
        line,
        level: level.word(),
        rule,
        resource: resource.to_owned(),
        field,
        message,
    }
}
