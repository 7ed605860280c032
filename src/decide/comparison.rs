//! Compares a release with the desired state if someone else made the release's newest revision. Later passes reuse a
//! comparison while it is valid.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::draft::{Draft, RETRY_INTERVAL};
use super::requests::{Read, Recorded, Response};
use osdpl_core::adopt::{Comparison, compare_release};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{ComparisonResult, ManifestComparison, Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::Policy;
use osdpl_core::release::{ADOPTED, Status};

/// Compares each release with the desired state if osdpl did not make the newest revision of the release, or only
/// adopted this revision (see [`is_foreign`]).
///
/// Returns the comparisons that this pass made.
///
/// osdpl reuses a comparison while the revision and the desired inputs stay the same. But if a person requested the
/// adoption of the release, osdpl repeats the comparison from time to time, because another tool may start to manage
/// the release. osdpl does not compare a release whose chart is missing.
pub(crate) fn compare_releases(
    draft: &mut Draft<'_>,
    desired: &Desired,
    observed: &Observed,
    policy: &Policy,
) -> BTreeMap<String, Comparison> {
    let (mut all, mut compared) = (BTreeMap::new(), BTreeMap::new());
    let now = draft.snapshot.now;
    let needs_chart = draft.snapshot.assumed.is_none();
    for (name, release) in &desired.releases {
        let Some(existing) = observed.releases.get(&release.key).filter(|existing| is_foreign(release, existing))
        else {
            continue;
        };
        if release.blocked.is_some() || needs_chart && release.fingerprint.is_none() {
            continue;
        }
        let adopts = !existing.is_ours() && Policy::selects(&policy.adopt, name);
        let known = draft.snapshot.kept.comparisons.get(&release.key);
        if let Some(known) = known.filter(|known| is_valid(known, existing.revision, &release.inputs, adopts, now)) {
            all.insert(release.key.clone(), known.clone());
            continue;
        }
        // Read the newest revision. If osdpl made no revision of the release, the read also checks whether another tool
        // manages the release. If osdpl made an earlier revision, this check is unnecessary: osdpl still manages the
        // release, and someone has only upgraded it by hand.
        let read =
            Read::Source { release: release.key.clone(), revision: existing.revision, owner: !existing.is_ours() };
        let Some(Response::Source(source)) = draft.read(read).map(|received| &received.response) else { continue };
        let result = match source.as_deref() {
            Err(problem) => ComparisonResult::Unknown(problem.clone()),
            Ok(Recorded { owner: Some(owner), .. }) => ComparisonResult::Owned(owner.clone()),
            Ok(Recorded { owner: None, source }) => {
                let comparison = compare_release(release, source);
                let result = comparison.result.clone();
                compared.insert(name.clone(), comparison);
                result
            }
        };
        let until = valid_until(&result, adopts, now);
        let comparison =
            ManifestComparison { revision: existing.revision, inputs: release.inputs.clone(), result, until };
        all.insert(release.key.clone(), comparison);
    }
    // Request a pass for the time at which the first comparison expires. That pass repeats the comparison: its result
    // can have changed although no watch reports a change, for example if another tool has stopped managing the
    // release.
    draft.requeue(next_expiry(&all));
    draft.kept.comparisons = all;
    compared
}

/// Returns the time until which a comparison is valid; `None` if only a new revision or new inputs can change its
/// result. `adopts` says whether a person requested the adoption of the release.
fn valid_until(result: &ComparisonResult, adopts: bool, now: Timestamp) -> Option<Timestamp> {
    let may_change = adopts || matches!(result, ComparisonResult::Owned(_) | ComparisonResult::Unknown(_));
    now.checked_add(RETRY_INTERVAL).ok().filter(|_| may_change)
}

/// Returns whether a comparison from an earlier pass is still valid for the release's newest revision `revision` and
/// the desired inputs `inputs`. `adopts` says whether a person requested the adoption of the release.
fn is_valid(known: &ManifestComparison, revision: i64, inputs: &str, adopts: bool, now: Timestamp) -> bool {
    let is_fresh = known.until.map_or(!adopts, |until| now < until);
    is_fresh && known.revision == revision && known.inputs == inputs
}

/// Returns the earliest time at which a comparison expires; `None` if none expires.
fn next_expiry(all: &BTreeMap<ReleaseKey, ManifestComparison>) -> Option<Timestamp> {
    all.values().filter_map(|comparison| comparison.until).min()
}

/// Returns whether osdpl must compare a release with the desired state.
///
/// osdpl compares a managed and deployed release in two cases:
///
/// * Someone else made the newest revision of the release.
/// * osdpl adopted the newest revision, and the desired inputs differ from the inputs of this revision.
fn is_foreign(release: &DesiredRelease, existing: &ObservedRelease) -> bool {
    let is_ours = existing.attempt.as_ref().is_some_and(|attempt| attempt.revision == existing.revision);
    let adopted =
        existing.catalog.as_deref() == Some(ADOPTED) && existing.inputs.as_deref() != Some(release.inputs.as_str());
    release.managed && existing.status == Status::Deployed && existing.undecodable.is_none() && (!is_ours || adopted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_expire_where_no_watch_reports_changes() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now.checked_add(RETRY_INTERVAL).unwrap();
        let of = |result: ComparisonResult, adopts| {
            let until = valid_until(&result, adopts, now);
            ManifestComparison { revision: 3, inputs: "new".into(), result, until }
        };
        let owned = of(ComparisonResult::Owned("Flux".into()), false);
        assert!(
            is_valid(&owned, 3, "new", false, now),
            "a comparison stays valid until it expires, so that not every pass reads the release record"
        );
        assert!(!is_valid(&owned, 3, "new", false, later));
        assert!(!is_valid(&owned, 4, "new", false, now) && !is_valid(&owned, 3, "newer", false, now));
        let same = of(ComparisonResult::Same, false);
        assert!(is_valid(&same, 3, "new", false, later), "a comparison without an expiry stays valid");
        assert!(
            !is_valid(&same, 3, "new", true, now),
            "an adoption request makes an earlier comparison invalid: another tool may manage the release by now"
        );
        let adopted = of(ComparisonResult::Same, true);
        assert!(
            is_valid(&adopted, 3, "new", true, now),
            "a comparison for a requested adoption stays valid until it expires"
        );
        assert!(!is_valid(&adopted, 3, "new", true, later));
        let expiry = |all: &[&ManifestComparison]| {
            let key = |at: usize| ReleaseKey::new("openstack", at.to_string());
            next_expiry(&all.iter().enumerate().map(|(at, one)| (key(at), (*one).clone())).collect())
        };
        assert_eq!(expiry(&[&same, &owned]), Some(later));
        assert_eq!(expiry(&[&same]), None);
    }
}
