//! What is said of `ConfigMap`s that the catalogue does not take in.

use super::file::{Content, Document};
use super::schema::below;
use super::{Report, Reported, kinds};
use osdpl_core::catalog::{Level, Refused};

impl Report {
    /// Adds what is wrong with them, each mistake at the key that it is about, or where that is a block of text, at its line.
    pub fn refuse(&mut self, documents: &[Document], refused: &[Refused]) {
        for Refused { source, message } in refused {
            let standing = documents.iter().find_map(|document| Some((document, at(document, source)?)));
            for said in mistakes(message) {
                let key = key(&said);
                let field = key.as_ref().map_or_else(String::new, |(key, _)| below("data", key));
                let line = standing
                    .as_ref()
                    .map_or(1, |(document, at)| line(document, at, &field, key.and_then(|(_, line)| line)));
                self.findings.push(Reported {
                    file: standing.as_ref().map(|(document, _)| document.file.clone()).unwrap_or_default(),
                    line,
                    level: Level::Error.word(),
                    rule: "catalogue",
                    resource: source.clone(),
                    field,
                    message: said,
                });
            }
        }
        self.settle();
    }
}

/// The field that leads to a `ConfigMap` in a document, by its source (`ConfigMap openstack/edge`).
fn at(document: &Document, source: &str) -> Option<String> {
    let Content::Object(read) = &document.content else { return None };
    let (namespace, name) = source.strip_prefix("ConfigMap ")?.split_once('/')?;
    let is_it = |object: &serde_json::Value| {
        let metadata = &object["metadata"];
        object["kind"] == "ConfigMap"
            && metadata["name"] == name
            && metadata["namespace"].as_str().is_none_or(|at| at == namespace)
    };
    kinds::objects(&read.value).into_iter().find_map(|(at, object)| is_it(object).then_some(at))
}

/// A line of its own for each, what goes on in the next line with it.
fn mistakes(message: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in message.lines() {
        match found.last_mut().filter(|_| !line.starts_with("key \"")) {
            Some(before) => *before = format!("{before} {}", line.trim()),
            None => found.push(line.to_owned()),
        }
    }
    found
}

/// The key that a mistake is about, and the line in it: `key "presets.edge.yaml":3:5: …`.
fn key(said: &str) -> Option<(String, Option<u64>)> {
    let (key, rest) = said.strip_prefix("key \"")?.split_once('"')?;
    let line = rest.strip_prefix(':').and_then(|rest| rest.split(':').next()?.parse().ok());
    Some((key.to_owned(), line))
}

fn line(document: &Document, at: &str, field: &str, below: Option<u64>) -> u64 {
    let Content::Object(read) = &document.content else { return document.before + 1 };
    let dot = if at.is_empty() || field.is_empty() { "" } else { "." };
    let own = read.line(&format!("{at}{dot}{field}"));
    // A block of text begins on the line below its key.
    let begins = usize::try_from(own.saturating_sub(1)).ok().and_then(|before| document.text.lines().nth(before));
    let is_block = begins.is_some_and(|line| line.trim_end().ends_with(['|', '-', '+']) && line.contains('|'));
    own + below.filter(|_| is_block).unwrap_or_default() + document.before
}
