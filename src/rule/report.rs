//! What is found in files, as `osdpl validate` prints it.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::file::{Content, Document, Read};
use super::{Judged, Kind, Question, Schemas};
use crate::catalog::{Catalog, Level};
use crate::observed::Site;
use crate::yaml;

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
    /// As it was named, `-` for standard input.
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
    let read = |document: &Document| match &document.content {
        Content::Object(read) => Some(read.value.clone()),
        Content::Wrong(_) => None,
    };
    let beside: Vec<Value> = documents.iter().filter_map(read).collect();
    let question = Question { catalog, schemas, beside: &beside, site, now };
    for document in documents {
        match &document.content {
            Content::Wrong(error) => {
                report.findings.push(finding(document, error.line + document.before, "", misread(document, error)));
            }
            Content::Object(read) => judge(document, read, &question, &mut report),
        }
    }
    report.settle();
    report
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
    /// As it was named: a file, a folder, `-` for standard input.
    pub place: String,
    /// Its documents.
    pub documents: &'a [Document],
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Files of a folder that can't be read, each with why.
    pub unread: &'a [(String, String)],
}

impl Report {
    /// Adds what is said of a place that was named in vain: one that holds no resource of ours, and whatever of it can't be read.
    ///
    /// Secrets and `ConfigMap`s are looked at by the resources beside them: a file of these alone is welcome where there is such a resource.
    pub fn visit(&mut self, named: &Named<'_>) {
        for (file, why) in named.unread {
            let message = format!("it can't be read: {why}; let it be read, or keep it elsewhere");
            self.findings.push(of_place(file, message));
        }
        let objects = named.documents.iter().filter_map(|document| match &document.content {
            Content::Object(read) => Some(&read.value),
            Content::Wrong(_) => None,
        });
        let kinds: Vec<&Value> = objects.collect();
        let has_wrong = kinds.len() < named.documents.len();
        let serves = |value: &&Value| {
            value["apiVersion"] == "v1" && ["Secret", "ConfigMap"].map(Value::from).contains(&value["kind"])
        };
        let is_beside = self.summary.resources > 0 && !kinds.is_empty() && kinds.iter().all(serves);
        if !kinds.iter().any(|value| Kind::of(value).is_some()) && !has_wrong && !is_beside {
            self.findings.push(of_place(&named.place, nothing(named, &kinds)));
        }
        self.settle();
    }

    /// Puts findings into their order, each once, and counts them.
    fn settle(&mut self) {
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
    format!(
        "there is no resource of osdpl (OpenStackDeployment or NodeMaintenance, apiVersion osdpl.dev/v1alpha1) here, so that nothing is judged: {there}; name the file, or the folder, \
         that holds yours"
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

fn judge(document: &Document, read: &Read, question: &Question<'_>, report: &mut Report) {
    let Some(kind) = Kind::of(&read.value) else {
        let kind = read.value["kind"].as_str().unwrap_or("something without a kind");
        report.notes.push(format!("{}:{}: {kind} is not judged", document.file, document.before + 1));
        return;
    };
    report.summary.resources += 1;
    let name = read.value["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = read.value["metadata"]["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    let resource = format!("{} {namespace}{name}", kind.name());
    for judged in question.document(kind, &read.value) {
        let line = read.line(&judged.field) + document.before;
        report.findings.push(finding(document, line, resource.trim_end(), judged));
    }
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
