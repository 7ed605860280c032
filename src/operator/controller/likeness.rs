//! How revisions that others made stand to what is wanted: each is compared once for its inputs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::cluster::{Cluster, Error};
use osdpl_core::adopt::{Compared, compare};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{Key, Likeness, Observed, ReleaseSeen, Verdict};
use osdpl_core::plan::Policy;
use osdpl_core::release::{ADOPTED, Source};

/// How long it counts that someone else drives a release, or that it can't be told: asking again is reading a whole record.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The verdicts, by release.
pub type Likenesses = BTreeMap<Key, Likeness>;

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
    mut told: impl FnMut(&str, Compared),
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
        let is_taken = !seen.is_ours() && Policy::names(asked, name);
        let counts = |known: &&Likeness| counts(known, (seen.revision, &release.inputs), is_taken, super::now());
        if let Some(known) = known.get(&release.key).filter(counts) {
            all.insert(release.key.clone(), known.clone());
            continue;
        }
        let verdict = verdict(cluster, release, seen, |compared| told(name, compared)).await?;
        let until = until(&verdict, is_taken, super::now());
        let likeness = Likeness { revision: seen.revision, inputs: release.inputs.clone(), verdict, until };
        all.insert(release.key.clone(), likeness);
    }
    Ok(all)
}

/// Until when a comparison counts; `None` where nothing but the release or the wish makes it another. What someone says is to be taken over is
/// looked at again as long as it is not: the spec may be refused meanwhile, and the release get another owner.
fn until(verdict: &Verdict, is_taken: bool, now: Timestamp) -> Option<Timestamp> {
    let passes = is_taken || matches!(verdict, Verdict::Owned(_) | Verdict::Unknown(_));
    now.checked_add(AGAIN).ok().filter(|_| passes)
}

/// Whether a comparison needs not be made anew. What someone says is to be taken over is looked at once more, but what is looked at again anyway not
/// in each pass.
fn counts(known: &Likeness, (revision, inputs): (i64, &str), is_taken: bool, now: Timestamp) -> bool {
    let lasts = known.until.map_or(!is_taken, |until| now < until);
    lasts && known.revision == revision && known.inputs == inputs
}

/// When to look again: no watch tells that another controller has let go.
pub fn again(all: &Likenesses) -> Option<Timestamp> {
    all.values().filter_map(|likeness| likeness.until).min()
}

/// Whether someone else made the newest revision, or did before we took it over.
fn is_in_question(release: &DesiredRelease, seen: &ReleaseSeen) -> bool {
    let ours = seen.attempt.as_ref().is_some_and(|attempt| attempt.revision == seen.revision);
    let adopted = seen.catalog.as_deref() == Some(ADOPTED) && seen.inputs.as_deref() != Some(release.inputs.as_str());
    release.managed && seen.status == "deployed" && seen.undecodable.is_none() && (!ours || adopted)
}

async fn verdict(
    cluster: &Cluster,
    release: &DesiredRelease,
    seen: &ReleaseSeen,
    told: impl FnOnce(Compared),
) -> Result<Verdict, Error> {
    let (source, objects): (Source, _) = match cluster.recorded_source(&release.key, seen.revision).await? {
        Ok(found) => found,
        Err(problem) => return Ok(Verdict::Unknown(problem)),
    };
    // Whose it is already is not asked: another upgrade by hand makes it nobody else's.
    if !seen.is_ours()
        && let Some(owner) = cluster.other_owner(&release.key, &objects).await?
    {
        return Ok(Verdict::Owned(owner));
    }
    let compared = compare(release, &source);
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
        let of = |verdict: Verdict, is_taken| {
            let until = until(&verdict, is_taken, now);
            Likeness { revision: 3, inputs: "new".into(), verdict, until }
        };
        let owned = of(Verdict::Owned("Flux".into()), false);
        assert!(counts(&owned, (3, "new"), false, now), "not asked in each pass");
        assert!(!counts(&owned, (3, "new"), false, later));
        assert!(!counts(&owned, (4, "new"), false, now) && !counts(&owned, (3, "newer"), false, now));
        let same = of(Verdict::Same, false);
        assert!(counts(&same, (3, "new"), false, later), "that stays so");
        assert!(!counts(&same, (3, "new"), true, now), "who drives it may be another by now");
        let taken = of(Verdict::Same, true);
        assert!(counts(&taken, (3, "new"), true, now), "a refused spec reads no record in each pass");
        assert!(!counts(&taken, (3, "new"), true, later));
        let of_all = |all: &[&Likeness]| {
            let key = |at: usize| Key::new("openstack", at.to_string());
            again(&all.iter().enumerate().map(|(at, one)| (key(at), (*one).clone())).collect())
        };
        assert_eq!(of_all(&[&same, &owned]), Some(later));
        assert_eq!(of_all(&[&same]), None);
    }
}
