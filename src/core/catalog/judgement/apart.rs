//! `values/rules.yaml`: servers that decide by majority, of which each is worth something only on a node of its own.

use serde::Deserialize;

use super::super::Error;
use super::Reader;
use super::rule::FILE;
use osdpl_values::Path;

/// Servers that decide by majority.
#[derive(Debug)]
pub struct Apart {
    /// The chart that runs them, in whatever releases.
    pub chart: String,
    /// What they are, for people: `database servers`.
    pub what: String,
    /// Where the values say how many there are.
    pub replicas: Path,
    /// What an even number of them is wrong for, after `an even number of database servers`.
    pub even: String,
    /// Where the values say which nodes may run them: `node_selector_key` and `node_selector_value` are below. `labels.` and the last key of
    /// `replicas` where unset.
    pub labels: Option<Path>,
    /// The key of the label by which the chart chooses nodes where nobody says so; that of the control plane where unset.
    pub node: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    chart: String,
    what: String,
    replicas: String,
    even: String,
    #[serde(default)]
    labels: Option<String>,
    #[serde(default)]
    node: Option<String>,
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
        let labels = entry.labels.as_deref().map(|text| path(index, "labels", text, reader));
        let labels = labels.map_or(Some(None), |path| path.map(Some))?;
        let Entry { chart, what, even, node, .. } = entry;
        Some(Apart { chart, what, replicas, even, labels, node })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
