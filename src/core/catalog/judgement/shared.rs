//! `values/rules.yaml`: claims whose volume pods on several nodes mount at once, and what makes volumes that can't be mounted so.

use serde::Deserialize;

use super::super::Error;
use super::Reader;
use super::rule::FILE;
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// A claim that is shared (`ReadWriteMany`).
#[derive(Debug)]
pub struct Shared {
    /// The release.
    pub release: String,
    /// Where its values name the class of the claim.
    pub class: Path,
    /// Where they say whether there is such a claim at all; there is one where nobody says anything.
    pub unless_false: Option<Path>,
    /// When the values of the release share it at all, seen as rules see them; always where nothing is said.
    pub when: Option<Expression>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Entry {
    release: String,
    class: String,
    #[serde(default)]
    unless_false: Option<String>,
    #[serde(default)]
    when: Option<String>,
}

pub(super) fn read(entries: Vec<Entry>, reader: &mut Reader<'_>) -> Vec<Shared> {
    let read = |(index, entry): (usize, Entry)| {
        let field = format!("shared[{index}]");
        let class = reader.path(FILE, &field, Some(&entry.release), &entry.class)?;
        let unless_false = match entry.unless_false.as_deref().map(Path::parse) {
            None => None,
            Some(Ok(path)) => Some(path),
            Some(Err(error)) => {
                reader.errors.push(Error::Path { file: FILE.into(), field: format!("{field}.unlessFalse"), error });
                return None;
            }
        };
        let when = match entry.when.as_deref().map(Expression::compile) {
            None => None,
            Some(Ok(when)) => Some(when),
            Some(Err(error)) => {
                let field = format!("{field}.when");
                reader.errors.push(Error::Expression { file: FILE.into(), line: 0, field, error });
                return None;
            }
        };
        Some(Shared { release: entry.release, class, unless_false, when })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
