//! Claims that have no volume.

use super::*;

const UNBOUND: &str = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";

#[test]
fn a_class_that_does_not_exist_is_named_with_all_that_has_to_go() {
    let world =
        World::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("nope"), "Pending");
    let told = world.homeless("StatefulSet", "server", &["data-server-0"], UNBOUND).told();
    let expected = "server-0: claim data-server-0 (10Gi) waits: StorageClass \"nope\" does not exist; make it, or delete what asks for it \
                    (kubectl -n n delete statefulset server; kubectl -n n delete pvc data-server-0), then correct spec.storageClass";
    assert_eq!(told, (expected.to_owned(), true));
}

#[test]
fn pods_whose_claims_are_bound_go_on() {
    let world =
        World::default().claim("data-server-0", Some("old"), "Bound").claim("data-server-1", Some("nope"), "Pending");
    let bound = Claim { phase: ClaimPhase::Bound, name: "data-server-0".into(), ..world.claims[0].clone() };
    let told = remedy([&bound, &world.claims[0]].into_iter(), "n", "server");
    let expected = "kubectl -n n delete statefulset server --cascade=orphan (its pods go on); kubectl -n n delete pvc data-server-1 --wait=false; \
                    kubectl -n n delete pod server-1";
    assert_eq!(told, expected);
}

#[test]
fn a_claim_of_a_chart_goes_alone() {
    let world = World::default().workload(DaemonSet, "glance/api", 0).claim("images-1", Some("nope"), "Pending");
    let (told, _) = world.homeless("DaemonSet", "api", &["images-1"], UNBOUND).told();
    assert!(told.contains("(kubectl -n n delete pvc images-1)"), "{told}");
}

#[test]
fn without_a_class_and_a_default_one_nothing_makes_a_volume() {
    let world = World::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", None, "Pending");
    let (told, stuck) = world.class("disks").homeless("StatefulSet", "server", &["data-server-0"], UNBOUND).told();
    assert!(stuck && told.contains("it names no StorageClass, and none is the default one"), "{told}");
}

#[test]
fn a_class_that_makes_no_volume_is_told_with_who_should() {
    let world =
        World::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Pending");
    let world = world.class("disks").homeless("StatefulSet", "server", &["data-server-0"], UNBOUND);
    let expected =
        "server-0: claim data-server-0 (10Gi) waits: StorageClass \"disks\" (example.com/disks) has made no volume yet";
    assert_eq!(world.told(), (expected.to_owned(), false));
}

#[test]
fn a_claim_that_waits_for_its_pod_is_not_why_the_pod_waits() {
    let words = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    let world =
        World::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Pending");
    let (told, stuck) = world.class("disks").homeless("StatefulSet", "server", &["data-server-0"], words).told();
    assert!(stuck && told.ends_with(&format!("no node can take it: {words}")), "{told}");
}
