//! What is found in files, as `osdpl validate` prints it.

use serde::Serialize;
use serde_json::Value;

use super::file::{Content, Document, Read};
use super::{Judged, Kind, Question, Schemas};
use crate::catalog::Catalog;
use crate::observed::Site;

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
pub fn report(documents: &[Document], catalog: &Catalog, schemas: &Schemas, site: &Site) -> Report {
    let mut report = Report::default();
    let read = |document: &Document| match &document.content {
        Content::Object(read) => Some(read.value.clone()),
        Content::Wrong(_) => None,
    };
    let beside: Vec<Value> = documents.iter().filter_map(read).collect();
    let question = Question { catalog, schemas, beside: &beside, site };
    for document in documents {
        match &document.content {
            Content::Wrong(error) if document.is_ours => {
                let message = format!("{}; correct the YAML", error.problem);
                let judged = Judged::error("yaml", "", message);
                report.findings.push(finding(document, error.line + document.before, "", judged));
            }
            Content::Wrong(error) => {
                report.notes.push(format!("{error}: not read, it does not look like a resource of ours"));
            }
            Content::Object(read) => judge(document, read, &question, &mut report),
        }
    }
    report.findings.sort();
    report.findings.dedup();
    let count = |level| report.findings.iter().filter(|finding| finding.level == level).count();
    (report.summary.errors, report.summary.warnings) = (count("error"), count("warning"));
    report
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
