use crate::catalog::WorkloadKind;
use crate::observed::{Observed, Workload};
use crate::plan::approval::describe_hosts;
use crate::testing::available;

#[test]
fn counts_compute_nodes_by_label() {
    let workload = |component: &str, desired, selects: &str| Workload {
        kind: WorkloadKind::DaemonSet,
        desired,
        node_selector: selects.into(),
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
        describe_hosts(&Observed { workloads, ..Observed::default() }),
        "libvirt-libvirt on 2 nodes with openstack-compute-node=enabled, nova-compute on 1 node; list a node's instances with `openstack server list --all-projects --host NODE`"
    );
    assert_eq!(describe_hosts(&Observed::default()), "no node runs libvirt or nova-compute now");
}
