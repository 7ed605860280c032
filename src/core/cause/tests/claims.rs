//! Tests of pods that wait for a volume claim without a volume.

use super::*;

const UNBOUND: &str = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";

#[test]
fn missing_class_lists_commands_to_fix() {
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("nope"), "Pending");
    let cause = fixture.unschedulable("StatefulSet", "server", &["data-server-0"], UNBOUND).workload_cause();
    let expected = "server-0: claim data-server-0 (10Gi) is pending: StorageClass \"nope\" does not exist; create the StorageClass, or delete the objects that request the volume \
                    (kubectl -n n delete statefulset server; kubectl -n n delete pvc data-server-0), then set spec.storageClass to an existing StorageClass";
    assert_eq!(cause, (expected.to_owned(), true));
}

#[test]
fn keeps_pods_with_bound_claims() {
    let fixture =
        Cluster::default().claim("data-server-0", Some("old"), "Bound").claim("data-server-1", Some("nope"), "Pending");
    let bound = Claim { phase: ClaimPhase::Bound, name: "data-server-0".into(), ..fixture.claims[0].clone() };
    let cause = deletion_commands([&bound, &fixture.claims[0]].into_iter(), "n", "server");
    let expected = "kubectl -n n delete statefulset server --cascade=orphan (its pods keep running); kubectl -n n delete pvc data-server-1 --wait=false; \
                    kubectl -n n delete pod server-1";
    assert_eq!(cause, expected);
}

#[test]
fn deletes_only_the_claim_of_a_chart() {
    let fixture = Cluster::default().workload(DaemonSet, "glance/api", 0).claim("images-1", Some("nope"), "Pending");
    let (cause, _) = fixture.unschedulable("DaemonSet", "api", &["images-1"], UNBOUND).workload_cause();
    assert!(cause.contains("(kubectl -n n delete pvc images-1)"), "{cause}");
}

#[test]
fn reports_missing_default_class() {
    let fixture = Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", None, "Pending");
    let (cause, stuck) =
        fixture.class("disks").unschedulable("StatefulSet", "server", &["data-server-0"], UNBOUND).workload_cause();
    let problem =
        "the claim names no StorageClass, and no StorageClass is the default; mark a StorageClass as the default, or";
    assert!(stuck && cause.contains(problem), "{cause}");
}

#[test]
fn reports_provisioner_without_volume() {
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Pending");
    let fixture = fixture.class("disks").unschedulable("StatefulSet", "server", &["data-server-0"], UNBOUND);
    let expected = "server-0: claim data-server-0 (10Gi) is pending: StorageClass \"disks\" (example.com/disks) has not created a volume yet";
    assert_eq!(fixture.workload_cause(), (expected.to_owned(), false));
}

#[test]
fn claim_that_waits_for_its_pod_is_not_the_cause() {
    let message = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    let fixture =
        Cluster::default().workload(StatefulSet, "mariadb/server", 0).claim("data-server-0", Some("disks"), "Pending");
    let (cause, stuck) =
        fixture.class("disks").unschedulable("StatefulSet", "server", &["data-server-0"], message).workload_cause();
    assert!(stuck && cause.ends_with(&format!("it cannot be scheduled: {message}")), "{cause}");
}
