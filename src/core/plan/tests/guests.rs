use crate::catalog::WorkloadKind;
use crate::observed::{Observed, Workload};
use crate::plan::guests::hosts;
use crate::testing::world::available;

#[test]
fn the_nodes_that_guests_may_be_on_are_counted_and_told_by_label() {
    let workload = |component: &str, desired, selects: &str| Workload {
        kind: WorkloadKind::DaemonSet,
        desired,
        selects: selects.into(),
        ..available(&component.replace('/', "-"), component, desired)
    };
    let label = "openstack-compute-node=enabled";
    let workloads = vec![
        workload("libvirt/libvirt", 2, label),
        workload("nova/compute", 1, ""),
        workload("nova/compute-ironic", 3, ""),
        workload("neutron/neutron-ovs-agent", 3, label),
    ];
    assert_eq!(
        hosts(&Observed { workloads, ..Observed::default() }),
        "libvirt-libvirt on 2 nodes with openstack-compute-node=enabled, nova-compute on 1 node; which instances are there Nova knows"
    );
    assert_eq!(hosts(&Observed::default()), "no node runs libvirt or nova-compute now");
}
