//! The table `separateServers` of `values/rules.yaml`: servers that form a quorum and must run on different nodes.

use serde::Deserialize;

use super::super::Error;
use super::{RULES_FILE, Reader};
use osdpl_values::Path;

/// Servers of one quorum. Each server must run on a different node, so that the failure of a node stops only one
/// server.
#[derive(Debug)]
pub struct SeparateServers {
    /// The name of the chart that runs the servers. The entry applies to every release of this chart.
    pub chart: String,
    /// The name of the servers in messages, such as `database servers`.
    pub what: String,
    /// The path of the value that sets the number of servers.
    pub replicas: Path,
    /// The reason why an even number of servers is a mistake, such as `tolerates no more failures than one server
    /// less`. In messages, this text follows a subject such as `an even number of database servers`.
    pub even: String,
    /// The path of the map with the chart's node selector (`node_selector_key` and `node_selector_value`). If `None`,
    /// the path is `labels.` followed by the last key of `replicas`, such as `labels.server` for `pod.replicas.server`.
    pub labels: Option<Path>,
    /// The key of the node label by which the chart selects nodes by default; `None` if this is the label of control
    /// plane nodes.
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

pub(super) fn read(entries: Vec<Entry>, reader: &mut Reader<'_>) -> Vec<SeparateServers> {
    let path = |index: usize, field: &str, text: &str, reader: &mut Reader<'_>| {
        let path = Path::parse(text);
        path.map_err(|error| {
            reader.errors.push(Error::Path {
                file: RULES_FILE.into(),
                field: format!("separateServers[{index}].{field}"),
                error,
            });
        })
        .ok()
    };
    let read = |(index, entry): (usize, Entry)| {
        let replicas = path(index, "replicas", &entry.replicas, reader)?;
        let labels = entry.labels.as_deref().map(|text| path(index, "labels", text, reader));
        let labels = labels.map_or(Some(None), |path| path.map(Some))?;
        let Entry { chart, what, even, node, .. } = entry;
        Some(SeparateServers { chart, what, replicas, even, labels, node })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
