//! Decides which changes of an installed release need approval.

use std::collections::BTreeMap;

use super::step::{Reason, Step, Wait};
use super::{Context, Policy};
use crate::catalog::{Component, WorkloadKind};
use crate::desired::{DesiredRelease, VersionSource};
use crate::observed::{Observed, ObservedRelease, Workload};
use crate::release::{NO_INSTANCES, NO_SPLIT};

/// The components that run on each node that hosts instances (virtual machines), as (application, component).
const HOSTS: [(&str, &str); 2] = [("libvirt", "libvirt"), ("nova", "compute")];

impl Context<'_> {
    /// Returns the step of a release whose newest operation failed.
    pub(super) fn retry_step(&self, name: &str, release: &DesiredRelease, record: &ObservedRelease) -> Step {
        let same = record.inputs.as_deref() == Some(release.inputs.as_str());
        let count = self.observed.failures.get(&release.key).map_or(1, |failed| failed.count);
        match same {
            true => self.upgrade_step(name, release, Some(record), Reason::Retry(count)),
            // If helm ever deployed the release, its pods are running. So even after a failure, a change of the inputs
            // needs the same approval as after a success.
            false if record.was_deployed => self.change_step(name, release, record),
            false => self.requested_step(name, release, Some(record), Reason::Spec),
        }
    }

    /// Returns the step for a change of the spec: an install or an upgrade. If the spec sets `approval: Always`, the
    /// step is a wait until a person has approved the change.
    pub(super) fn requested_step(
        &self,
        name: &str,
        release: &DesiredRelease,
        record: Option<&ObservedRelease>,
        why: Reason,
    ) -> Step {
        if !self.approved_by_spec() && release.blocked.is_none() {
            return Step::Wait(Wait::Approval(why));
        }
        self.upgrade_step(name, release, record, why)
    }

    /// Returns the step of a release that does not have the desired inputs: an upgrade, or a wait. The release can wait
    /// for the approval of a person, or for something that helm needs.
    pub(super) fn change_step(&self, name: &str, release: &DesiredRelease, record: &ObservedRelease) -> Step {
        let has_content_of = |before| release.chart_identity.as_ref().is_none_or(|now| now.has_content_of(before));
        let is_same_chart = record.chart.as_ref().map_or(release.chart_identity.is_none(), has_content_of);
        let is_chart_of_catalog = release.version_source == VersionSource::Catalog;
        let is_catalog_change =
            record.catalog.as_deref() != Some(release.catalog.as_str()) || (is_chart_of_catalog && !is_same_chart);
        // `record.instances` is a digest of those settings in the newest revision on which running instances depend,
        // such as a Ceph key. If it is `NO_INSTANCES`, the newest revision has no such setting. Then the upgrade can't
        // break running instances, even if the desired release has such settings.
        let affects_instances = record.instances.as_deref().is_some_and(|digest| digest != NO_INSTANCES)
            && record.instances != release.instances;
        let restarts = self.restarts(release, record);
        let adopted = super::adopt::is_adopted(record);
        let is_same_request = record.chart.as_ref().zip(release.chart_identity.as_ref());
        let is_chart_change = is_same_request.is_some_and(|(before, now)| now.is_changed_content_of(before));
        let why = match (affects_instances, restarts.is_empty(), is_catalog_change) {
            _ if adopted => Reason::Adopted,
            (true, ..) => Reason::Instances(describe_hosts(self.observed)),
            (false, false, _) => Reason::Split(restarts),
            (false, true, _) if is_chart_change => Reason::Chart,
            (false, true, true) => Reason::Catalog,
            (false, true, false) => return self.requested_step(name, release, Some(record), Reason::Spec),
        };
        // Even if the spec sets `approval: Automatic`, a person must approve the first upgrade of an adopted release.
        let agreed = if adopted { self.is_approved() } else { self.approved() };
        if !agreed && release.blocked.is_none() {
            return Step::Wait(Wait::Approval(why));
        }
        self.upgrade_step(name, release, Some(record), why)
    }

    /// Returns the components whose pods may restart because the upgrade changes how the nodes are divided among
    /// `DaemonSets`, each component with the number of its nodes.
    ///
    /// helm's record contains one digest of how the chart divides the nodes, for all components together. So osdpl
    /// can't tell which components the upgrade affects. The result contains every component that has several
    /// `DaemonSets` before or after the upgrade.
    fn restarts(&self, release: &DesiredRelease, record: &ObservedRelease) -> Vec<(Component, i32)> {
        let Some(split) = &release.split else { return Vec::new() };
        if record.split.as_deref().unwrap_or(NO_SPLIT) == split.digest {
            return Vec::new();
        }
        let key = &release.key;
        let mut pods: BTreeMap<&Component, (bool, i32)> = BTreeMap::new();
        for workload in &self.observed.workloads {
            let Some(unsplit_name) = split.unsplit_names.get(&workload.component) else { continue };
            if workload.namespace == key.namespace && workload.release == key.name {
                let (is_split, count) = pods.entry(&workload.component).or_default();
                *is_split |= workload.name != *unsplit_name;
                *count += workload.desired;
            }
        }
        let restarted = |(component, (is_split, count)): (&Component, (bool, i32))| {
            let is_affected = count > 0 && (is_split || split.components.contains(component));
            is_affected.then(|| (component.clone(), count))
        };
        pods.into_iter().filter_map(restarted).collect()
    }

    /// Returns the step of a release whose newest revision someone else made after osdpl had made an earlier one.
    pub(super) fn foreign_step(&self, name: &str, release: &DesiredRelease, record: &ObservedRelease) -> Step {
        let new_spec = record.own_inputs.as_ref().is_some_and(|inputs| *inputs != release.inputs);
        let may_change = !new_spec || self.approved_by_spec();
        if Policy::selects(&self.policy.repair, name) && may_change {
            self.upgrade_step(name, release, Some(record), Reason::Repair)
        } else if new_spec {
            self.change_step(name, release, record)
        } else {
            let description = record.body.as_ref().map(|body| body.description.clone()).unwrap_or_default();
            Step::Wait(Wait::Foreign { revision: record.revision, description, since: record.created_at })
        }
    }
}

/// Describes where instances run: for each `DaemonSet` of libvirt and nova-compute, the number of its nodes and the
/// label that selects these nodes.
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
    format!("{}; list a node's instances with `openstack server list --all-projects --host NODE`", parts.join(", "))
}
