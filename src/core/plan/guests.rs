//! Where guests may run. Nova is not asked: whoever rotates a key looks there, with `openstack server list --all-projects --host NODE`.

use crate::catalog::WorkloadKind;
use crate::observed::{Observed, Workload};

/// What guests run under: application and component.
const HOSTS: [(&str, &str); 2] = [("libvirt", "libvirt"), ("nova", "compute")];

/// The `DaemonSet`s that guests run under, each with its nodes counted and named by the label that it asks of them.
pub(super) fn hosts(observed: &Observed) -> String {
    let is_host = |workload: &&Workload| {
        let component = (workload.component.application.as_str(), workload.component.component.as_str());
        workload.kind == WorkloadKind::DaemonSet && HOSTS.contains(&component) && workload.desired > 0
    };
    let said = observed.workloads.iter().filter(is_host).map(|workload| {
        let Workload { name, desired, selects, .. } = workload;
        let nodes = if *desired == 1 { "node" } else { "nodes" };
        let which = if selects.is_empty() { String::new() } else { format!(" with {selects}") };
        format!("{name} on {desired} {nodes}{which}")
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return "no node runs libvirt or nova-compute now".into();
    }
    format!("{}; which instances are there Nova knows", said.join(", "))
}
