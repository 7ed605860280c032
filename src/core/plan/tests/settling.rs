//! Tests of releases that have the desired inputs but are not ready yet.

use crate::catalog::WorkloadKind;
use crate::observed::{DaemonSetGroup, Issue, ObservedRelease, OnDelete, RecordBody};
use crate::release::Status;
use crate::testing::*;

#[test]
fn settles_until_workloads_and_jobs_are_done() {
    let mut body = RecordBody::default();
    body.workloads.insert((WorkloadKind::StatefulSet, "openstack".into(), "store".into()));
    let synced = ObservedRelease { body: Some(body), ..observed_release(Status::Deployed) };
    let fixture = fixture().with_release("store", synced);
    assert_eq!(
        fixture.describe_step("store"),
        "settles: StatefulSet store does not exist; if someone deleted the object, annotate the OpenStackDeployment with osdpl.dev/repair=<release>"
    );
    let fixture = fixture.with(|fixture| fixture.observed.workloads.push(available("store", "store/server", 0)));
    assert_eq!(fixture.describe_step("store"), "settles: store/server 0/1");
    let fixture = fixture.with(|fixture| fixture.observed.workloads = vec![available("store", "store/server", 1)]);
    assert_eq!(fixture.describe_step("store"), "ready");
}

#[test]
fn replaced_batch_keeps_release_ready_unless_stuck() {
    let mut body = RecordBody::default();
    body.workloads.insert((WorkloadKind::DaemonSet, "openstack".into(), "store".into()));
    let step_of = |ready: i32, stuck: bool| {
        let mut set = available("store", "store/server", ready);
        (set.kind, set.desired, set.updated) = (WorkloadKind::DaemonSet, 3, 3);
        set.on_delete = Some(OnDelete::default());
        set.trouble = stuck.then(|| Issue { stuck: true, message: "no image".into() });
        let mut fixture = fixture()
            .with_release("store", ObservedRelease { body: Some(body.clone()), ..observed_release(Status::Deployed) });
        let daemons = DaemonSetGroup { namespace: "openstack".into(), component: set.component.clone() };
        fixture.observed.rolling_batches.insert(daemons, 1);
        fixture.observed.workloads.push(set);
        fixture.describe_step("store")
    };
    assert_eq!(step_of(2, false), "ready");
    assert_eq!(step_of(1, false), "settles: store/server 1/3", "a batch of one pod does not explain two missing pods");
    assert_eq!(step_of(2, true), "settles: store/server 2/3: no image");
}

#[test]
fn reports_workloads_scaled_to_zero_outside_helm() {
    let identity = (WorkloadKind::StatefulSet, "openstack".to_owned(), "store".to_owned());
    let scaled = |at_rest: bool| {
        let mut record = observed_release(Status::Deployed);
        let body = record.body.as_mut().unwrap();
        body.workloads.insert(identity.clone());
        body.scaled_to_zero.extend(at_rest.then(|| identity.clone()));
        let mut workload = available("store", "store/server", 0);
        workload.desired = 0;
        let mut fixture = fixture().with_release("store", record);
        fixture.observed.workloads.push(workload);
        fixture.describe_step("store")
    };
    assert_eq!(scaled(true), "ready");
    let step = scaled(false);
    assert!(
        step.starts_with(
            "settles: store/server store was scaled to 0; scale it back (`kubectl -n openstack scale statefulset store"
        ),
        "{step}"
    );
}
