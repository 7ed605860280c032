//! `values/rules.yaml`: servers of which each is worth something only on a node of its own.

use serde::Deserialize;

use super::super::Error;
use super::Reader;
use super::rule::FILE;
use crate::values::Path;

/// Servers that decide by majority.
#[derive(Debug)]
pub struct Apart {
    /// The chart that runs them, in whatever releases.
    pub chart: String,
    /// What they are, for people: `database servers`.
    pub what: String,
    /// Where the values say how many there are.
    pub replicas: Path,
    /// Where the values say which nodes may run them: `node_selector_key` and `node_selector_value` are below.
    pub labels: Path,
    /// The key of the label by which the chart chooses nodes where nobody says so.
    pub node: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    chart: String,
    what: String,
    replicas: String,
    labels: String,
    node: String,
}

pub(super) fn read(entries: Vec<Entry>, reader: &mut Reader<'_>) -> Vec<Apart> {
    let path = |index: usize, field: &str, text: &str, reader: &mut Reader<'_>| {
        let path = Path::parse(text);
        path.map_err(|error| {
            reader.errors.push(Error::Path { file: FILE.into(), field: format!("apart[{index}].{field}"), error });
        })
        .ok()
    };
    let read = |(index, entry): (usize, Entry)| {
        let replicas = path(index, "replicas", &entry.replicas, reader)?;
        let labels = path(index, "labels", &entry.labels, reader)?;
        let Entry { chart, what, node, .. } = entry;
        Some(Apart { chart, what, replicas, labels, node })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
