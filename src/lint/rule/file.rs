//! The documents of a file, with the lines that their fields stand on.

use serde_json::Value;

use super::place::keys_of;
use osdpl_values::yaml::{self, Located};

/// What marks a document as ours, even where it is no YAML.
const OURS: &str = "osdpl.dev/";
/// What stands between documents.
const MARKER: &str = "---";

/// One document of a file.
pub struct Document {
    /// As it was named.
    pub file: String,
    /// The lines of the file before it.
    pub before: u64,
    /// Whether it is a resource of ours, by its text.
    pub is_ours: bool,
    /// Whether its file was named itself, and not a folder of it.
    pub is_named: bool,
    /// As it is written.
    pub text: String,
    /// What it is.
    pub content: Content,
}

/// What a document is.
pub enum Content {
    /// YAML.
    Object(Read),
    /// It is no YAML.
    Wrong(yaml::Error),
}

/// A document that could be read.
pub struct Read {
    /// What it says.
    pub value: Value,
    located: Located,
}

impl Read {
    /// The line in the document of a field, or of what is nearest above it.
    pub fn line(&self, field: &str) -> u64 {
        self.nearest(keys_of(field).iter().map(String::as_str))
    }

    /// The same of what stands below these keys.
    pub fn nearest<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> u64 {
        self.located.nearest(keys).line()
    }
}

/// The documents of one file that was named; those that hold nothing are left out.
pub fn split(file: &str, text: &str) -> Vec<Document> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut before = 0;
    for (number, line) in (0_u64..).zip(text.split_inclusive('\n')) {
        // A document's marker stands at the beginning of a line and alone in it, but for a comment.
        let is_marker =
            line.strip_prefix(MARKER).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_marker {
            found.extend(document(file, before, &text[start..at]));
            found.extend(behind(file, number, &line[MARKER.len()..]));
            start = at + line.len();
            before = number + 1;
        }
        at += line.len();
    }
    found.extend(document(file, before, &text[start..]));
    found
}

/// What stands behind a marker in its line: kubectl refuses it, and others would not see it.
fn behind(file: &str, before: u64, text: &str) -> Option<Document> {
    let text = text.trim();
    let problem = format!(
        "something stands behind {MARKER}, where kubectl takes nothing but a comment: write it on the line below"
    );
    let error = yaml::Error { place: file.to_owned(), line: 1, column: 1, problem };
    (!text.is_empty() && !text.starts_with('#')).then(|| Document {
        file: file.to_owned(),
        before,
        is_ours: text.contains(OURS),
        is_named: true,
        text: text.to_owned(),
        content: Content::Wrong(error),
    })
}

fn document(file: &str, before: u64, text: &str) -> Option<Document> {
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_empty) {
        return None;
    }
    let read = || Ok(Read { value: yaml::parse(file, text)?, located: yaml::parse(file, text)? });
    let content = match read() {
        Ok(read) => Content::Object(read),
        Err(error) => Content::Wrong(error),
    };
    Some(Document {
        file: file.to_owned(),
        before,
        is_ours: text.contains(OURS),
        is_named: true,
        text: text.to_owned(),
        content,
    })
}
