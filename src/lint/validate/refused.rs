//! Reports additions to the catalogue that osdpl refuses.

use super::file::{Content, Document};
use super::kinds;
use super::report::Report;
use osdpl_core::catalog::RejectedAddition;
use osdpl_core::catalog::schema::field_path;
use osdpl_core::finding::{CATALOGUE, Finding, SourceLine};

impl Report {
    /// Adds findings about the additions in `refused`: one for each problem in the message about an addition. Each
    /// finding names the file and line of the problem.
    pub fn add_refused(&mut self, documents: &[Document], refused: &[RejectedAddition]) {
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
        self.sort_and_count();
    }
}

/// Returns the path of a ConfigMap in the document, such as `items[0]`; `None` if the document does not contain the
/// ConfigMap. `source` names the ConfigMap, as in `ConfigMap openstack/edge`.
///
/// The path is empty if the whole document is the ConfigMap.
fn find_field(document: &Document, source: &str) -> Option<String> {
    let Content::Object(parsed) = &document.content else { return None };
    let (namespace, name) = source.strip_prefix("ConfigMap ")?.split_once('/')?;
    let is_match = |object: &serde_json::Value| {
        let metadata = &object["metadata"];
        object["kind"] == "ConfigMap"
            && metadata["name"] == name
            && metadata["namespace"].as_str().is_none_or(|own| own == namespace)
    };
    kinds::objects(&parsed.value).into_iter().find_map(|(field, object)| is_match(object).then_some(field))
}

/// Splits the message about a refused addition into one string for each problem.
///
/// In the message, a problem begins with `key "` and may have several lines. The function joins the lines.
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

/// Parses the beginning of a problem's text: a ConfigMap key, and a line number in the value of this key.
///
/// The beginning has the form `key "presets.edge.yaml":3:5: …`. It has no line number if the problem concerns the whole
/// value.
fn key(problem: &str) -> Option<(String, Option<u64>)> {
    let (key, rest) = problem.strip_prefix("key \"")?.split_once('"')?;
    let line = rest.strip_prefix(':').and_then(|rest| rest.split(':').next()?.parse().ok());
    Some((key.to_owned(), line))
}

/// Returns the line number of `field` in the document's file. `parent` is the path of the object that contains the
/// field.
///
/// If the value of the field is a block of text (`key: |`), `line_in_text` can select a line of this text. The function
/// then returns the number of that line in the file.
fn line(document: &Document, parent: &str, field: &str, line_in_text: Option<u64>) -> u64 {
    let Content::Object(parsed) = &document.content else { return document.before + 1 };
    let dot = if parent.is_empty() || field.is_empty() { "" } else { "." };
    let own = parsed.line(&format!("{parent}{dot}{field}"));
    // A block of text (`key: |`) begins on the line after its key. So add the number of the line in the text to the
    // number of the line with the key.
    let key_line = usize::try_from(own.saturating_sub(1)).ok().and_then(|before| document.text.lines().nth(before));
    let is_block = key_line.is_some_and(|line| line.trim_end().ends_with(['|', '-', '+']) && line.contains('|'));
    own + line_in_text.filter(|_| is_block).unwrap_or_default() + document.before
}
