//! `values/rules.yaml`: what must hold between values.

use serde::Deserialize;

use super::super::{Error, Files, Level};
use super::{Judgements, Reader, apart, pool, shared};
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// Where the table is.
pub(super) const FILE: &str = "values/rules.yaml";

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
    #[serde(default)]
    pools: Vec<pool::Entry>,
    #[serde(default)]
    apart: Vec<apart::Entry>,
    #[serde(default)]
    shared: Vec<shared::Entry>,
    #[serde(default)]
    unshared: Vec<String>,
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

/// The tables of the file.
pub(super) fn read(files: &Files, reader: &mut Reader<'_>) -> Judgements {
    let Some(text) = files.get(FILE) else { return Judgements::default() };
    let file: File = text.read(FILE).unwrap_or_else(|error| {
        reader.errors.push(error.into());
        File::default()
    });
    let rules = file.rules.into_iter().enumerate();
    Judgements {
        couplings: Vec::new(),
        rules: rules.filter_map(|(index, entry)| rule(index, entry, reader)).collect(),
        pools: pool::read(file.pools, reader),
        apart: apart::read(file.apart, reader),
        shared: shared::read(file.shared, reader),
        unshared: file.unshared,
    }
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
