//! New computes are mapped into their cell at once, and hosts of nodes that a person calls gone for good are forgotten.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::gather::{Wish, names};
use super::memory::Memory;
use crate::api::{FORGET, OpenStackDeployment};
use crate::catalog::{self, Level};
use crate::cluster::Error;
use crate::desired::{DesiredRelease, Finding};
use crate::nodes::several;
use crate::observed::{CronSeen, Observed};
use crate::openstack::{Answered, Question, access, is_of};
use crate::status::{Event, forgotten, mapping};
use crate::values::digest;

/// Hosts for which the `CronJob` was run, and when one of its runs had last ended well before.
pub type Mapping = (BTreeSet<String>, Option<Timestamp>);

/// The release that has hosts, and what makes new ones known.
type Discovering<'a> = (&'a DesiredRelease, &'a catalog::Hosts);

impl Context {
    /// Has Nova asked about its hosts where its API answers, and does what follows from the answer.
    pub(super) async fn hosts(
        &self,
        deployment: &OpenStackDeployment,
        wish: &mut Wish,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let asked = names(deployment, FORGET);
        let desired = std::sync::Arc::clone(&wish.desired);
        let discovering = self.discovering(&desired, wish);
        let question = discovering.and_then(|found| self.question(found, &asked, wish));
        self.tasks.ask_hosts(question.clone());
        let (Some(question), Some(found)) = (question, discovering) else { return Ok(()) };
        let Some(answer) = self.tasks.observe().hosts else { return Ok(()) };
        wish.findings.extend(told(&answer, &asked));
        // What was answered to another question tells, but nothing is done for it any more.
        if answer.question != question || wish.policy.paused || found.0.paused {
            return Ok(());
        }
        self.spend_forget(deployment, &answer, &asked).await?;
        let unmapped = &answer.hosts.unmapped;
        match &memory.mapping {
            _ if unmapped.is_empty() => memory.mapping = None,
            Some((known, ran)) if known == unmapped => {
                let in_vain = *ran != question.ran;
                wish.findings.extend(in_vain.then(|| unmappable(unmapped, &found.1.discovered_by)));
            }
            _ => {
                self.map(deployment, found, unmapped).await?;
                memory.mapping = Some((unmapped.clone(), question.ran));
            }
        }
        Ok(())
    }

    /// The release with hosts, where helm is not at it and its API answers.
    fn discovering<'a>(&'a self, desired: &'a crate::desired::Desired, wish: &Wish) -> Option<Discovering<'a>> {
        let of = |(name, release): (&String, &'a DesiredRelease)| {
            Some((release, self.catalog.release(name)?.1.hosts.as_ref()?))
        };
        let (release, hosts_of) = desired.releases.iter().find_map(of).filter(|_| !wish.refused)?;
        let answers = wish.observed.endpoints.get(&release.key).is_some_and(|endpoint| endpoint.trouble.is_none());
        (answers && !wish.observed.running.contains_key(&release.key)).then_some((release, hosts_of))
    }

    fn question(&self, found: Discovering<'_>, asked: &BTreeSet<String>, wish: &Wish) -> Option<Question> {
        Some(Question {
            access: access(&self.catalog, &wish.desired)?,
            state: state(found, &wish.observed),
            ran: ran(found, &wish.observed),
            nodes: self.tasks.observe().nodes().map(|nodes| nodes.keys().cloned().collect()),
            forget: asked.clone(),
        })
    }

    /// Runs what makes new hosts known. One name for the same hosts, so that a restart in between makes no second Job.
    async fn map(
        &self,
        deployment: &OpenStackDeployment,
        (release, hosts_of): Discovering<'_>,
        hosts: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let (namespace, cron) = (&release.key.namespace, &hosts_of.discovered_by);
        let hash = digest(hosts.iter().map(String::as_str));
        let job = format!("{cron}-{}", &hash[..8]);
        if self.cluster.run_cron(namespace, cron, &job).await? {
            tracing::info!(?hosts, job, "new computes are mapped");
            self.cluster.tell(deployment, vec![mapping(hosts, &job)]).await;
        }
        Ok(())
    }

    /// Takes the nodes out of the annotation of which nothing is known any more.
    async fn spend_forget(
        &self,
        deployment: &OpenStackDeployment,
        answer: &Answered,
        asked: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let stays = |node: &&String| is_node(answer, node) || answer.hosts.gone.keys().any(|host| is_of(host, node));
        let left: Vec<&str> = asked.iter().filter(stays).map(String::as_str).collect();
        if left.len() == asked.len() {
            return Ok(());
        }
        let events: Vec<Event> = answer.forgotten.iter().map(|(host, agents)| forgotten(host, *agents)).collect();
        let value = Some(left.join(",")).filter(|value| !value.is_empty());
        self.cluster.annotate(deployment, FORGET, value).await?;
        self.cluster.tell(deployment, events).await;
        Ok(())
    }
}

fn is_node(answer: &Answered, node: &str) -> bool {
    answer.question.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
}

fn state((release, hosts_of): Discovering<'_>, observed: &Observed) -> Vec<(i64, i32)> {
    let own = observed.workloads.iter().filter(|workload| {
        workload.namespace == release.key.namespace
            && workload.release == release.key.name
            && workload.component == hosts_of.component
    });
    own.map(|workload| (workload.generation, workload.ready)).collect()
}

fn ran((release, hosts_of): Discovering<'_>, observed: &Observed) -> Option<Timestamp> {
    let own = |cron: &&CronSeen| cron.namespace == release.key.namespace && cron.name == hosts_of.discovered_by;
    observed.crons.iter().find(own)?.succeeded
}

/// What a person should know of hosts whose node is gone, and of nodes that are asked to be forgotten and are there.
fn told(answer: &Answered, asked: &BTreeSet<String>) -> Vec<Finding> {
    let of_host = |host: &String| match answer.kept.get(host) {
        Some(why) => format!("host {host} can't be forgotten: {why}; it is tried again"),
        None => format!(
            "nova still lists host {host}, which has no node any more and is not heard of; when it is gone for good: osdpl forget {}",
            host.split('.').next().unwrap_or(host)
        ),
    };
    let of_node = |node: &String| {
        format!(
            "annotation {FORGET} names {node}, which is a node of the cluster: it is forgotten once that is deleted (kubectl delete node {node})"
        )
    };
    let there = |node: &&String| answer.question.nodes.is_some() && is_node(answer, node);
    let all = answer.hosts.gone.keys().map(of_host).chain(asked.iter().filter(there).map(of_node));
    all.map(warning).collect()
}

fn unmappable(hosts: &BTreeSet<String>, cron: &str) -> Finding {
    let names = several(hosts.iter().map(String::as_str), hosts.len());
    warning(format!(
        "nova maps {names} into no cell, although CronJob {cron} has run for it: no instance is put there; look at the log of its newest Job"
    ))
}

fn warning(message: String) -> Finding {
    Finding { level: Level::Warning, field: "nodes".into(), message }
}
