//! The nodes that instances may run on, derived from `DaemonSets` only: Nova is not queried.

use crate::catalog::WorkloadKind;
use crate::observed::{Observed, Workload};

/// The components that instances depend on, as (application, component).
const HOSTS: [(&str, &str); 2] = [("libvirt", "libvirt"), ("nova", "compute")];

/// Describes the `DaemonSets` that instances run under, with their node counts and node selectors.
pub(super) fn describe_hosts(observed: &Observed) -> String {
    let is_host = |workload: &&Workload| {
        let component = (workload.component.application.as_str(), workload.component.component.as_str());
        workload.kind == WorkloadKind::DaemonSet && HOSTS.contains(&component) && workload.desired > 0
    };
    let parts = observed.workloads.iter().filter(is_host).map(|workload| {
        let Workload { name, desired, node_selector: selects, .. } = workload;
        let nodes = if *desired == 1 { "node" } else { "nodes" };
        let which = if selects.is_empty() { String::new() } else { format!(" with {selects}") };
        format!("{name} on {desired} {nodes}{which}")
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return "no node runs libvirt or nova-compute now".into();
    }
    format!("{}; list their instances with `openstack server list --all-projects --host NODE`", parts.join(", "))
}
