//! Nova's hosts: new computes are mapped into their cell, and hosts of nodes that a person names are forgotten.

use std::collections::BTreeSet;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Answer as Read_, Read};
use super::spec::names;
use osdpl_core::api::FORGET_NODES_ANNOTATION;
use osdpl_core::catalog::{self, Catalog, Level};
use osdpl_core::desired::{Desired, DesiredRelease, Finding};
use osdpl_core::nodes::format_names;
use osdpl_core::observed::{Observed, ObservedCronJob, ReleaseKey};
use osdpl_core::openstack::{HostObservation, HostQuery, HostResponse, Mapping, Next, access, next};
use osdpl_core::plan::Policy;
use osdpl_core::status::{Event, host_deleted_event, host_not_deleted_event, mapping_hosts_event};
use osdpl_values::digest;

/// The release that has hosts, and what the catalogue knows of them.
type Hosting<'a> = (&'a DesiredRelease, &'a catalog::Hosts);

/// What hosts are decided from.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub catalog: &'a Catalog,
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    pub policy: &'a Policy,
    pub refused: bool,
}

/// Asks Nova about its hosts where its API answers, and plans what follows. Problems are reported, and hold up nothing else.
pub fn hosts(draft: &mut Draft<'_>, scene: Scene<'_>) {
    let asked = names(&draft.snapshot.deployment, FORGET_NODES_ANNOTATION);
    let hosting = hosting(scene);
    let question = hosting.and_then(|hosting| question(draft, hosting, &asked, scene));
    draft.requests.hosts = question.as_ref().ok().cloned();
    let question = match question {
        Ok(question) => question,
        Err(_) if asked.is_empty() => return,
        Err(why) => return draft.findings.push(warning(format!("annotation {FORGET_NODES_ANNOTATION} waits: {why}"))),
    };
    let Some(heard) = draft.snapshot.hosts.clone() else {
        return plan_forget(draft, &question);
    };
    draft.findings.extend(findings(&heard));
    // The answer to another question is reported, but nothing is done for it any more.
    if heard.question != question {
        return plan_forget(draft, &question);
    }
    if let (Ok(answer), Ok(hosting)) = (&heard.answer, hosting) {
        consume_forget(draft, (&question, answer), &asked);
        map(draft, hosting, (&question, answer), scene);
    }
}

/// Plans what the question has Nova forget. The task that asks Nova does it, and its answer says what came of it.
fn plan_forget(draft: &mut Draft<'_>, question: &HostQuery) {
    if !question.removed_nodes.is_empty() {
        let nodes = question.removed_nodes.iter().cloned().collect();
        draft.add(Planned::new(Action::ForgetHosts(nodes), format!("annotation {FORGET_NODES_ANNOTATION} names them")));
    }
}

fn question(
    draft: &Draft<'_>,
    hosting: Hosting<'_>,
    asked: &BTreeSet<String>,
    scene: Scene<'_>,
) -> Result<HostQuery, &'static str> {
    let nodes = draft.snapshot.nodes.as_ref().map(|nodes| nodes.keys().cloned().collect::<BTreeSet<_>>());
    let nodes = nodes.ok_or("nodes may not be listed")?;
    Ok(HostQuery {
        access: access(scene.catalog, scene.desired).ok_or("keystone's administrator is not known yet")?,
        state: state(hosting, scene.observed),
        last_success: cron(hosting, scene.observed).and_then(|cron| cron.succeeded),
        removed_nodes: asked.difference(&nodes).cloned().collect(),
        nodes: Some(nodes),
    })
}

