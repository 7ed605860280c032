//! The table `shared` of `values/rules.yaml`: volume claims that pods on several nodes mount at once.

use serde::Deserialize;

use super::super::Error;
use super::{RULES_FILE, Reader};
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// A volume claim that pods on several nodes mount at once (`ReadWriteMany`).
#[derive(Debug)]
pub struct SharedClaim {
    /// The release whose chart creates the claim.
    pub release: String,
    /// The path of the claim's StorageClass in the release's values.
    pub class: Path,
    /// The path of a boolean in the release's values. If the boolean is `false`, the chart does not create the claim.
    /// `None` if the chart always creates the claim.
    pub unless_false: Option<Path>,
    /// The condition under which pods on several nodes mount the claim; `None` if they always do. The condition can
    /// read the final values of the release as `values.<release>`.
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
        let class = reader.path(RULES_FILE, &field, &entry.release, &entry.class)?;
        let unless_false = match entry.unless_false.as_deref().map(Path::parse) {
            None => None,
            Some(Ok(path)) => Some(path),
            Some(Err(error)) => {
                reader.errors.push(Error::Path {
                    file: RULES_FILE.into(),
                    field: format!("{field}.unlessFalse"),
                    error,
                });
                return None;
            }
        };
        let when = match entry.when.as_deref().map(Expression::compile) {
            None => None,
            Some(Ok(when)) => Some(when),
            Some(Err(error)) => {
                let field = format!("{field}.when");
                reader.errors.push(Error::Expression { file: RULES_FILE.into(), line: 0, field, error });
                return None;
            }
        };
        Some(SharedClaim { release: entry.release, class, unless_false, when })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
