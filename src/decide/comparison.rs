//! Comparison of revisions that others made with the desired state: each once for its inputs.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::requests::{Answer, Read};
use osdpl_core::adopt::{Comparison, compare_release};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{ComparisonResult, ManifestComparison, Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::Policy;
use osdpl_core::release::ADOPTED;

/// How long it counts that someone else drives a release, or that it can't be compared: comparing again reads a whole record.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Compares every desired release whose newest revision someone else made. A comparison of the same revision and inputs is kept, but not for releases
/// that are asked for in `policy.adopt`: someone else may drive them by now. Without its chart (`strict`) no release is compared.
pub fn compare_all(
    draft: &mut Draft<'_>,
    (desired, observed): (&Desired, &Observed),
    policy: &Policy,
    strict: bool,
) -> BTreeMap<String, Comparison> {
    let (mut all, mut compared) = (BTreeMap::new(), BTreeMap::new());
    let now = draft.snapshot.now;
    for (name, release) in &desired.releases {
        let Some(seen) = observed.releases.get(&release.key).filter(|seen| is_in_question(release, seen)) else {
            continue;
        };
        // A release that lacks something has nothing to compare with.
        if release.blocked.is_some() || strict && release.imprint.is_none() {
            continue;
        }
        let is_asked = !seen.is_ours() && Policy::selects(&policy.adopt, name);
        let known = draft.snapshot.kept.comparisons.get(&release.key);
        if let Some(known) = known.filter(|known| counts(known, (seen.revision, &release.inputs), is_asked, now)) {
            all.insert(release.key.clone(), known.clone());
            continue;
        }
        // The owner of a release of ours does not matter: another upgrade by hand makes it nobody else's.
        let read = Read::Source { release: release.key.clone(), revision: seen.revision, owner: !seen.is_ours() };
        let Some(Answer::Source(source)) = draft.read(read).map(|answered| &answered.answer) else { continue };
        let verdict = match source {
            Err(problem) => ComparisonResult::Unknown(problem.clone()),
            Ok(recorded) => {
                if let Some(owner) = &recorded.owner {
                    ComparisonResult::Owned(owner.clone())
                } else {
                    let found = compare_release(release, &recorded.source);
                    let verdict = found.verdict.clone();
                    compared.insert(name.clone(), found);
                    verdict
                }
            }
        };
        let until = until(&verdict, is_asked, now);
        let likeness = ManifestComparison { revision: seen.revision, inputs: release.inputs.clone(), verdict, until };
        all.insert(release.key.clone(), likeness);
    }
    draft.wake(again(&all));
    draft.kept.comparisons = all;
    compared
}

/// Until when a comparison counts; `None` where only the release or the spec changes it. A release that is asked for is compared again as long as it
/// is not adopted: the spec may be refused meanwhile, and the release get another owner.
fn until(verdict: &ComparisonResult, is_asked: bool, now: Timestamp) -> Option<Timestamp> {
    let passes = is_asked || matches!(verdict, ComparisonResult::Owned(_) | ComparisonResult::Unknown(_));
    now.checked_add(AGAIN).ok().filter(|_| passes)
}

/// Whether a comparison still counts.
fn counts(known: &ManifestComparison, (revision, inputs): (i64, &str), is_asked: bool, now: Timestamp) -> bool {
    let lasts = known.until.map_or(!is_asked, |until| now < until);
    lasts && known.revision == revision && known.inputs == inputs
}

/// When to compare again: no watch tells that another controller has let go.
fn again(all: &BTreeMap<ReleaseKey, ManifestComparison>) -> Option<Timestamp> {
    all.values().filter_map(|likeness| likeness.until).min()
}

/// Whether someone else made the newest revision, or did before we adopted it.
fn is_in_question(release: &DesiredRelease, seen: &ObservedRelease) -> bool {
    let ours = seen.attempt.as_ref().is_some_and(|attempt| attempt.revision == seen.revision);
    let adopted = seen.catalog.as_deref() == Some(ADOPTED) && seen.inputs.as_deref() != Some(release.inputs.as_str());
    release.managed && seen.status == "deployed" && seen.undecodable.is_none() && (!ours || adopted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_for_a_while_where_no_watch_tells() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now.checked_add(AGAIN).unwrap();
        let of = |verdict: ComparisonResult, is_asked| {
            let until = until(&verdict, is_asked, now);
            ManifestComparison { revision: 3, inputs: "new".into(), verdict, until }
        };
        let owned = of(ComparisonResult::Owned("Flux".into()), false);
        assert!(counts(&owned, (3, "new"), false, now), "not read in each pass");
        assert!(!counts(&owned, (3, "new"), false, later));
        assert!(!counts(&owned, (4, "new"), false, now) && !counts(&owned, (3, "newer"), false, now));
        let same = of(ComparisonResult::Same, false);
        assert!(counts(&same, (3, "new"), false, later), "that stays so");
        assert!(!counts(&same, (3, "new"), true, now), "someone else may drive it by now");
        let asked = of(ComparisonResult::Same, true);
        assert!(counts(&asked, (3, "new"), true, now), "a refused spec reads no record in each pass");
        assert!(!counts(&asked, (3, "new"), true, later));
        let of_all = |all: &[&ManifestComparison]| {
            let key = |at: usize| ReleaseKey::new("openstack", at.to_string());
            again(&all.iter().enumerate().map(|(at, one)| (key(at), (*one).clone())).collect())
        };
        assert_eq!(of_all(&[&same, &owned]), Some(later));
        assert_eq!(of_all(&[&same]), None);
    }
}
