//! The table `pools` of `values/rules.yaml`: pods whose processes keep pools of database connections.

use serde::Deserialize;

use super::{RULES_FILE, Reader};
use osdpl_values::Path;

/// The settings that determine how many database connections the pods of one component can open.
///
/// All pods together open at most pods × (workers + other processes) × pools × (`max_pool_size` + `max_overflow`)
/// connections.
#[derive(Debug)]
pub struct ConnectionPool {
    /// The name of the release whose values contain the paths in this entry.
    pub release: String,
    /// The path of the number of pods (replicas) in the release's values. If there is no value at this path, osdpl
    /// assumes 1 pod.
    pub pods: Path,
    /// The paths at which the values may contain the number of worker processes per pod. osdpl uses the first path that
    /// has a value. The value is the number, or a string that contains `processes=` and the number.
    pub workers: Vec<Path>,
    /// The number of worker processes per pod if none of the paths in `workers` has a value.
    pub processes: u64,
    /// The number of processes per pod that open connections, not counting the worker processes.
    pub other_processes: u64,
    /// The number of connection pools in each process.
    pub pools: u64,
    /// The path of the section of the program's configuration that contains `max_pool_size` and `max_overflow`. If the
    /// field is `None`, or if the section has neither option, osdpl assumes one connection per pool.
    pub section: Option<Path>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    release: String,
    pods: String,
    #[serde(default)]
    workers: Vec<String>,
    #[serde(default = "default_processes")]
    processes: u64,
    #[serde(default, rename = "otherProcesses")]
    other_processes: u64,
    #[serde(default = "default_pools")]
    pools: u64,
    section: Option<String>,
}

fn default_processes() -> u64 {
    1
}

fn default_pools() -> u64 {
    1
}

pub(super) fn read(entries: Vec<Entry>, reader: &mut Reader<'_>) -> Vec<ConnectionPool> {
    let read = |(index, entry): (usize, Entry)| {
        let Entry { release, pods, workers, processes, other_processes, pools, section } = entry;
        let field = format!("pools[{index}]");
        let mut path = |text: &str| reader.path(RULES_FILE, &field, &release, text);
        let pods = path(&pods)?;
        let workers = workers.iter().map(|text| path(text)).collect::<Option<Vec<_>>>()?;
        let section = section.map(|text| path(&text)).map_or(Some(None), |path| path.map(Some))?;
        Some(ConnectionPool { release, pods, workers, processes, other_processes, pools, section })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
