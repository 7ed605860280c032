//! Finds the objects that failed revisions left behind.
//!
//! In an upgrade, helm compares the new revision with the last *deployed* revision, and removes the objects that only
//! the deployed revision has. helm never removes objects that only a *failed* revision has. These objects are
//! leftovers. osdpl finds them by the records: objects of a failed revision that the newest revision does not have. If
//! the newest revision failed, too, osdpl also keeps the objects of the last deployed revision, because helm's next
//! upgrade itself removes those that are obsolete. osdpl considers only the failures since the last deployed revision
//! that precedes the newest one: when helm deployed that revision, osdpl cleaned up after all earlier failures.
//!
//! The cleanup runs after a successful operation. It also runs before every upgrade, because the upgrade may make helm
//! drop a record that the cleanup needs: osdpl lets helm keep only three records of a release, so an upgrade after two
//! failures drops the record of the first failure. For the same reason, a cleanup runs before every uninstall: helm
//! then deletes all records of the release. After the cleanup, osdpl labels the record of the failed revision
//! (`osdpl.dev/cleaned-up`). So a restarted operator neither repeats the cleanup nor reads the record again.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use osdpl_values::CollectSorted;

use super::{Object, Objects, RESOURCE_POLICY_ANNOTATION, ReleaseKey, Status, helm_owner};

/// The kinds of objects that osdpl never removes as leftovers, because a later revision could create the object again
/// but not its data.
const NEVER: [&str; 4] = ["PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition", "Namespace"];

/// The properties of one revision that a cleanup needs, from the metadata of the revision's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRevision {
    /// The number that helm gave the revision.
    pub revision: u32,
    /// helm's status of the revision.
    pub status: Status,
    /// Whether osdpl has removed the objects that the revision left behind.
    pub cleaned_up: bool,
}

/// A cleanup after failed revisions: osdpl removes each object that a revision in `revisions` contains and no revision
/// in `kept` contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cleanup {
    /// The revisions that may have left objects behind: failed revisions and, before an uninstall, also the last
    /// deployed revision, because helm's uninstall removes only the objects of the newest revision.
    pub revisions: BTreeSet<u32>,
    /// The revisions whose objects the cleanup keeps. The newest revision is always one of these revisions.
    pub kept: BTreeSet<u32>,
    /// The number of the newest revision when osdpl decided about the cleanup. If a newer revision exists now, this
    /// decision is outdated, and osdpl must decide again.
    pub newest: u32,
}

/// Returns the cleanup that is due now; `None` if osdpl has nothing to clean up, or if a helm operation runs or was
/// interrupted.
///
/// `history` lists the revisions of one release, in any order.
pub(crate) fn pending_cleanup(history: &[PastRevision]) -> Option<Cleanup> {
    let newest = newest(history)?;
    let base = base(history, newest);
    let below = base.map_or(0, |base| base.revision);
    let revisions: BTreeSet<u32> = history
        .iter()
        .filter(|past| past.status == Status::Failed && !past.cleaned_up)
        .map(|past| past.revision)
        .filter(|revision| (below + 1..newest.revision).contains(revision))
        .collect_set();
    // If the newest revision failed, keep the objects of the last deployed revision, because the next helm upgrade
    // itself removes the obsolete objects of that revision.
    let base = base.filter(|_| newest.status == Status::Failed);
    let kept = base.into_iter().chain([newest]).map(|past| past.revision).collect_set();
    (!revisions.is_empty()).then_some(Cleanup { revisions, kept, newest: newest.revision })
}

/// Returns the cleanup that is due before an uninstall; `None` if no revision left objects behind, or if a helm
/// operation runs or was interrupted.
///
/// helm's uninstall removes only the objects of the newest revision, and then deletes all records of the release. After
/// that, no record names the objects that only older revisions had.
pub(crate) fn cleanup_before_uninstall(history: &[PastRevision]) -> Option<Cleanup> {
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

/// Returns the newest revision if the helm operation that made it has ended; `None` if that operation runs or was
/// interrupted.
fn newest(history: &[PastRevision]) -> Option<&PastRevision> {
    let newest = history.iter().max_by_key(|past| past.revision)?;
    matches!(newest.status, Status::Deployed | Status::Failed).then_some(newest)
}

/// Returns the last revision before `newest` that helm deployed successfully.
///
/// Revisions that failed before the returned revision need no cleanup, because osdpl has already cleaned up after them.
fn base<'a>(history: &'a [PastRevision], newest: &PastRevision) -> Option<&'a PastRevision> {
    let deployed = |past: &&PastRevision| matches!(past.status, Status::Deployed | Status::Superseded);
    history.iter().filter(deployed).filter(|past| past.revision < newest.revision).max_by_key(|past| past.revision)
}

