//! Finds, for each upgrade that waits for approval, the paths of the values that the upgrade would change.
//!
//! For each such upgrade, osdpl reads the release's newest record once, and keeps the paths in memory for later passes.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::kept::Changes;
use super::requests::{Read, Response};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{ComparisonResult, Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::Plan;
use osdpl_values::{Values, changed_paths};

/// The maximum number of value paths in the status of a release.
const MAX_PATHS: usize = 20;

/// The delay before osdpl tries again to read a record after a failure.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// Returns, for each release whose upgrade waits for approval, the paths of the values that the upgrade would change.
///
/// If the paths of a release are unknown, its list contains the reason instead.
pub(crate) fn pending_changes(
    draft: &mut Draft<'_>,
    plan: &Plan,
    desired: &Desired,
    observed: &Observed,
) -> BTreeMap<String, Vec<String>> {
    let waiting = plan.awaiting_approval().filter(|(_, why)| !why.is_removal()).map(|(name, _)| name);
    let (mut all, mut kept) = (BTreeMap::new(), BTreeMap::<ReleaseKey, Changes>::new());
    let now = draft.snapshot.now;
    for name in waiting {
        let Some(release) = desired.releases.get(name) else { continue };
        let Some(existing) = observed.releases.get(&release.key) else { continue };
        let known = draft.snapshot.kept.changes.get(&release.key);
        let known = known.filter(|known| known.is_valid(existing.revision, &release.inputs, now)).cloned();
        let Some(changes) = known.or_else(|| read(draft, release, existing, observed)) else { continue };
        all.insert(name.to_owned(), changes.shown());
        kept.insert(release.key.clone(), changes);
    }
    // If osdpl could not read a record, a later pass must try again. Perhaps no watch triggers a pass while the upgrade
    // waits for approval, so the plan itself requests the pass.
    draft.requeue(next_retry(&kept));
    draft.kept.changes = kept;
    all
}

/// Returns the paths of the values that an upgrade of `release` would change; `None` while osdpl must first read the
/// newest record of the release.
fn read(
    draft: &mut Draft<'_>,
    release: &DesiredRelease,
    existing: &ObservedRelease,
    observed: &Observed,
) -> Option<Changes> {
    let revision = existing.revision;
    let result = observed.comparisons.get(&release.key).map(|known| &known.result);
    // If osdpl did not make the revision, use the paths from the module `comparison`. Other tools may write different
    // values with the same effect, so that module compares the values after it has merged them with the chart's
    // defaults.
    let paths: Result<Vec<String>, String> = if let Some(ComparisonResult::Differs { chart, paths }) = result {
        Ok(chart.iter().chain(paths).cloned().collect())
    } else {
        // The paths are only shown to the user. So the pass must not fail if the record can't be read.
        let read = Read::Values { release: release.key.clone(), revision, required: false };
        let Response::Values(recorded) = &draft.read(read)?.response else { return None };
        let paths =
            |recorded: &Values| changed_paths(recorded, &release.values).iter().map(ToString::to_string).collect();
        recorded.as_deref().map(paths).map_err(Clone::clone)
    };
    let now = draft.snapshot.now;
    let paths = paths.map(|paths| shorten(or_note(paths, existing.note_without_values(&release.inputs))));
    let paths = paths.map_err(|problem| (problem, now.checked_add(RETRY_INTERVAL).unwrap_or(now)));
    Some(Changes { revision, inputs: release.inputs.clone(), paths })
}

/// Returns the earliest time at which osdpl retries to read a record; `None` if osdpl could read all records.
fn next_retry(all: &BTreeMap<ReleaseKey, Changes>) -> Option<Timestamp> {
    all.values().filter_map(|changes| changes.paths.as_ref().err().map(|(_, until)| *until)).min()
}

impl Changes {
    fn is_valid(&self, revision: i64, inputs: &str, now: Timestamp) -> bool {
        let is_past = self.paths.as_ref().is_err_and(|(_, until)| *until <= now);
        self.revision == revision && self.inputs == inputs && !is_past
    }

    fn shown(&self) -> Vec<String> {
        self.paths.as_ref().cloned().unwrap_or_else(|(problem, _)| vec![format!("(unknown: {problem})")])
    }
}

/// Returns `paths` unchanged, or `note` instead if no value changes (`paths` is empty).
fn or_note(mut paths: Vec<String>, note: &str) -> Vec<String> {
    if paths.is_empty() {
        paths.push(note.to_owned());
    }
    paths
}

/// Shortens a list of paths to [`MAX_PATHS`], and appends the number of paths that were left out.
fn shorten(mut paths: Vec<String>) -> Vec<String> {
    if paths.len() > MAX_PATHS {
        let more = paths.len() - MAX_PATHS;
        paths.truncate(MAX_PATHS);
        paths.push(format!("(and {more} more)"));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_for_its_revision_and_inputs() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now.checked_add(RETRY_INTERVAL).unwrap();
        let with = |paths| Changes { revision: 2, inputs: "new".into(), paths };
        let known = with(Ok(vec!["conf.memory".to_owned()]));
        assert!(known.is_valid(2, "new", later) && !known.is_valid(3, "new", now) && !known.is_valid(2, "newer", now));
        let unknown = with(Err(("it was deleted".to_owned(), later)));
        assert_eq!(unknown.shown(), ["(unknown: it was deleted)"]);
        assert!(unknown.is_valid(2, "new", now) && !unknown.is_valid(2, "new", later));
        let of = |name: &str, changes| (ReleaseKey::new("openstack", name), changes);
        assert_eq!(next_retry(&[of("nova", unknown), of("heat", with(Ok(Vec::new())))].into()), Some(later));
        assert_eq!(next_retry(&[of("heat", with(Ok(Vec::new())))].into()), None);
    }
}
