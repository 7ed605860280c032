//! New computes are mapped into their cell at once, and hosts of nodes that a person calls gone for good are forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::gather::{Wish, names};
use super::memory::Memory;
use crate::cluster::{Error, Made};
use osdpl_core::api::{FORGET_NODES_ANNOTATION, OpenStackDeployment};
use osdpl_core::catalog::{self, Catalog, Level};
use osdpl_core::desired::{Desired, DesiredRelease, Finding};
use osdpl_core::nodes::format_names;
use osdpl_core::observed::{Observed, ObservedCronJob};
use osdpl_core::openstack::{HostObservation, HostQuery, HostResponse, Mapping, Next, access, next};
use osdpl_core::status::{Event, host_deleted_event, host_not_deleted_event, mapping_hosts_event};
use osdpl_values::digest;

/// When something is tried again that the API server refused: no watch tells of quotas and webhooks.
const AGAIN: Duration = Duration::from_secs(30);

/// What is remembered of hosts between passes.
#[derive(Default)]
pub struct Hosted {
    /// New hosts for which something was started; `None` while there are none.
    mapping: Option<Mapping>,
    /// Until when nothing is tried, and why.
    refused: Option<(Timestamp, String)>,
}

/// The release that has hosts, and what is known of them.
type Hosting<'a> = (&'a DesiredRelease, &'a catalog::Hosts);

impl Context {
    /// Has Nova asked about its hosts where its API answers, and does what follows from the answer. What goes wrong is told, and holds up nothing.
    pub(super) async fn hosts(&self, deployment: &OpenStackDeployment, wish: &mut Wish, memory: &mut Memory) {
        let asked = names(deployment, FORGET_NODES_ANNOTATION);
        let desired = Arc::clone(&wish.desired);
        let catalog = self.catalog();
        let hosting = hosting(&catalog, &desired, wish);
        let question = hosting.and_then(|hosting| self.question(hosting, &asked, wish));
        self.tasks.set_host_query(question.as_ref().ok().cloned());
        let question = match question {
            Ok(question) => question,
            Err(_) if asked.is_empty() => return,
            Err(why) => {
                return wish.findings.push(warning(format!("annotation {FORGET_NODES_ANNOTATION} waits: {why}")));
            }
        };
        let Some(heard) = self.tasks.observe().hosts else { return };
        wish.findings.extend(told(&heard));
        let now = super::now();
        memory.hosts.refused = memory.hosts.refused.take().filter(|(until, _)| *until > now);
        // What was answered to another question tells, but nothing is done for it any more.
        let answer = heard.answer.as_ref().ok().filter(|_| heard.question == question);
        if let (None, Some(answer), Ok(hosting)) = (&memory.hosts.refused, answer, hosting) {
            let done = self.follow(deployment, hosting, (&question, answer, &asked), wish, memory).await;
            let until = now.checked_add(AGAIN).unwrap_or(now);
            memory.hosts.refused = done.err().map(|error| (until, error.to_string()));
        }
        if let Some((until, why)) = &memory.hosts.refused {
            wish.problems.push(why.clone());
            wish.wake = wish.wake.into_iter().chain([*until]).min();
        }
    }

