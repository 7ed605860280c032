//! Plans Jobs that map new compute hosts to a cell of Nova. Also plans to delete the hosts of removed nodes from Nova
//! and Neutron; the user names these nodes in the annotation `osdpl.dev/forget-nodes`.

use std::collections::BTreeSet;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Read, Response};
use super::resource::annotated_names;
use osdpl_core::api::FORGET_NODES_ANNOTATION;
use osdpl_core::catalog::{self, Catalog, Level};
use osdpl_core::desired::{Desired, DesiredRelease, Finding};
use osdpl_core::nodes::format_names;
use osdpl_core::observed::{Observed, ObservedCronJob, ReleaseKey};
use osdpl_core::openstack::{HostObservation, HostQuery, HostResponse, Mapping, Next, access, next};
use osdpl_core::plan::Policy;
use osdpl_core::status::{Event, host_deleted_event, host_not_deleted_event, mapping_hosts_event};
use osdpl_values::{CollectSorted, digest};

/// The release whose pods register compute hosts in Nova, with the catalogue's settings for these hosts.
#[derive(Clone, Copy)]
struct Hosting<'a> {
    release: &'a DesiredRelease,
    /// The catalogue's settings for the hosts, such as the `CronJob` that maps them to a cell.
    hosts: &'a catalog::Hosts,
}

/// Requests Nova's list of compute hosts if Nova's API is available, and plans actions according to the last list that
/// Nova returned.
///
/// A problem with Nova causes at most a warning, and the rest of the decision continues.
pub(crate) fn decide(draft: &mut Draft<'_>, desired: &Desired, observed: &Observed, policy: &Policy, is_refused: bool) {
    let named = annotated_names(&draft.snapshot.deployment, FORGET_NODES_ANNOTATION);
    let hosting = hosting(draft.catalog(), desired, observed, policy, is_refused);
    let query = hosting.and_then(|hosting| query(draft, hosting, &named, desired, observed));
    draft.requests.hosts = query.as_ref().ok().cloned();
    let (query, hosting) = match (query, hosting) {
        (Ok(query), Ok(hosting)) => (query, hosting),
        (Err(_), _) | (_, Err(_)) if named.is_empty() => return,
        (Err(why), _) | (_, Err(why)) => {
            return draft
                .findings
                .push(warning(format!("annotation {FORGET_NODES_ANNOTATION} has no effect yet: {why}")));
        }
    };
    let Some(last) = draft.snapshot.hosts.clone() else { return plan_forget(draft, &query) };
    draft.findings.extend(findings(&last));
    // A response to an older query may show the state of Nova before osdpl's last action. So osdpl reports the problems
    // in this response, but plans only the deletion of hosts, which does not depend on the response.
    if last.query != query {
        return plan_forget(draft, &query);
    }
    if let Ok(response) = &last.response {
        consume_forget(draft, &query, response, &named);
        map_hosts(draft, hosting, &query, response, observed);
    }
}

/// Plans to delete the hosts of the removed nodes from Nova and Neutron.
///
/// Each pass plans the deletion again, until a later response of Nova shows that the hosts are deleted.
fn plan_forget(draft: &mut Draft<'_>, query: &HostQuery) {
    if !query.removed_nodes.is_empty() {
        let nodes = query.removed_nodes.iter().cloned().collect();
        draft.add(Planned::new(
            Action::ForgetHosts(nodes),
            format!("annotation {FORGET_NODES_ANNOTATION} names these nodes"),
        ));
    }
}

/// Returns the query that lists Nova's compute hosts, or why osdpl can't query Nova yet.
fn query(
    draft: &Draft<'_>,
    hosting: Hosting<'_>,
    named: &BTreeSet<String>,
    desired: &Desired,
    observed: &Observed,
) -> Result<HostQuery, &'static str> {
    let nodes = draft.snapshot.nodes.as_ref().map(|nodes| nodes.keys().cloned().collect_set());
    let nodes = nodes.ok_or("osdpl has no right to list nodes")?;
    Ok(HostQuery {
        access: access(draft.catalog(), desired).ok_or("the password of Keystone's administrator is not known yet")?,
        state: hosting.state(observed),
        last_success: hosting.cron_job(observed).and_then(|cron| cron.succeeded),
        removed_nodes: named.difference(&nodes).cloned().collect_set(),
        nodes: Some(nodes),
    })
}

