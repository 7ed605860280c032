//! What a change that waits for approval would change: the paths of values, read from helm's record once.

use std::collections::BTreeMap;

use super::Context;
use super::gather::Wish;
use super::memory::Memory;
use crate::cluster::Error;
use crate::observed::Verdict;
use crate::plan::{Plan, Why};
use crate::values::changed;

/// How many paths a status carries for a release.
const SHOWN: usize = 20;

impl Context {
    /// The paths that each waiting upgrade would change.
    pub(super) async fn changes(
        &self,
        plan: &Plan,
        wish: &Wish,
        memory: &mut Memory,
    ) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let waiting: Vec<&str> =
            plan.awaiting().filter(|(_, why)| **why != Why::Unwanted).map(|(name, _)| name).collect();
        let mut all = BTreeMap::new();
        for name in waiting {
            let Some(release) = wish.desired.releases.get(name) else { continue };
            let Some(revision) = wish.observed.releases.get(&release.key).map(|seen| seen.revision) else { continue };
            let known = memory.changes.get(&release.key);
            let known = known.filter(|(of, inputs, _)| *of == revision && *inputs == release.inputs);
            let paths = match known {
                Some((_, _, paths)) => paths.clone(),
                None => match wish.observed.likeness.get(&release.key).map(|known| &known.verdict) {
                    // What others made is compared by what templates see: they write values in their own way.
                    Some(Verdict::Differs { chart, paths }) => short(chart.iter().chain(paths).cloned().collect()),
                    _ => self.differences(release, revision).await?,
                },
            };
            memory.changes.insert(release.key.clone(), (revision, release.inputs.clone(), paths.clone()));
            all.insert(name.to_owned(), paths);
        }
        memory
            .changes
            .retain(|key, _| all.keys().any(|name| wish.desired.releases.get(name).is_some_and(|r| r.key == *key)));
        Ok(all)
    }

    async fn differences(&self, release: &crate::desired::DesiredRelease, revision: i64) -> Result<Vec<String>, Error> {
        let recorded = match self.cluster.recorded_values(&release.key, revision).await? {
            Ok(recorded) => recorded,
            Err(problem) => return Ok(vec![format!("(unknown: {problem})")]),
        };
        let mut paths: Vec<String> = changed(&recorded, &release.values).iter().map(ToString::to_string).collect();
        if paths.is_empty() {
            paths.push("(no value: the chart, helm's version or its flags)".to_owned());
        }
        Ok(short(paths))
    }
}

fn short(mut paths: Vec<String>) -> Vec<String> {
    if paths.len() > SHOWN {
        let more = paths.len() - SHOWN;
        paths.truncate(SHOWN);
        paths.push(format!("(and {more} more)"));
    }
    paths
}
