//! What a change that waits for approval would change: the paths of values, read from helm's record once.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::gather::Wish;
use super::memory::{Changes, Memory};
use osdpl_core::observed::{ComparisonResult, ReleaseKey};
use osdpl_core::plan::{Plan, Reason};
use osdpl_values::changed_paths;

/// How many paths a status carries for a release.
const SHOWN: usize = 20;

/// When a record is read again that could not be: it may have been replaced, or written in between.
const AGAIN: Duration = Duration::from_secs(30);

impl Context {
    /// The paths that each waiting upgrade would change, or why they can't be told, and when that is asked again.
    pub(super) async fn changes(
        &self,
        plan: &Plan,
        wish: &Wish,
        memory: &mut Memory,
    ) -> (BTreeMap<String, Vec<String>>, Option<Timestamp>) {
        let waiting: Vec<&str> =
            plan.awaiting_approval().filter(|(_, why)| **why != Reason::NotDesired).map(|(name, _)| name).collect();
        let mut all = BTreeMap::new();
        for name in waiting {
            let Some(release) = wish.desired.releases.get(name) else { continue };
            let Some(revision) = wish.observed.releases.get(&release.key).map(|seen| seen.revision) else { continue };
            let now = super::now();
            let known = memory.changes.get(&release.key).filter(|known| known.counts(revision, &release.inputs, now));
            if known.is_none() {
                let paths = match wish.observed.comparisons.get(&release.key).map(|known| &known.verdict) {
                    // What others made is compared by what templates see: they write values in their own way.
                    Some(ComparisonResult::Differs { chart, paths }) => {
                        Ok(short(chart.iter().chain(paths).cloned().collect()))
                    }
                    _ => self.differences(release, revision).await,
                };
                let paths = paths.map_err(|problem| (problem, now.checked_add(AGAIN).unwrap_or(now)));
                let changes = Changes { revision, inputs: release.inputs.clone(), paths };
                memory.changes.insert(release.key.clone(), changes);
            }
            all.extend(memory.changes.get(&release.key).map(|known| (name.to_owned(), known.shown())));
        }
        memory
            .changes
            .retain(|key, _| all.keys().any(|name| wish.desired.releases.get(name).is_some_and(|r| r.key == *key)));
        (all, again(&memory.changes))
    }

    /// The paths, or why they can't be told: what waits for approval is no reason not to tell the rest.
    async fn differences(
        &self,
        release: &osdpl_core::desired::DesiredRelease,
        revision: i64,
    ) -> Result<Vec<String>, String> {
        let recorded = self.cluster.recorded_values(&release.key, revision).await;
        let recorded = recorded.unwrap_or_else(|error| Err(self.scrubber.borrow().scrub(&error.to_string())))?;
        let mut paths: Vec<String> =
            changed_paths(&recorded, &release.values).iter().map(ToString::to_string).collect();
        if paths.is_empty() {
            paths.push("(no value: the chart, helm's version or its flags)".to_owned());
        }
        Ok(short(paths))
    }
}

/// When a record is to be read again: a cloud that waits for approval is one in which nothing else brings a pass.
fn again(all: &BTreeMap<ReleaseKey, Changes>) -> Option<Timestamp> {
    all.values().filter_map(|changes| changes.paths.as_ref().err().map(|(_, until)| *until)).min()
}

impl Changes {
    fn counts(&self, revision: i64, inputs: &str, now: Timestamp) -> bool {
        let is_past = self.paths.as_ref().is_err_and(|(_, until)| *until <= now);
        self.revision == revision && self.inputs == inputs && !is_past
    }

    fn shown(&self) -> Vec<String> {
        self.paths.as_ref().cloned().unwrap_or_else(|(problem, _)| vec![format!("(unknown: {problem})")])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_its_revision_and_inputs_and_none_only_for_a_while() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now.checked_add(AGAIN).unwrap();
        let with = |paths| Changes { revision: 2, inputs: "new".into(), paths };
        let known = with(Ok(vec!["conf.memory".to_owned()]));
        assert!(known.counts(2, "new", later) && !known.counts(3, "new", now) && !known.counts(2, "newer", now));
        let unknown = with(Err(("it is gone".to_owned(), later)));
        assert_eq!(unknown.shown(), ["(unknown: it is gone)"]);
        assert!(unknown.counts(2, "new", now) && !unknown.counts(2, "new", later));
        let of = |name: &str, changes| (ReleaseKey::new("openstack", name), changes);
        assert_eq!(again(&[of("nova", unknown), of("heat", with(Ok(Vec::new())))].into()), Some(later));
        assert_eq!(again(&[of("heat", with(Ok(Vec::new())))].into()), None, "what is known stays so");
    }
}
