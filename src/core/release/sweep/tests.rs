use super::*;
use crate::release::{NAME, NAMESPACE};

/// A history in short: `1 superseded`, a `*` where it was swept.
fn history(text: &str) -> Vec<Past> {
    let past = |part: &str| {
        let (revision, status) = part.trim().split_once(' ').unwrap();
        Past {
            revision: revision.parse().unwrap(),
            status: status.trim_end_matches('*').parse().unwrap(),
            swept: status.ends_with('*'),
        }
    };
    text.split(", ").map(past).collect()
}

/// `of - kept`.
fn shown(sweep: Option<Sweep>) -> String {
    let list = |set: BTreeSet<u32>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    sweep.map_or_else(String::new, |sweep| format!("{} - {}", list(sweep.of), list(sweep.kept)))
}

#[test]
fn what_is_swept_follows_from_the_history_alone() {
    for (text, now, before_uninstall) in [
        ("1 deployed", "", ""),
        ("1 superseded, 2 deployed", "", ""),
        // One failed, the next succeeded.
        ("1 superseded, 2 failed, 3 deployed", "2 - 3", "2 - 3"),
        ("3 deployed, 2 failed, 1 superseded", "2 - 3", "2 - 3"),
        ("1 superseded, 2 failed*, 3 deployed", "", ""),
        // The newest failed: helm compares the next one with the deployed revision, an uninstall with none.
        ("1 deployed, 2 failed", "", "1 - 2"),
        // A second failure: the next attempt pushes the first one out of the history.
        ("1 deployed, 2 failed, 3 failed", "2 - 1+3", "1+2 - 3"),
        ("1 deployed, 2 failed*, 3 failed", "", "1 - 3"),
        ("4 deployed, 8 failed, 9 failed", "8 - 4+9", "4+8 - 9"),
        // An install that fails twice has no deployed revision; a success marks the last failure as superseded.
        ("1 failed, 2 failed", "1 - 2", "1 - 2"),
        ("1 failed, 2 superseded, 3 deployed", "", ""),
        ("1 failed, 2 deployed", "1 - 2", "1 - 2"),
        // What failed before a success of its own is answered for.
        ("1 failed, 2 superseded, 3 failed, 4 deployed", "3 - 4", "3 - 4"),
        // An operation that is under way, or was interrupted: nothing is certain.
        ("1 superseded, 2 failed, 3 pending-upgrade", "", ""),
        ("2 failed, 3 uninstalling", "", ""),
    ] {
        assert_eq!(shown(unswept(&history(text))), now, "{text}");
        assert_eq!(shown(leaving(&history(text))), before_uninstall, "{text}, leaving");
    }
    assert_eq!((unswept(&[]), leaving(&[])), (None, None));
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

fn keystone() -> Key {
    Key::new("cloud", "keystone")
}

fn left(left: &[Object], kept: &[Objects]) -> Vec<String> {
    orphans(&manifest(left), kept, &keystone()).into_iter().map(|object| object.name.clone()).collect()
}

#[test]
fn an_object_that_no_kept_revision_names_is_an_orphan() {
    let failed = [object("ConfigMap", None, "bin"), object("Deployment", Some("cloud"), "extra")];
    assert_eq!(left(&failed, &[]), ["bin", "extra"]);
    assert_eq!(left(&failed, &[manifest(&[object("ConfigMap", Some("cloud"), "bin")])]), ["extra"]);
    assert_eq!(left(&failed, &[manifest(&[object("ConfigMap", Some("edge"), "bin")])]), ["bin", "extra"]);
    assert_eq!(left(&failed, &[manifest(&[]), manifest(&failed)]), [""; 0], "any of them");
    let hooks = Objects { manifest: Vec::new(), hooks: failed.to_vec(), server_side: true };
    assert_eq!(left(&failed, &[hooks]), [""; 0], "it became a hook");
    let mut other_version = object("Deployment", None, "extra");
    other_version.api_version = "apps/v1beta1".into();
    assert_eq!(left(&failed, &[manifest(&[other_version])]), ["bin"], "another version of the same");
}

#[test]
fn claims_definitions_namespaces_and_what_must_be_kept_are_never_swept() {
    let kept = Object { keep: true, ..object("Secret", None, "keys") };
    let failed = [
        object("PersistentVolumeClaim", None, "data"),
        object("PersistentVolume", None, "disk"),
        object("CustomResourceDefinition", None, "things.example.com"),
        object("Namespace", None, "edge"),
        kept,
    ];
    assert_eq!(left(&failed, &[]), [""; 0]);
}

#[test]
fn what_has_no_namespace_is_the_same_wherever_a_manifest_puts_it() {
    let theirs = manifest(&[object("ClusterRole", Some("edge"), "nodes")]);
    let named = |namespaced| {
        names(&theirs, &Key::new("edge", "nova"), &object("ClusterRole", None, "nodes"), &keystone(), namespaced)
    };
    assert!(named(false) && !named(true));
}

#[test]
fn only_what_helm_made_for_this_release_is_a_leftover() {
    let metadata = |annotations: &[(&str, &str)]| ObjectMeta {
        annotations: Some(annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
        ..ObjectMeta::default()
    };
    let ours = [(NAME, "keystone"), (NAMESPACE, "cloud")];
    assert!(is_leftover(&metadata(&ours), &keystone()));
    assert!(!is_leftover(&ObjectMeta::default(), &keystone()), "someone made it by hand");
    assert!(!is_leftover(&metadata(&[(NAME, "glance"), (NAMESPACE, "cloud")]), &keystone()));
    assert!(!is_leftover(&metadata(&[(NAME, "keystone"), (NAMESPACE, "other")]), &keystone()));
    assert!(!is_leftover(&metadata(&[ours[0], ours[1], (KEEP, " Keep")]), &keystone()));
    let mut going = metadata(&ours);
    going.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time("2026-11-21T10:00:00Z".parse().unwrap()));
    assert!(!is_leftover(&going, &keystone()));
}
