//! What failed revisions leave behind, and how it is known that nobody wants it (`helm.md` §0.6, §3).
//!
//! An upgrade removes what the last *deployed* revision had and the new one has not. An object that only a failed revision named is
//! removed by nobody: it is in no later comparison. So the records themselves say what is to be done: of every failed revision that
//! none deployed after it has answered for, the objects that neither the newest revision nor the deployed one below it names.
//!
//! helm keeps three records, so a second failure pushes the first one out when the third attempt begins. That is why this is asked twice:
//! when an operation has succeeded, and before every upgrade begins; what a failed revision left is known until then, and is not lost when
//! the operator is killed in between. That it was done is written on the failed record itself: no memory of ours is needed, and a restart
//! reads no record for it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Key, Object, Objects, Status, owner};

/// helm's annotation against removal; its value is compared trimmed and in lower case.
pub const KEEP: &str = "helm.sh/resource-policy";

/// Kinds that are never swept: with them goes what no revision brings back.
const NEVER: [&str; 4] = ["PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition", "Namespace"];

/// One revision of a release's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The revision.
    pub revision: u32,
    /// Its state.
    pub status: Status,
    /// Whether what it left behind was removed.
    pub swept: bool,
}

/// What to compare: the objects of `of` that no revision in `kept` names are nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Revisions whose objects may have been left behind.
    pub of: BTreeSet<u32>,
    /// Revisions that say what belongs to the release; the newest is always one of them.
    pub kept: BTreeSet<u32>,
    /// The newest revision: nothing holds any more once there is another.
    pub newest: u32,
}

/// What is to be swept now, by a history in any order; `None` where that is nothing, or where an operation is under way.
pub fn unswept(history: &[Past]) -> Option<Sweep> {
    let newest = newest(history)?;
    let base = base(history, newest);
    let below = base.map_or(0, |base| base.revision);
    let of: BTreeSet<u32> = history
        .iter()
        .filter(|past| past.status == Status::Failed && !past.swept)
        .map(|past| past.revision)
        .filter(|revision| (below + 1..newest.revision).contains(revision))
        .collect();
    // The next operation is compared with the deployed revision: what that has is helm's to remove.
    let base = base.filter(|_| newest.status == Status::Failed);
    let kept = base.into_iter().chain([newest]).map(|past| past.revision).collect();
    (!of.is_empty()).then_some(Sweep { of, kept, newest: newest.revision })
}

/// What is to be swept before an uninstall, which removes only what the newest revision names, and then all records.
pub fn leaving(history: &[Past]) -> Option<Sweep> {
    let newest = newest(history)?;
    let mut sweep =
        unswept(history).unwrap_or(Sweep { of: BTreeSet::new(), kept: BTreeSet::new(), newest: newest.revision });
    sweep.kept = BTreeSet::from([newest.revision]);
    let base = base(history, newest).filter(|base| newest.status == Status::Failed && !base.swept);
    sweep.of.extend(base.map(|base| base.revision));
    (!sweep.of.is_empty()).then_some(sweep)
}

/// The newest revision, where its operation has ended.
fn newest(history: &[Past]) -> Option<&Past> {
    let newest = history.iter().max_by_key(|past| past.revision)?;
    matches!(newest.status, Status::Deployed | Status::Failed).then_some(newest)
}

/// The last revision before the newest that was deployed: its own success has answered for what failed before it.
fn base<'a>(history: &'a [Past], newest: &Past) -> Option<&'a Past> {
    let deployed = |past: &&Past| matches!(past.status, Status::Deployed | Status::Superseded);
    history.iter().filter(deployed).filter(|past| past.revision < newest.revision).max_by_key(|past| past.revision)
}

/// The objects of `left` that may be removed as far as manifests of the release itself tell: no revision in `kept` names them, and nothing
/// forbids it.
pub fn orphans<'a>(left: &'a Objects, kept: &[Objects], release: &Key) -> Vec<&'a Object> {
    let free = |object: &&Object| {
        let wanted = kept.iter().any(|kept| names(kept, release, object, release, true));
        !object.keep && !NEVER.contains(&object.kind.as_str()) && !wanted
    };
    left.manifest.iter().filter(free).collect()
}

/// Whether a revision of the release `theirs` names, as a hook or in its manifest, an object that a manifest of `ours` names. Of a kind that
/// has namespaces (`namespaced`), the object without one is in its release's; of others a stray namespace in a manifest means nothing.
pub fn names(objects: &Objects, theirs: &Key, object: &Object, ours: &Key, namespaced: bool) -> bool {
    fn place<'a>(object: &'a Object, release: &'a Key) -> &'a str {
        object.namespace.as_deref().unwrap_or(&release.namespace)
    }
    objects.manifest.iter().chain(&objects.hooks).any(|other| {
        other.kind == object.kind
            && other.name == object.name
            && group(&other.api_version) == group(&object.api_version)
            && (!namespaced || place(other, theirs) == place(object, ours))
    })
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether an object as it stands in the cluster was made by helm for this release, and may go.
pub fn is_leftover(metadata: &ObjectMeta, release: &Key) -> bool {
    let policy = metadata.annotations.as_ref().and_then(|all| all.get(KEEP));
    let kept = policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"));
    owner(metadata).as_ref() == Some(release) && !kept && metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests;