/// Plans a run of the `CronJob` that maps new hosts to a cell.
///
/// The name of the Job contains a hash of the hosts and of the run's number: the first run for these hosts has the
/// number 1. A restarted operator counts from 1 again. So it finds the first Job by its name, and does not create a
/// second one.
fn map_hosts(
    draft: &mut Draft<'_>,
    hosting: Hosting<'_>,
    query: &HostQuery,
    response: &HostResponse,
    observed: &Observed,
) {
    let Hosting { release, hosts } = hosting;
    let unmapped = &response.hosts.unmapped;
    let cron = hosting.cron_job(observed);
    let is_running = cron.is_some_and(|cron| cron.running);
    match next(draft.kept.mapping.as_ref(), unmapped, query.last_success, is_running) {
        Next::None => draft.kept.mapping = None,
        Next::Wait => {}
        Next::GaveUp => draft.findings.push(unmapped_warning(unmapped.keys(), hosting)),
        Next::Run(_) if cron.is_none() => draft.findings.push(unmapped_warning(unmapped.keys(), hosting)),
        Next::Run(mapping) => {
            let job = job_name(hosts, &mapping);
            let names: Vec<&str> = mapping.hosts.keys().map(String::as_str).collect();
            let new_hosts = format_names(names.iter().copied(), names.len());
            let reason = format!("Nova has not mapped these new compute hosts to a cell yet: {new_hosts}");
            let event = mapping_hosts_event(names.iter().copied(), names.len(), &job);
            let cron = ReleaseKey::new(&release.key.namespace, &hosts.discovered_by);
            let action = Action::RunCron { cron, job, mapping };
            let refusal = draft.attempt(Planned::new(action, reason).with_events([event]));
            draft.problems.extend(refusal.map(|refusal| refusal.message.clone()));
        }
    }
}

fn job_name(hosts: &catalog::Hosts, mapping: &Mapping) -> String {
    let parts = mapping.hosts.iter().flat_map(|(host, id)| [host.as_str(), id.as_str()]);
    let hash = digest(parts.chain([mapping.tries.to_string().as_str()]));
    format!("{}-{}", hosts.discovered_by, &hash[..8])
}

/// Plans to remove the names of nodes from the annotation `osdpl.dev/forget-nodes`.
///
/// osdpl removes the name of a node in three cases: osdpl has deleted the node's host in Nova, Nova does not know the
/// host, or the node still exists.
fn consume_forget(draft: &mut Draft<'_>, query: &HostQuery, response: &HostResponse, named: &BTreeSet<String>) {
    let (mut left, mut events) = (Vec::new(), Vec::<Event>::new());
    for node in named {
        if !query.removed_nodes.contains(node) {
            // osdpl never deletes the host of a node that still exists. So remove the node's name from the annotation;
            // the user must add the name again after deleting the node.
            match draft.read(Read::Node(node.clone())).map(|received| &received.response) {
                Some(Response::Node(true)) => {
                    events.push(host_not_deleted_event(
                        node,
                        "the node still exists; delete the node, and then run osdpl forget again",
                    ));
                }
                _ => left.push(node.as_str()),
            }
        } else if response.not_deleted.contains_key(node) {
            left.push(node.as_str());
        } else {
            let unknown = || host_not_deleted_event(node, "nova knows no host of this name");
            events.push(response.deleted.get(node).map_or_else(unknown, |found| host_deleted_event(node, found)));
        }
    }
    if events.is_empty() {
        return;
    }
    let value = Some(left.join(",")).filter(|value| !value.is_empty());
    let action = Action::Annotate([(FORGET_NODES_ANNOTATION, value)].into());
    let refusal = draft.attempt(Planned::new(action, "osdpl no longer needs these names").with_events(events));
    draft.problems.extend(refusal.map(|refusal| refusal.message.clone()));
}

