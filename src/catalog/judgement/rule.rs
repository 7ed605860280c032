//! `values/rules.yaml`: what must hold between values.

use serde::Deserialize;

use super::super::{Error, Files, Level};
use super::Reader;
use crate::expr::Expression;
use crate::values::Path;
use crate::yaml;

/// Where the table is.
const FILE: &str = "values/rules.yaml";

/// A rule over the final values of releases: where `when` holds, `message` is said.
#[derive(Debug)]
pub struct Rule {
    /// The releases that it is about; it speaks only where all are wanted.
    pub releases: Vec<String>,
    /// When it speaks. What it reads of values that nobody sets makes it silent.
    pub when: Expression,
    /// Whether it refuses or warns.
    pub level: Level,
    /// The first of `releases` is blamed at this path.
    pub path: Path,
    /// What is wrong and what to do.
    pub message: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    releases: Vec<String>,
    when: String,
    level: Level,
    path: String,
    message: String,
}

pub(super) fn read(files: &Files, reader: &mut Reader<'_>) -> Vec<Rule> {
    let Some(text) = files.get(FILE) else { return Vec::new() };
    let file: File = yaml::parse(FILE, text).unwrap_or_else(|error| {
        reader.errors.push(error.into());
        File::default()
    });
    file.rules.into_iter().enumerate().filter_map(|(index, entry)| rule(index, entry, reader)).collect()
}

fn rule(index: usize, entry: Entry, reader: &mut Reader<'_>) -> Option<Rule> {
    let field = format!("rules[{index}]");
    for name in &entry.releases[1.min(entry.releases.len())..] {
        reader.release(FILE, &field, name)?;
    }
    let path = reader.path(FILE, &field, entry.releases.first().map(String::as_str), &entry.path)?;
    let Entry { releases, when, level, message, .. } = entry;
    match Expression::compile(&when) {
        Ok(when) => Some(Rule { releases, when, level, path, message }),
        Err(error) => {
            reader.errors.push(Error::Expression { file: FILE.into(), line: 0, field: format!("{field}.when"), error });
            None
        }
    }
}
