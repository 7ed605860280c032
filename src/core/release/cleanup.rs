//! Finds the leftovers of failed revisions.
//!
//! A helm upgrade removes objects of the last *deployed* revision that the new revision does not have. Objects that
//! only a failed revision had are never removed, because no later upgrade compares with it. The records have all
//! information to clean up: for every failed revision without a later deployed one, the leftovers are the objects that
//! neither the newest revision nor the deployed one below it has.
//!
//! helm keeps three records, so a third attempt drops the record of the first failure. Therefore the cleanup runs both
//! after a successful operation and before every upgrade, even if the operator is killed in between. A label on the
//! failed record marks it as done, so no state is needed in memory, and a restart does not read the records again.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Object, Objects, ReleaseKey, Status, helm_owner};

/// helm's annotation that forbids removal; its value is trimmed and compared in lower case.
pub const RESOURCE_POLICY_ANNOTATION: &str = "helm.sh/resource-policy";

/// Kinds that are never cleaned up, because no revision could restore their data.
const NEVER: [&str; 4] = ["PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition", "Namespace"];

/// One revision in a release's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRevision {
    /// The revision.
    pub revision: u32,
    /// The status.
    pub status: Status,
    /// Whether its leftovers have been removed.
    pub cleaned_up: bool,
}

/// The revisions to compare: objects of `revisions` that no revision in `kept` has are leftovers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// Revisions that may have left objects behind.
    pub revisions: BTreeSet<u32>,
    /// Revisions whose objects belong to the release; the newest is always included.
    pub kept: BTreeSet<u32>,
    /// The newest revision; the result is invalid once there is a newer one.
    pub newest: u32,
}

/// Returns the cleanup that is due now, from a history in any order; `None` if there is none, or if an operation is
/// running.
pub fn pending_cleanup(history: &[PastRevision]) -> Option<Cleanup> {
    let newest = newest(history)?;
    let base = base(history, newest);
    let below = base.map_or(0, |base| base.revision);
    let revisions: BTreeSet<u32> = history
        .iter()
        .filter(|past| past.status == Status::Failed && !past.cleaned_up)
        .map(|past| past.revision)
        .filter(|revision| (below + 1..newest.revision).contains(revision))
        .collect();
    // The next upgrade compares with the deployed revision, so helm removes its objects itself.
    let base = base.filter(|_| newest.status == Status::Failed);
    let kept = base.into_iter().chain([newest]).map(|past| past.revision).collect();
    (!revisions.is_empty()).then_some(Cleanup { revisions, kept, newest: newest.revision })
}

/// Returns the cleanup that is due before an uninstall, which removes only the objects of the newest revision, and then
/// all records.
pub fn cleanup_before_uninstall(history: &[PastRevision]) -> Option<Cleanup> {
    let newest = newest(history)?;
    let mut cleanup = pending_cleanup(history).unwrap_or(Cleanup {
        revisions: BTreeSet::new(),
        kept: BTreeSet::new(),
        newest: newest.revision,
    });
    cleanup.kept = BTreeSet::from([newest.revision]);
    let base = base(history, newest).filter(|base| newest.status == Status::Failed && !base.cleaned_up);
    cleanup.revisions.extend(base.map(|base| base.revision));
    (!cleanup.revisions.is_empty()).then_some(cleanup)
}

/// Returns the newest revision, if its operation has ended.
fn newest(history: &[PastRevision]) -> Option<&PastRevision> {
    let newest = history.iter().max_by_key(|past| past.revision)?;
    matches!(newest.status, Status::Deployed | Status::Failed).then_some(newest)
}

/// Returns the last deployed revision before the newest. Earlier failures were already cleaned up after its success.
fn base<'a>(history: &'a [PastRevision], newest: &PastRevision) -> Option<&'a PastRevision> {
    let deployed = |past: &&PastRevision| matches!(past.status, Status::Deployed | Status::Superseded);
    history.iter().filter(deployed).filter(|past| past.revision < newest.revision).max_by_key(|past| past.revision)
}

/// Returns the objects of a failed revision that may be removed according to the release's own manifests: no revision in
/// `kept` has them, and nothing forbids it.
pub fn find_orphans<'a>(failed: &'a Objects, kept: &[Objects], release: &ReleaseKey) -> Vec<&'a Object> {
    let is_orphan = |object: &&Object| {
        let is_kept = kept.iter().any(|kept| has_object(kept, release, object, release, true));
        !object.keep && !NEVER.contains(&object.kind.as_str()) && !is_kept
    };
    failed.manifest.iter().filter(is_orphan).collect()
}

/// Whether a revision of the release `theirs` has, as a hook or in its manifest, an object of a manifest of `ours`.
///
/// If the kind is `namespaced`, an object without a namespace is in the namespace of its release. For other kinds the
/// namespace in a manifest is ignored.
pub fn has_object(
    objects: &Objects,
    theirs: &ReleaseKey,
    object: &Object,
    ours: &ReleaseKey,
    namespaced: bool,
) -> bool {
    fn namespace<'a>(object: &'a Object, release: &'a ReleaseKey) -> &'a str {
        object.namespace.as_deref().unwrap_or(&release.namespace)
    }
    objects.manifest.iter().chain(&objects.hooks).any(|other| {
        other.kind == object.kind
            && other.name == object.name
            && group(&other.api_version) == group(&object.api_version)
            && (!namespaced || namespace(other, theirs) == namespace(object, ours))
    })
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether an object in the cluster was created by helm for this release and may be deleted.
pub fn is_leftover(metadata: &ObjectMeta, release: &ReleaseKey) -> bool {
    let policy = metadata.annotations.as_ref().and_then(|all| all.get(RESOURCE_POLICY_ANNOTATION));
    let kept = policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"));
    helm_owner(metadata).as_ref() == Some(release) && !kept && metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests;
