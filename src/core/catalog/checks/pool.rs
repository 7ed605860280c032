//! `values/rules.yaml`: pods whose processes keep pools of database connections.

use serde::Deserialize;

use super::Reader;
use super::rule::FILE;
use osdpl_values::Path;

/// The pods of one component, and how many database connections each of them may open.
///
/// They open at most pods × (workers + other processes) × pools × (`max_pool_size` + `max_overflow`) connections.
#[derive(Debug)]
pub struct ConnectionPool {
    /// The release of the pods.
    pub release: String,
    /// The path of the number of pods; 1 if unset.
    pub pods: Path,
    /// The paths of the number of workers per pod. The value is a number, or a text with `processes=`. The first path
    /// with a value wins.
    pub workers: Vec<Path>,
    /// The number of workers if no path has a value.
    pub processes: u64,
    /// The number of processes besides the workers.
    pub other_processes: u64,
    /// The number of pools per process.
    pub pools: u64,
    /// The section with `max_pool_size` and `max_overflow`. Without it, or without both options in it, a process counts
    /// as one connection.
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
    #[serde(default, rename = "beside")]
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
        let mut path = |text: &str| reader.path(FILE, &field, Some(&release), text);
        let pods = path(&pods)?;
        let workers = workers.iter().map(|text| path(text)).collect::<Option<Vec<_>>>()?;
        let section = section.map(|text| path(&text)).map_or(Some(None), |path| path.map(Some))?;
        Some(ConnectionPool { release, pods, workers, processes, other_processes, pools, section })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
