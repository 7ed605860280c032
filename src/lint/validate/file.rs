//! Splits files into YAML documents, and finds the line of each field of a document.

use serde_json::Value;

use crate::field::keys_of_field;
use osdpl_values::yaml::{self, LocatedNode};

/// The beginning of the `apiVersion` of osdpl's resources. A document that contains this text counts as an osdpl
/// resource.
const OURS: &str = "osdpl.dev/";
/// The marker that separates the YAML documents of a file.
const MARKER: &str = "---";

/// A YAML document of a file.
pub struct Document {
    /// The name of the file that contains the document, as messages print it.
    pub file: String,
    /// The number of lines in the file before the document begins.
    pub before: u64,
    /// Whether the text looks like an osdpl resource, even if the text is not valid YAML.
    pub is_ours: bool,
    /// Whether the user named the file itself as an argument, and not a folder that contains it.
    pub is_named: bool,
    /// The text of the document.
    pub text: String,
    /// The result of parsing the text as YAML.
    pub content: Content,
}

/// The result of parsing a document as YAML.
pub enum Content {
    /// Valid YAML.
    Object(ParsedDocument),
    /// Invalid YAML.
    Invalid(yaml::Error),
}

/// A document that could be parsed.
pub struct ParsedDocument {
    /// The document as a JSON value.
    pub value: Value,
    located: LocatedNode,
}

impl ParsedDocument {
    /// Returns the line number of a field, counted from the beginning of the document.
    ///
    /// If the document does not contain the field, returns the line number of the nearest parent that exists.
    pub(super) fn line(&self, field: &str) -> u64 {
        self.nearest(keys_of_field(field).iter().map(String::as_str))
    }

    /// Returns the line number of the value to which `keys` lead from the top of the document.
    ///
    /// If there is no such value, returns the line number of the nearest parent that exists.
    pub fn nearest<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> u64 {
        self.located.nearest(keys).line()
    }
}

/// Splits a file into its documents, and leaves out empty documents.
pub fn split_documents(file: &str, text: &str) -> Vec<Document> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    let mut before = 0;
    for (number, line) in (0_u64..).zip(text.split_inclusive('\n')) {
        // `---` is a marker only at the beginning of a line. The rest of this line must be empty or a comment.
        let is_marker =
            line.strip_prefix(MARKER).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_marker {
            found.extend(document(file, before, &text[start..offset]));
            found.extend(text_after_marker(file, number, &line[MARKER.len()..]));
            start = offset + line.len();
            before = number + 1;
        }
        offset += line.len();
    }
    found.extend(document(file, before, &text[start..]));
    found
}

/// Returns a document with only an error about `text`, the rest of a line after the marker `---`; `None` if `text` is
/// empty or a comment.
///
/// kubectl refuses other text in this place; other tools ignore the text.
fn text_after_marker(file: &str, before: u64, text: &str) -> Option<Document> {
    let text = text.trim();
    let problem =
        format!("there is text after {MARKER}, where kubectl accepts only a comment: move it to the next line");
    let error = yaml::Error { file: file.to_owned(), line: 1, column: 1, message: problem };
    (!text.is_empty() && !text.starts_with('#')).then(|| Document {
        file: file.to_owned(),
        before,
        is_ours: text.contains(OURS),
        is_named: true,
        text: text.to_owned(),
        content: Content::Invalid(error),
    })
}

fn document(file: &str, before: u64, text: &str) -> Option<Document> {
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_empty) {
        return None;
    }
    let content = match yaml::parse::<LocatedNode>(file, text) {
        Ok(located) => Content::Object(ParsedDocument { value: located.value(), located }),
        Err(error) => Content::Invalid(error),
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
