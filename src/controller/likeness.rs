//! How revisions that others made stand to what is wanted: each is compared once for its inputs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::adopt::{Compared, compare};
use crate::cluster::{Cluster, Error};
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{Key, Likeness, Observed, ReleaseSeen, Verdict};
use crate::plan::Policy;
use crate::release::{ADOPTED, Source};

/// How long a release that someone else drives is left alone.
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
        let known = known.get(&release.key).filter(|known| {
            let is_taken = !seen.is_ours() && Policy::names(asked, name);
            let lasts = !matches!(known.verdict, Verdict::Owned(_) | Verdict::Unknown(_)) && !is_taken;
            lasts && known.revision == seen.revision && known.inputs == release.inputs
        });
        if let Some(known) = known {
            all.insert(release.key.clone(), known.clone());
            continue;
        }
        let verdict = verdict(cluster, release, seen, |compared| told(name, compared)).await?;
        let likeness = Likeness { revision: seen.revision, inputs: release.inputs.clone(), verdict };
        all.insert(release.key.clone(), likeness);
    }
    Ok(all)
}

/// When to look again: no watch tells that another controller has let go.
pub fn again(all: &Likenesses) -> Option<Timestamp> {
    let driven = all.values().any(|likeness| matches!(likeness.verdict, Verdict::Owned(_)));
    driven.then(|| super::now().checked_add(AGAIN).ok()).flatten()
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