/// Plans a run of the `CronJob` that maps new hosts. One try has one name, so that a restart in between makes no second Job.
fn map(draft: &mut Draft<'_>, hosting: Hosting<'_>, (question, answer): (&HostQuery, &HostResponse), scene: Scene<'_>) {
    let (release, hosts) = hosting;
    let unmapped = &answer.hosts.unmapped;
    let cron = cron(hosting, scene.observed);
    let running = cron.is_some_and(|cron| cron.running);
    match next(draft.kept.mapping.as_ref(), unmapped, question.last_success, running) {
        Next::None => draft.kept.mapping = None,
        Next::Wait => {}
        Next::InVain => draft.findings.push(unmappable(unmapped.keys(), hosting)),
        Next::Run(_) if cron.is_none() => draft.findings.push(unmappable(unmapped.keys(), hosting)),
        Next::Run(wanted) => {
            let job = job(hosts, &wanted);
            let names: Vec<&str> = wanted.hosts.keys().map(String::as_str).collect();
            let reason = format!("new computes: {}", format_names(names.iter().copied(), names.len()));
            let event = mapping_hosts_event(names.iter().copied(), names.len(), &job);
            let cron = ReleaseKey::new(&release.key.namespace, &hosts.discovered_by);
            let action = Action::RunCron { cron, job, mapping: wanted };
            let refusal = draft.attempt(Planned::new(action, reason).with_event([event]));
            draft.problems.extend(refusal.map(|refusal| refusal.message.clone()));
        }
    }
}

fn job(hosts: &catalog::Hosts, wanted: &Mapping) -> String {
    let parts = wanted.hosts.iter().flat_map(|(host, id)| [host.as_str(), id.as_str()]);
    let hash = digest(parts.chain([wanted.tries.to_string().as_str()]));
    format!("{}-{}", hosts.discovered_by, &hash[..8])
}

/// Plans to take the nodes out of the annotation for which it has had its effect, or can have none.
fn consume_forget(draft: &mut Draft<'_>, (question, answer): (&HostQuery, &HostResponse), asked: &BTreeSet<String>) {
    let (mut left, mut events) = (Vec::new(), Vec::<Event>::new());
    for node in asked {
        if !question.removed_nodes.contains(node) {
            // The annotation was about a node that is gone. If it exists again, a later end of it needs a new one.
            match draft.read(Read::Node(node.clone())).map(|answered| &answered.answer) {
                Some(Read_::Node(true)) => {
                    events.push(host_not_deleted_event(node, "it is a node of the cluster; delete that first"));
                }
                _ => left.push(node.as_str()),
            }
        } else if answer.not_deleted.contains_key(node) {
            left.push(node.as_str());
        } else {
            let unknown = || host_not_deleted_event(node, "nova knows no host of this name");
            events.push(answer.forgotten.get(node).map_or_else(unknown, |found| host_deleted_event(node, found)));
        }
    }
    if events.is_empty() {
        return;
    }
    let value = Some(left.join(",")).filter(|value| !value.is_empty());
    let planned = Planned::new(Action::Annotate([(FORGET_NODES_ANNOTATION, value)].into()), "it had its effect")
        .with_event(events);
    let refusal = draft.attempt(planned);
    draft.problems.extend(refusal.map(|refusal| refusal.message.clone()));
}

/// The release with hosts, where helm is not at it and its API answers; else why not.
fn hosting(scene: Scene<'_>) -> Result<Hosting<'_>, &'static str> {
    let Scene { catalog, desired, observed, policy, refused } = scene;
    let of = |(name, release)| Some((release, catalog.release(name)?.1.hosts.as_ref()?));
    let found: Hosting<'_> = desired
        .releases
        .iter()
        .find_map(|(name, release)| of((name, release)))
        .ok_or("no service of this cloud has hosts")?;
    let key = &found.0.key;
    if refused {
        Err("the spec is refused")
    } else if policy.paused || found.0.paused {
        Err("the cloud, or nova, is paused")
    } else if observed.running.contains_key(key) {
        Err("helm is at nova")
    } else if observed.endpoints.get(key).is_none_or(|endpoint| endpoint.trouble.is_some()) {
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

/// What a person should know of an answer.
fn findings(heard: &HostObservation) -> Vec<Finding> {
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
    Finding { level: Level::Warning, field: "nodes".into(), message }
}