/// Returns the objects in the manifest of the revision `failed` that osdpl may remove, according to the manifests and
/// hooks of the release's revisions.
///
/// osdpl keeps an object if a revision in `kept` contains the object in its manifest or as a hook, or if the object's
/// kind or an annotation forbids the removal.
pub fn find_orphans<'a>(failed: &'a Objects, kept: &[Objects], release: &ReleaseKey) -> Vec<&'a Object> {
    let is_orphan = |object: &&Object| {
        let is_kept = kept.iter().any(|kept| has_object(kept, release, object, release, true));
        !object.keep && !NEVER.contains(&object.kind.as_str()) && !is_kept
    };
    failed.manifest.iter().filter(is_orphan).collect()
}

/// Whether the manifest or the hooks of a revision contain an object. The comparison ignores the version in
/// `apiVersion`: `policy/v1` and `policy/v1beta1` of the same object are equal.
///
/// `objects` are the objects and hooks of a revision of the release `theirs`. `object` is from a manifest of the
/// release `ours`.
///
/// `namespaced` says whether objects of this kind have a namespace. If so, an object without a namespace in the
/// manifest is in the namespace of its release. If not, the function ignores namespaces in the manifests.
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

/// Whether osdpl may remove an object from the cluster as a leftover of `release`: helm created the object for this
/// release, no annotation forbids the removal, and nobody is deleting the object.
pub fn is_leftover(metadata: &ObjectMeta, release: &ReleaseKey) -> bool {
    let policy = metadata.annotations.as_ref().and_then(|all| all.get(RESOURCE_POLICY_ANNOTATION));
    let kept = policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"));
    helm_owner(metadata).as_ref() == Some(release) && !kept && metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::{RELEASE_NAME_ANNOTATION, RELEASE_NAMESPACE_ANNOTATION};

    /// Parses a history such as `1 superseded, 2 failed*`; a `*` means that osdpl has removed the leftovers of the
    /// revision.
    fn history(text: &str) -> Vec<PastRevision> {
        let past = |part: &str| {
            let (revision, status) = part.trim().split_once(' ').unwrap();
            PastRevision {
                revision: revision.parse().unwrap(),
                status: status.trim_end_matches('*').parse().unwrap(),
                cleaned_up: status.ends_with('*'),
            }
        };
        text.split(", ").map(past).collect()
    }

    /// Formats a cleanup: `1+2 - 3` cleans up after the revisions 1 and 2, and keeps the objects of revision 3.
    fn format_cleanup(cleanup: Option<Cleanup>) -> String {
        let list = |set: BTreeSet<u32>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        cleanup.map_or_else(String::new, |cleanup| format!("{} - {}", list(cleanup.revisions), list(cleanup.kept)))
    }

    #[test]
    fn determines_the_cleanup_from_the_history() {
        for (text, now, before_uninstall) in [
            ("1 deployed", "", ""),
            ("1 superseded, 2 deployed", "", ""),
            // A revision failed, and the next revision succeeded: the cleanup removes the objects that only the failed
            // revision had.
            ("1 superseded, 2 failed, 3 deployed", "2 - 3", "2 - 3"),
            ("3 deployed, 2 failed, 1 superseded", "2 - 3", "2 - 3"),
            ("1 superseded, 2 failed*, 3 deployed", "", ""),
            // The newest revision failed. helm's next upgrade removes the objects that only the deployed revision has,
            // but helm's uninstall does not. So osdpl cleans up only before an uninstall.
            ("1 deployed, 2 failed", "", "1 - 2"),
            // Two revisions failed in a row. helm keeps only three records, so the next upgrade drops the record of the
            // first failure. Therefore osdpl cleans up after the first failure now.
            ("1 deployed, 2 failed, 3 failed", "2 - 1+3", "1+2 - 3"),
            ("1 deployed, 2 failed*, 3 failed", "", "1 - 3"),
            ("4 deployed, 8 failed, 9 failed", "8 - 4+9", "4+8 - 9"),
            // The first install failed. The second install failed in the first history, and succeeded in the next two
            // histories.
            ("1 failed, 2 failed", "1 - 2", "1 - 2"),
            ("1 failed, 2 superseded, 3 deployed", "", ""),
            ("1 failed, 2 deployed", "1 - 2", "1 - 2"),
            // When helm deployed revision 2, osdpl cleaned up after revision 1.
            ("1 failed, 2 superseded, 3 failed, 4 deployed", "3 - 4", "3 - 4"),
            // A helm operation runs or was interrupted, so there is no cleanup.
            ("1 superseded, 2 failed, 3 pending-upgrade", "", ""),
            ("2 failed, 3 uninstalling", "", ""),
        ] {
            assert_eq!(format_cleanup(pending_cleanup(&history(text))), now, "{text}");
            assert_eq!(
                format_cleanup(cleanup_before_uninstall(&history(text))),
                before_uninstall,
                "{text}, before an uninstall"
            );
        }
        assert_eq!((pending_cleanup(&[]), cleanup_before_uninstall(&[])), (None, None));
    }

    fn object(kind: &str, namespace: Option<&str>, name: &str) -> Object {
        let api_version = match kind {
            "Deployment" => "apps/v1",
            "ClusterRole" => "rbac.authorization.k8s.io/v1",
            "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
            _ => "v1",
        };
        let (api_version, kind, name) = (api_version.into(), kind.into(), name.into());
        Object {
            api_version,
            kind,
            namespace: namespace.map(Into::into),
            name,
            keep: false,
            replicas: None,
            expires: false,
            fields: Vec::new(),
        }
    }

    fn manifest(objects: &[Object]) -> Objects {
        Objects { manifest: objects.to_vec(), hooks: Vec::new(), server_side: true }
    }

    fn keystone() -> ReleaseKey {
        ReleaseKey::new("cloud", "keystone")
    }

    fn orphan_names(left: &[Object], kept: &[Objects]) -> Vec<String> {
        find_orphans(&manifest(left), kept, &keystone()).into_iter().map(|object| object.name.clone()).collect()
    }

    #[test]
    fn objects_without_a_kept_revision_are_orphans() {
        let failed = [object("ConfigMap", None, "bin"), object("Deployment", Some("cloud"), "extra")];
        assert_eq!(orphan_names(&failed, &[]), ["bin", "extra"]);
        assert_eq!(orphan_names(&failed, &[manifest(&[object("ConfigMap", Some("cloud"), "bin")])]), ["extra"]);
        assert_eq!(orphan_names(&failed, &[manifest(&[object("ConfigMap", Some("edge"), "bin")])]), ["bin", "extra"]);
        assert_eq!(
            orphan_names(&failed, &[manifest(&[]), manifest(&failed)]),
            [""; 0],
            "an object is no leftover if any of the kept revisions contains it"
        );
        let hooks = Objects { manifest: Vec::new(), hooks: failed.to_vec(), server_side: true };
        assert_eq!(
            orphan_names(&failed, &[hooks]),
            [""; 0],
            "an object is no leftover if it is a hook of the kept revision"
        );
        let mut other_version = object("Deployment", None, "extra");
        other_version.api_version = "apps/v1beta1".into();
        assert_eq!(
            orphan_names(&failed, &[manifest(&[other_version])]),
            ["bin"],
            "a Deployment is no leftover if the kept revision contains it in another API version"
        );
    }

    #[test]
    fn never_removes_claims_crds_namespaces_and_kept_objects() {
        let kept = Object { keep: true, ..object("Secret", None, "keys") };
        let failed = [
            object("PersistentVolumeClaim", None, "data"),
            object("PersistentVolume", None, "disk"),
            object("CustomResourceDefinition", None, "things.example.com"),
            object("Namespace", None, "edge"),
            kept,
        ];
        assert_eq!(orphan_names(&failed, &[]), [""; 0]);
    }

    #[test]
    fn ignores_namespaces_of_cluster_scoped_objects() {
        let theirs = manifest(&[object("ClusterRole", Some("edge"), "nodes")]);
        let named = |namespaced| {
            has_object(
                &theirs,
                &ReleaseKey::new("edge", "nova"),
                &object("ClusterRole", None, "nodes"),
                &keystone(),
                namespaced,
            )
        };
        assert!(named(false) && !named(true));
    }

    #[test]
    fn only_objects_of_this_release_are_leftovers() {
        let metadata = |annotations: &[(&str, &str)]| ObjectMeta {
            annotations: Some(annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
            ..ObjectMeta::default()
        };
        let ours = [(RELEASE_NAME_ANNOTATION, "keystone"), (RELEASE_NAMESPACE_ANNOTATION, "cloud")];
        assert!(is_leftover(&metadata(&ours), &keystone()));
        assert!(
            !is_leftover(&ObjectMeta::default(), &keystone()),
            "an object without helm's annotations is no leftover"
        );
        assert!(!is_leftover(
            &metadata(&[(RELEASE_NAME_ANNOTATION, "glance"), (RELEASE_NAMESPACE_ANNOTATION, "cloud")]),
            &keystone()
        ));
        assert!(!is_leftover(
            &metadata(&[(RELEASE_NAME_ANNOTATION, "keystone"), (RELEASE_NAMESPACE_ANNOTATION, "other")]),
            &keystone()
        ));
        assert!(!is_leftover(&metadata(&[ours[0], ours[1], (RESOURCE_POLICY_ANNOTATION, " Keep")]), &keystone()));
        let mut deleting = metadata(&ours);
        deleting.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time("2026-11-21T10:00:00Z".parse().unwrap()));
        assert!(!is_leftover(&deleting, &keystone()));
    }
}
