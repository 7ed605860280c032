//! `values/rules.yaml`: volume claims that pods on several nodes mount at once, and provisioners whose volumes do not
//! support that.

use serde::Deserialize;

use super::super::Error;
use super::Reader;
use super::rule::FILE;
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// A shared claim (`ReadWriteMany`).
#[derive(Debug)]
pub struct SharedClaim {
    /// The release.
    pub release: String,
    /// The path of the claim's storage class.
    pub class: Path,
    /// The path of the value that disables the claim; the claim exists if it is unset.
    pub unless_false: Option<Path>,
    /// The condition under which the claim is shared, with the variables of rules; unconditional if `None`.
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

pub(super) fn read(entries: Vec<Entry>, reader: &mut Reader<'_>) -> Vec<SharedClaim> {
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
        Some(SharedClaim { release: entry.release, class, unless_false, when })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
