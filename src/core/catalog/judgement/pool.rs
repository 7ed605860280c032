//! `values/rules.yaml`: pods whose processes keep pools of connections to the database.

use serde::Deserialize;

use super::Reader;
use super::rule::FILE;
use osdpl_values::Path;

/// Pods of one kind: pods × (workers + beside) × pools × (`max_pool_size` + `max_overflow`) connections at most.
#[derive(Debug)]
pub struct Pool {
    /// The release that runs them.
    pub release: String,
    /// Where its values say how many pods there are; 1 where nobody does.
    pub pods: Path,
    /// Where they say how many workers a pod has, as a number or, in a text, behind `processes=`: the first that is set counts.
    pub workers: Vec<Path>,
    /// How many workers it has where nobody says so.
    pub processes: u64,
    /// Processes beside the workers.
    pub beside: u64,
    /// How many pools each process has.
    pub pools: u64,
    /// The section with `max_pool_size` and `max_overflow`; where there is none, or nothing of the two in it, a process is counted with one
    /// connection.
    pub section: Option<Path>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    release: String,
    pods: String,
    #[serde(default)]
    workers: Vec<String>,
    #[serde(default = "one")]
    processes: u64,
    #[serde(default)]
    beside: u64,
    #[serde(default = "one")]
    pools: u64,
    section: Option<String>,
}

fn one() -> u64 {
    1
}

pub(super) fn read(entries: Vec<Entry>, reader: &mut Reader<'_>) -> Vec<Pool> {
    let read = |(index, entry): (usize, Entry)| {
        let Entry { release, pods, workers, processes, beside, pools, section } = entry;
        let field = format!("pools[{index}]");
        let mut path = |text: &str| reader.path(FILE, &field, Some(&release), text);
        let pods = path(&pods)?;
        let workers = workers.iter().map(|text| path(text)).collect::<Option<Vec<_>>>()?;
        let section = section.map(|text| path(&text)).map_or(Some(None), |path| path.map(Some))?;
        Some(Pool { release, pods, workers, processes, beside, pools, section })
    };
    entries.into_iter().enumerate().filter_map(read).collect()
}
