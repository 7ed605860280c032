//! The paths of values that changes which wait for approval would change, read from helm's records once.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::kept::Changes;
use super::requests::{Answer, Read};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{ComparisonResult, Observed, ReleaseKey};
use osdpl_core::plan::{Plan, Reason};
use osdpl_values::{Values, changed_paths};

/// How many paths a status carries for a release.
const SHOWN: usize = 20;

/// When a record is read again that could not be: it may have been replaced, or written in between.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The paths that each waiting upgrade would change, or why they are not known.
pub fn changes(
    draft: &mut Draft<'_>,
    plan: &Plan,
    (desired, observed): (&Desired, &Observed),
) -> BTreeMap<String, Vec<String>> {
    let waiting = plan.awaiting_approval().filter(|(_, why)| **why != Reason::NotDesired).map(|(name, _)| name);
    let (mut all, mut kept) = (BTreeMap::new(), BTreeMap::<ReleaseKey, Changes>::new());
    let now = draft.snapshot.now;
    for name in waiting {
        let Some(release) = desired.releases.get(name) else { continue };
        let Some(revision) = observed.releases.get(&release.key).map(|seen| seen.revision) else { continue };
        let known = draft.snapshot.kept.changes.get(&release.key);
        let known = known.filter(|known| known.counts(revision, &release.inputs, now)).cloned();
        let Some(changes) = known.or_else(|| read(draft, release, revision, observed)) else { continue };
        all.insert(name.to_owned(), changes.shown());
        kept.insert(release.key.clone(), changes);
    }
    // While a cloud waits for approval nothing else triggers a pass.
    draft.wake(again(&kept));
    draft.kept.changes = kept;
    all
}

/// The paths that an upgrade would change; none where the next pass knows.
fn read(draft: &mut Draft<'_>, release: &DesiredRelease, revision: i64, observed: &Observed) -> Option<Changes> {
    let verdict = observed.comparisons.get(&release.key).map(|known| &known.verdict);
    // Revisions of others are compared by what templates see: others write values in their own way.
    let paths: Result<Vec<String>, String> = if let Some(ComparisonResult::Differs { chart, paths }) = verdict {
        Ok(chart.iter().chain(paths).cloned().collect())
    } else {
        // Changes that wait for approval are no reason to report nothing else.
        let read = Read::Values { release: release.key.clone(), revision, required: false };
        let Answer::Values(recorded) = &draft.read(read)?.answer else { return None };
        let paths =
            |recorded: &Values| changed_paths(recorded, &release.values).iter().map(ToString::to_string).collect();
        recorded.as_deref().map(paths).map_err(Clone::clone)
    };
    let now = draft.snapshot.now;
    let paths = paths.map(|paths| short(named(paths)));
    let paths = paths.map_err(|problem| (problem, now.checked_add(AGAIN).unwrap_or(now)));
    Some(Changes { revision, inputs: release.inputs.clone(), paths })
}

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

fn named(mut paths: Vec<String>) -> Vec<String> {
    if paths.is_empty() {
        paths.push("(no value: the chart, helm's version or its flags)".to_owned());
    }
    paths
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
    fn counts_for_its_revision_and_inputs() {
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
        assert_eq!(again(&[of("heat", with(Ok(Vec::new())))].into()), None);
    }
}