/// Returns the release whose pods register hosts in Nova, or the reason why Nova can't be queried now.
fn hosting<'a>(
    catalog: &'a Catalog,
    desired: &'a Desired,
    observed: &Observed,
    policy: &Policy,
    is_refused: bool,
) -> Result<Hosting<'a>, &'static str> {
    let of = |(name, release): (&String, &'a DesiredRelease)| {
        Some(Hosting { release, hosts: catalog.release(name)?.1.hosts.as_ref()? })
    };
    let hosting =
        desired.releases.iter().find_map(of).ok_or("this cloud has no service whose pods register hosts in Nova")?;
    let key = &hosting.release.key;
    if is_refused {
        Err("the spec is refused")
    } else if policy.paused || hosting.release.paused {
        Err("the cloud, or nova, is paused")
    } else if observed.running.contains_key(key) {
        Err("helm is running for nova")
    } else if observed.endpoints.get(key).is_none_or(|endpoint| endpoint.trouble.is_some()) {
        Err("Nova's API does not respond to the operator, or OSDPL_PROBES disables the probes")
    } else {
        Ok(hosting)
    }
}

impl Hosting<'_> {
    /// Returns two numbers for each workload whose pods register compute hosts in Nova: its generation, and its number
    /// of ready pods.
    ///
    /// If one of these numbers changes, new hosts could have appeared, so osdpl queries Nova again.
    fn state(self, observed: &Observed) -> Vec<(i64, i32)> {
        let own = observed.workloads.iter().filter(|workload| {
            workload.namespace == self.release.key.namespace
                && workload.release == self.release.key.name
                && workload.component == self.hosts.component
        });
        own.map(|workload| (workload.generation, workload.ready)).collect()
    }

    /// Returns the `CronJob` that maps new hosts to a cell; `None` if it does not exist.
    fn cron_job(self, observed: &Observed) -> Option<&ObservedCronJob> {
        let namespace = &self.release.key.namespace;
        observed.crons.iter().find(|cron| cron.namespace == *namespace && cron.name == self.hosts.discovered_by)
    }
}

/// Returns a warning for each problem: a failed query of Nova, hosts that osdpl could not delete, and hosts without a
/// node.
fn findings(last: &HostObservation) -> Vec<Finding> {
    let response = match &last.response {
        Ok(response) => response,
        Err(why) => return vec![warning(format!("nova can't be queried for its hosts: {why}"))],
    };
    let kept = response.not_deleted.iter().map(|(node, why)| format!("{node} is still a host of the cloud: {why}"));
    let is_kept = |host: &&str| {
        response
            .not_deleted
            .keys()
            .any(|node| response.hosts.host_of_deleted_node(node).is_some_and(|s| s.host == *host))
    };
    let orphaned = response.hosts.without_node().filter(|host| !is_kept(host)).map(|host| {
        format!(
            "nova still lists host {host}, which has no node any more and no longer reports to nova; if the host \
             was removed for good, run osdpl forget {host}"
        )
    });
    kept.chain(orphaned).map(warning).collect()
}

/// Returns the warning about new compute hosts that Nova's `CronJob` has not mapped to a cell.
fn unmapped_warning<'a>(hosts: impl ExactSizeIterator<Item = &'a String>, hosting: Hosting<'_>) -> Finding {
    let count = hosts.len();
    let names = format_names(hosts.map(String::as_str), count);
    warning(format!(
        "nova lists no hypervisor for {names}, so nova starts no instances on these hosts; check the newest Job of \
         CronJob {}/{} (there is no CronJob if manifests.cron_job_cell_setup is false), and the log of nova-compute",
        hosting.release.key.namespace, hosting.hosts.discovered_by
    ))
}

fn warning(message: String) -> Finding {
    Finding::new(Level::Warning, "nodes", message)
}
