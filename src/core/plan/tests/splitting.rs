//! Tests of upgrades that restart pods because they change how the nodes are divided among `DaemonSets`.

use crate::api::Approval;
use crate::catalog::{Component, WorkloadKind};
use crate::desired::NodeSplit;
use crate::release::NO_SPLIT;
use crate::release::Status;
use crate::testing::*;

/// Returns the step of the release `store` after its inputs changed. The change may affect the split: how the chart
/// divides the nodes among `DaemonSets`.
///
/// `before` is the digest of the split in the newest record, and `wanted` the digest of the desired split. `sets` lists
/// the `DaemonSets` in the cluster as (component, name, number of nodes).
fn step_for(before: Option<&str>, wanted: &str, sets: &[(&str, &str, i32)], approval: Approval) -> String {
    let parse = |text: &str| Component::parse(text).unwrap();
    let split = NodeSplit {
        digest: wanted.into(),
        components: (wanted != NO_SPLIT).then(|| parse("store/disk")).into_iter().collect(),
        unsplit_names: [("store/disk", "store-disk-default"), ("store/net", "store-net-default")]
            .map(|(component, name)| (parse(component), name.to_owned()))
            .into(),
    };
    let mut record = observed_release(Status::Deployed);
    (record.inputs, record.split) = (Some("old".into()), before.map(Into::into));
    let mut fixture = fixture().with_release("store", record);
    fixture.policy.approval = approval;
    fixture.desired.releases.get_mut("store").unwrap().split = Some(split);
    for (component, name, nodes) in sets {
        let mut set = available("store", component, *nodes);
        (set.kind, set.name, set.desired) = (WorkloadKind::DaemonSet, (*name).into(), *nodes);
        fixture.observed.workloads.push(set);
    }
    fixture.describe_step("store")
}

#[test]
fn split_that_restarts_pods_needs_approval() {
    let unsplit = [("store/disk", "store-disk-default", 49), ("store/net", "store-net-default", 50)];
    let split = [
        ("store/disk", "store-disk-default-1a2b3c4d", 40),
        ("store/disk", "store-disk-gpu-5e6f7a8b", 9),
        ("store/net", "store-net-default", 50),
    ];
    let idle = [("store/disk", "store-disk-default", 0)];
    let waits = "its values divide the nodes differently among its DaemonSets, which can restart the pods of store/disk on 49 nodes";
    let cases = [
        (None, "one", &unsplit[..], true),
        (Some(NO_SPLIT), "one", &unsplit[..], true),
        (Some("one"), "two", &split[..], true),
        (Some("one"), NO_SPLIT, &split[..], true),
        (Some("one"), "one", &split[..], false),
        (None, NO_SPLIT, &unsplit[..], false),
        (None, "one", &idle[..], false),
        (None, "one", &[], false),
    ];
    for (before, wanted, sets, expected) in cases {
        let step = step_for(before, wanted, sets, Approval::Manual);
        let agreed = "delete Jobs store-setup, helm upgrade --install, because its inputs changed";
        let expected = if expected { format!("{waits}: waits for approval (osdpl approve)") } else { agreed.into() };
        assert_eq!(step, expected, "{before:?} {wanted} {sets:?}");
    }
    let step = step_for(None, "one", &unsplit, Approval::Automatic);
    assert_eq!(step, format!("delete Jobs store-setup, helm upgrade --install, because {waits}"));
    let one = step_for(None, "one", &[("store/disk", "store-disk-default", 1)], Approval::Manual);
    assert!(one.contains("can restart the pods of store/disk on 1 node: waits"), "{one}");
}