    fn question(&self, hosting: Hosting<'_>, asked: &BTreeSet<String>, wish: &Wish) -> Result<HostQuery, &'static str> {
        let nodes = self.tasks.observe().nodes().map(|nodes| nodes.keys().cloned().collect::<BTreeSet<_>>());
        let nodes = nodes.ok_or("nodes may not be listed")?;
        Ok(HostQuery {
            access: access(&self.catalog(), &wish.desired).ok_or("keystone's administrator is not known yet")?,
            state: state(hosting, &wish.observed),
            last_success: cron(hosting, &wish.observed).and_then(|cron| cron.succeeded),
            removed_nodes: asked.difference(&nodes).cloned().collect(),
            nodes: Some(nodes),
        })
    }

    async fn follow(
        &self,
        deployment: &OpenStackDeployment,
        hosting: Hosting<'_>,
        (question, answer, asked): (&HostQuery, &HostResponse, &BTreeSet<String>),
        wish: &mut Wish,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        self.spend_forget(deployment, (question, answer), asked).await?;
        let unmapped = &answer.hosts.unmapped;
        let running = cron(hosting, &wish.observed).is_some_and(|cron| cron.running);
        match next(memory.hosts.mapping.as_ref(), unmapped, question.last_success, running) {
            Next::None => memory.hosts.mapping = None,
            Next::Wait => {}
            Next::InVain => wish.findings.push(unmappable(unmapped.keys(), hosting)),
            Next::Run(wanted) => {
                if self.map(deployment, hosting, &wanted).await? == Made::Nothing {
                    wish.findings.push(unmappable(unmapped.keys(), hosting));
                } else {
                    memory.hosts.mapping = Some(wanted);
                }
            }
        }
        Ok(())
    }

    /// Runs what makes new hosts known. One name for the same try, so that a restart in between makes no second Job.
    async fn map(
        &self,
        deployment: &OpenStackDeployment,
        (release, hosts): Hosting<'_>,
        wanted: &Mapping,
    ) -> Result<Made, Error> {
        let parts = wanted.hosts.iter().flat_map(|(host, id)| [host.as_str(), id.as_str()]);
        let hash = digest(parts.chain([wanted.tries.to_string().as_str()]));
        let job = format!("{}-{}", hosts.discovered_by, &hash[..8]);
        let made = self.cluster.run_cron(&release.key.namespace, &hosts.discovered_by, &job).await?;
        if made == Made::Now {
            tracing::info!(hosts = ?wanted.hosts.keys(), job, "new computes are mapped");
            let event = mapping_hosts_event(wanted.hosts.keys().map(String::as_str), wanted.hosts.len(), &job);
            self.cluster.tell(deployment, vec![event]).await;
        }
        Ok(made)
    }

    /// Takes the nodes out of the annotation for which it has had its effect, or can have none.
    async fn spend_forget(
        &self,
        deployment: &OpenStackDeployment,
        (question, answer): (&HostQuery, &HostResponse),
        asked: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let (mut left, mut events) = (Vec::new(), Vec::<Event>::new());
        for node in asked {
            if !question.removed_nodes.contains(node) {
                // The word was about a node that is gone: if it is there, or is back, a later end of it needs a new one.
                if self.cluster.has_node(node).await? {
                    events.push(host_not_deleted_event(node, "it is a node of the cluster; delete that first"));
                } else {
                    left.push(node.as_str());
                }
            } else if answer.not_deleted.contains_key(node) {
                left.push(node.as_str());
            } else {
                let unknown = || host_not_deleted_event(node, "nova knows no host of this name");
                events.push(answer.forgotten.get(node).map_or_else(unknown, |found| host_deleted_event(node, found)));
            }
        }
        if events.is_empty() {
            return Ok(());
        }
        let value = Some(left.join(",")).filter(|value| !value.is_empty());
        if self.cluster.annotate(deployment, &[(FORGET_NODES_ANNOTATION, value)].into()).await? {
            self.cluster.tell(deployment, events).await;
        }
        Ok(())
    }
}

/// The release with hosts, where helm is not at it and its API answers; else why not.
fn hosting<'a>(catalog: &'a Catalog, desired: &'a Desired, wish: &Wish) -> Result<Hosting<'a>, &'static str> {
    let of = |(name, release): (&String, &'a DesiredRelease)| Some((release, catalog.release(name)?.1.hosts.as_ref()?));
    let found = desired.releases.iter().find_map(of).ok_or("no service of this cloud has hosts")?;
    let key = &found.0.key;
    if wish.refused {
        Err("the spec is refused")
    } else if wish.policy.paused || found.0.paused {
        Err("the cloud, or nova, is paused")
    } else if wish.observed.running.contains_key(key) {
        Err("helm is at nova")
    } else if wish.observed.endpoints.get(key).is_none_or(|endpoint| endpoint.trouble.is_some()) {
        Err("nova's API does not answer the operator, or is not asked (OSDPL_PROBES)")
    } else {
        Ok(found)
    }
}

fn state((release, hosts): Hosting<'_>, observed: &Observed) -> Vec<(i64, i32)> {
    let own = observed.workloads.iter().filter(|workload| {
        workload.namespace == release.key.namespace
            && workload.release == release.key.name
            && workload.component == hosts.component
    });
    own.map(|workload| (workload.generation, workload.ready)).collect()
}

fn cron<'a>((release, hosts): Hosting<'_>, observed: &'a Observed) -> Option<&'a ObservedCronJob> {
    let own = |cron: &&ObservedCronJob| cron.namespace == release.key.namespace && cron.name == hosts.discovered_by;
    observed.crons.iter().find(own)
}

/// What a person should know.
fn told(heard: &HostObservation) -> Vec<Finding> {
    let answer = match &heard.answer {
        Ok(answer) => answer,
        Err(why) => return vec![warning(format!("nova can't be asked about its hosts: {why}"))],
    };
    let kept = answer.not_deleted.iter().map(|(node, why)| format!("{node} is not forgotten yet: {why}"));
    let is_kept = |host: &&str| {
        answer.not_deleted.keys().any(|node| answer.hosts.host_of_deleted_node(node).is_some_and(|s| s.host == *host))
    };
    let gone = answer.hosts.without_node().filter(|host| !is_kept(host)).map(|host| {
        format!(
            "nova still lists host {host}, which has no node any more and is not heard of; when it is gone for good: osdpl forget {host}"
        )
    });
    kept.chain(gone).map(warning).collect()
}

fn unmappable<'a>(hosts: impl ExactSizeIterator<Item = &'a String>, (release, known): Hosting<'_>) -> Finding {
    let count = hosts.len();
    let names = format_names(hosts.map(String::as_str), count);
    warning(format!(
        "nova lists no hypervisor for {names}: no instance is put there; look at the newest Job of CronJob {}/{} (there is none where manifests.cron_job_cell_setup is false), and at nova-compute's log",
        release.key.namespace, known.discovered_by
    ))
}

fn warning(message: String) -> Finding {
    Finding::new(Level::Warning, "nodes", message)
}
