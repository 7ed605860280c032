//! Reports `ConfigMap`s that the catalogue refuses.

use super::file::{Content, Document};
use super::schema::field_path;
use super::{Report, kinds};
use osdpl_core::catalog::RejectedAddition;
use osdpl_core::finding::{CATALOGUE, Finding, SourceLine};

impl Report {
    /// Adds their problems, each at the key that it is about, or at its line in a block of text.
    pub fn refuse(&mut self, documents: &[Document], refused: &[RejectedAddition]) {
        for RejectedAddition { source, message } in refused {
            let location = documents.iter().find_map(|document| Some((document, find_field(document, source)?)));
            for problem in problems(message) {
                let key = key(&problem);
                let field = key.as_ref().map_or_else(String::new, |(key, _)| field_path("data", key));
                let line = location
                    .as_ref()
                    .map_or(1, |(document, parent)| line(document, parent, &field, key.and_then(|(_, line)| line)));
                let file = location.as_ref().map(|(document, _)| document.file.clone()).unwrap_or_default();
                let line = SourceLine { file, line, resource: source.clone() };
                self.findings.push(Finding::error(CATALOGUE, field, problem).at_line(line));
            }
        }
        self.settle();
    }
}

/// Returns the field of a `ConfigMap` in a document, by its source (`ConfigMap openstack/edge`).
fn find_field(document: &Document, source: &str) -> Option<String> {
    let Content::Object(read) = &document.content else { return None };
    let (namespace, name) = source.strip_prefix("ConfigMap ")?.split_once('/')?;
    let is_match = |object: &serde_json::Value| {
        let metadata = &object["metadata"];
        object["kind"] == "ConfigMap"
            && metadata["name"] == name
            && metadata["namespace"].as_str().is_none_or(|own| own == namespace)
    };
    kinds::objects(&read.value).into_iter().find_map(|(field, object)| is_match(object).then_some(field))
}

/// Splits a message into one line per problem and joins continuation lines.
fn problems(message: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in message.lines() {
        match found.last_mut().filter(|_| !line.starts_with("key \"")) {
            Some(before) => *before = format!("{before} {}", line.trim()),
            None => found.push(line.to_owned()),
        }
    }
    found
}

/// Returns the key that a problem is about, and the line in it: `key "presets.edge.yaml":3:5: …`.
fn key(problem: &str) -> Option<(String, Option<u64>)> {
    let (key, rest) = problem.strip_prefix("key \"")?.split_once('"')?;
    let line = rest.strip_prefix(':').and_then(|rest| rest.split(':').next()?.parse().ok());
    Some((key.to_owned(), line))
}

fn line(document: &Document, parent: &str, field: &str, below: Option<u64>) -> u64 {
    let Content::Object(read) = &document.content else { return document.before + 1 };
    let dot = if parent.is_empty() || field.is_empty() { "" } else { "." };
    let own = read.line(&format!("{parent}{dot}{field}"));
    // A block of text begins on the line below its key.
    let begins = usize::try_from(own.saturating_sub(1)).ok().and_then(|before| document.text.lines().nth(before));
    let is_block = begins.is_some_and(|line| line.trim_end().ends_with(['|', '-', '+']) && line.contains('|'));
    own + below.filter(|_| is_block).unwrap_or_default() + document.before
}
