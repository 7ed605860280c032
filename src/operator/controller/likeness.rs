//! How revisions that others made stand to what is wanted: each is compared once for its inputs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::cluster::{Cluster, Error};
use osdpl_core::adopt::{Comparison, compare_release};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{ComparisonResult, ManifestComparison, Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::Policy;
use osdpl_core::release::{ADOPTED, RevisionSource};

/// How long it counts that someone else drives a release, or that it can't be told: asking again is reading a whole record.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The verdicts, by release.
pub type Likenesses = BTreeMap<ReleaseKey, ManifestComparison>;

/// Compares every wanted release whose newest revision someone else made; what `known` tells of the same revision and inputs is not asked again, but
/// of releases that are `asked` for: who drives them may be another by now. `told` is given each comparison that is made. Without charts (`strict`)
/// nothing is compared.
///
/// # Errors
/// When the API server refuses.
pub async fn likenesses(
    cluster: &Cluster,
    (desired, observed): (&Desired, &Observed),
    (known, asked): (&Likenesses, &BTreeSet<String>),
    strict: bool,
    mut told: impl FnMut(&str, Comparison),
) -> Result<Likenesses, Error> {
    let mut all = Likenesses::new();
    for (name, release) in &desired.releases {
        let Some(seen) = observed.releases.get(&release.key).filter(|seen| is_in_question(release, seen)) else {
            continue;
        };
        // A wish that lacks something is none to compare with.
        if release.blocked.is_some() || strict && release.imprint.is_none() {
            continue;
        }
        let is_taken = !seen.is_ours() && Policy::selects(asked, name);
        let counts =
            |known: &&ManifestComparison| counts(known, (seen.revision, &release.inputs), is_taken, super::now());
        if let Some(known) = known.get(&release.key).filter(counts) {
            all.insert(release.key.clone(), known.clone());
            continue;
        }
        let verdict = verdict(cluster, release, seen, |compared| told(name, compared)).await?;
        let until = until(&verdict, is_taken, super::now());
        let likeness = ManifestComparison { revision: seen.revision, inputs: release.inputs.clone(), verdict, until };
        all.insert(release.key.clone(), likeness);
    }
    Ok(all)
}

/// Until when a comparison counts; `None` where nothing but the release or the wish makes it another. What someone says is to be taken over is
/// looked at again as long as it is not: the spec may be refused meanwhile, and the release get another owner.
fn until(verdict: &ComparisonResult, is_taken: bool, now: Timestamp) -> Option<Timestamp> {
    let passes = is_taken || matches!(verdict, ComparisonResult::Owned(_) | ComparisonResult::Unknown(_));
    now.checked_add(AGAIN).ok().filter(|_| passes)
}

/// Whether a comparison needs not be made anew. What someone says is to be taken over is looked at once more, but what is looked at again anyway not
/// in each pass.
fn counts(known: &ManifestComparison, (revision, inputs): (i64, &str), is_taken: bool, now: Timestamp) -> bool {
    let lasts = known.until.map_or(!is_taken, |until| now < until);
    lasts && known.revision == revision && known.inputs == inputs
}

/// When to look again: no watch tells that another controller has let go.
pub fn again(all: &Likenesses) -> Option<Timestamp> {
    all.values().filter_map(|likeness| likeness.until).min()
}

/// Whether someone else made the newest revision, or did before we took it over.
fn is_in_question(release: &DesiredRelease, seen: &ObservedRelease) -> bool {
    let ours = seen.attempt.as_ref().is_some_and(|attempt| attempt.revision == seen.revision);
    let adopted = seen.catalog.as_deref() == Some(ADOPTED) && seen.inputs.as_deref() != Some(release.inputs.as_str());
    release.managed && seen.status == "deployed" && seen.undecodable.is_none() && (!ours || adopted)
}

async fn verdict(
    cluster: &Cluster,
    release: &DesiredRelease,
    seen: &ObservedRelease,
    told: impl FnOnce(Comparison),
) -> Result<ComparisonResult, Error> {
    let (source, objects): (RevisionSource, _) = match cluster.recorded_source(&release.key, seen.revision).await? {
        Ok(found) => found,
        Err(problem) => return Ok(ComparisonResult::Unknown(problem)),
    };
    // Whose it is already is not asked: another upgrade by hand makes it nobody else's.
    if !seen.is_ours()
        && let Some(owner) = cluster.other_owner(&release.key, &objects).await?
    {
        return Ok(ComparisonResult::Owned(owner));
    }
    let compared = compare_release(release, &source);
    let verdict = compared.verdict.clone();
    told(compared);
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_watch_tells_counts_for_a_while_and_wakes_when_that_is_over() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now.checked_add(AGAIN).unwrap();
        let of = |verdict: ComparisonResult, is_taken| {
            let until = until(&verdict, is_taken, now);
            ManifestComparison { revision: 3, inputs: "new".into(), verdict, until }
        };
        let owned = of(ComparisonResult::Owned("Flux".into()), false);
        assert!(counts(&owned, (3, "new"), false, now), "not asked in each pass");
        assert!(!counts(&owned, (3, "new"), false, later));
        assert!(!counts(&owned, (4, "new"), false, now) && !counts(&owned, (3, "newer"), false, now));
        let same = of(ComparisonResult::Same, false);
        assert!(counts(&same, (3, "new"), false, later), "that stays so");
        assert!(!counts(&same, (3, "new"), true, now), "who drives it may be another by now");
        let taken = of(ComparisonResult::Same, true);
        assert!(counts(&taken, (3, "new"), true, now), "a refused spec reads no record in each pass");
        assert!(!counts(&taken, (3, "new"), true, later));
        let of_all = |all: &[&ManifestComparison]| {
            let key = |at: usize| ReleaseKey::new("openstack", at.to_string());
            again(&all.iter().enumerate().map(|(at, one)| (key(at), (*one).clone())).collect())
        };
        assert_eq!(of_all(&[&same, &owned]), Some(later));
        assert_eq!(of_all(&[&same]), None);
    }
}
