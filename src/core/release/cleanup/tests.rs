use super::*;
use crate::release::{RELEASE_NAME_ANNOTATION, RELEASE_NAMESPACE_ANNOTATION};

/// Parses a history: `1 superseded, 2 failed*`; a `*` means that the leftovers were removed.
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

/// Formats a result as `of - kept`.
fn format_cleanup(cleanup: Option<Cleanup>) -> String {
    let list = |set: BTreeSet<u32>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    cleanup.map_or_else(String::new, |cleanup| format!("{} - {}", list(cleanup.revisions), list(cleanup.kept)))
}

#[test]
fn determines_the_cleanup_from_the_history() {
    for (text, now, before_uninstall) in [
        ("1 deployed", "", ""),
        ("1 superseded, 2 deployed", "", ""),
        // One failure, then a success.
        ("1 superseded, 2 failed, 3 deployed", "2 - 3", "2 - 3"),
        ("3 deployed, 2 failed, 1 superseded", "2 - 3", "2 - 3"),
        ("1 superseded, 2 failed*, 3 deployed", "", ""),
        // The newest failed: helm compares the next revision with the deployed one; an uninstall compares with none.
        ("1 deployed, 2 failed", "", "1 - 2"),
        // A second failure: the next attempt drops the first one from the history.
        ("1 deployed, 2 failed, 3 failed", "2 - 1+3", "1+2 - 3"),
        ("1 deployed, 2 failed*, 3 failed", "", "1 - 3"),
        ("4 deployed, 8 failed, 9 failed", "8 - 4+9", "4+8 - 9"),
        // An install that fails twice has no deployed revision; a success marks the last failure as superseded.
        ("1 failed, 2 failed", "1 - 2", "1 - 2"),
        ("1 failed, 2 superseded, 3 deployed", "", ""),
        ("1 failed, 2 deployed", "1 - 2", "1 - 2"),
        // Failures before an earlier success were already cleaned up.
        ("1 failed, 2 superseded, 3 failed, 4 deployed", "3 - 4", "3 - 4"),
        // A running or interrupted operation: the result is not certain.
        ("1 superseded, 2 failed, 3 pending-upgrade", "", ""),
        ("2 failed, 3 uninstalling", "", ""),
    ] {
        assert_eq!(format_cleanup(pending_cleanup(&history(text))), now, "{text}");
        assert_eq!(format_cleanup(cleanup_before_uninstall(&history(text))), before_uninstall, "{text}, leaving");
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
    assert_eq!(orphan_names(&failed, &[manifest(&[]), manifest(&failed)]), [""; 0], "any kept revision counts");
    let hooks = Objects { manifest: Vec::new(), hooks: failed.to_vec(), server_side: true };
    assert_eq!(orphan_names(&failed, &[hooks]), [""; 0], "the objects became hooks");
    let mut other_version = object("Deployment", None, "extra");
    other_version.api_version = "apps/v1beta1".into();
    assert_eq!(orphan_names(&failed, &[manifest(&[other_version])]), ["bin"], "another API version of the same object");
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
    assert!(!is_leftover(&ObjectMeta::default(), &keystone()), "created by hand");
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
