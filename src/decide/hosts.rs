//! Nova's hosts: new computes are mapped into their cell, and hosts of nodes that a person names are forgotten.

use std::collections::BTreeSet;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Answer as Read_, Read};
use super::spec::names;
use osdpl_core::api::FORGET;
use osdpl_core::catalog::{self, Catalog, Level};
use osdpl_core::desired::{Desired, DesiredRelease, Finding};
use osdpl_core::nodes::several;
use osdpl_core::observed::{CronSeen, Key, Observed};
use osdpl_core::openstack::{Answer, Heard, Mapping, Next, Question, access, next};
use osdpl_core::plan::Policy;
use osdpl_core::status::{Event, forgotten, mapping, not_forgotten};
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
    let asked = names(&draft.snapshot.deployment, FORGET);
    let hosting = hosting(scene);
    let question = hosting.and_then(|hosting| question(draft, hosting, &asked, scene));
    draft.requests.hosts = question.as_ref().ok().cloned();
    let question = match question {
        Ok(question) => question,
        Err(_) if asked.is_empty() => return,
        Err(why) => return draft.findings.push(warning(format!("annotation {FORGET} waits: {why}"))),
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
fn plan_forget(draft: &mut Draft<'_>, question: &Question) {
    if !question.forget.is_empty() {
        let nodes = question.forget.iter().cloned().collect();
        draft.add(Planned::new(Action::ForgetHosts(nodes), format!("annotation {FORGET} names them")));
    }
}

fn question(
    draft: &Draft<'_>,
    hosting: Hosting<'_>,
    asked: &BTreeSet<String>,
    scene: Scene<'_>,
) -> Result<Question, &'static str> {
    let nodes = draft.snapshot.nodes.as_ref().map(|nodes| nodes.keys().cloned().collect::<BTreeSet<_>>());
    let nodes = nodes.ok_or("nodes may not be listed")?;
    Ok(Question {
        access: access(scene.catalog, scene.desired).ok_or("keystone's administrator is not known yet")?,
        state: state(hosting, scene.observed),
        ran: cron(hosting, scene.observed).and_then(|cron| cron.succeeded),
        forget: asked.difference(&nodes).cloned().collect(),
        nodes: Some(nodes),
    })
}

/// Plans a run of the `CronJob` that maps new hosts. One try has one name, so that a restart in between makes no second Job.
fn map(draft: &mut Draft<'_>, hosting: Hosting<'_>, (question, answer): (&Question, &Answer), scene: Scene<'_>) {
    let (release, hosts) = hosting;
    let unmapped = &answer.hosts.unmapped;
    let cron = cron(hosting, scene.observed);
    let running = cron.is_some_and(|cron| cron.running);
    match next(draft.kept.mapping.as_ref(), unmapped, question.ran, running) {
        Next::None => draft.kept.mapping = None,
        Next::Wait => {}
        Next::InVain => draft.findings.push(unmappable(unmapped.keys(), hosting)),
        Next::Run(_) if cron.is_none() => draft.findings.push(unmappable(unmapped.keys(), hosting)),
        Next::Run(wanted) => {
            let job = job(hosts, &wanted);
            let names: Vec<&str> = wanted.hosts.keys().map(String::as_str).collect();
            let reason = format!("new computes: {}", several(names.iter().copied(), names.len()));
            let event = mapping(names.iter().copied(), names.len(), &job);
            let cron = Key::new(&release.key.namespace, &hosts.discovered_by);
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
fn consume_forget(draft: &mut Draft<'_>, (question, answer): (&Question, &Answer), asked: &BTreeSet<String>) {
    let (mut left, mut events) = (Vec::new(), Vec::<Event>::new());
    for node in asked {
        if !question.forget.contains(node) {
            // The annotation was about a node that is gone. If it exists again, a later end of it needs a new one.
            match draft.read(Read::Node(node.clone())).map(|answered| &answered.answer) {
                Some(Read_::Node(true)) => {
                    events.push(not_forgotten(node, "it is a node of the cluster; delete that first"));
                }
                _ => left.push(node.as_str()),
            }
        } else if answer.kept.contains_key(node) {
            left.push(node.as_str());
        } else {
            let unknown = || not_forgotten(node, "nova knows no host of this name");
            events.push(answer.forgotten.get(node).map_or_else(unknown, |found| forgotten(node, found)));
        }
    }
    if events.is_empty() {
        return;
    }
    let value = Some(left.join(",")).filter(|value| !value.is_empty());
    let planned = Planned::new(Action::Annotate([(FORGET, value)].into()), "it had its effect").with_event(events);
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

fn cron<'a>((release, hosts): Hosting<'_>, observed: &'a Observed) -> Option<&'a CronSeen> {
    let own = |cron: &&CronSeen| cron.namespace == release.key.namespace && cron.name == hosts.discovered_by;
    observed.crons.iter().find(own)
}

/// What a person should know of an answer.
fn findings(heard: &Heard) -> Vec<Finding> {
    let answer = match &heard.answer {
        Ok(answer) => answer,
        Err(why) => return vec![warning(format!("nova can't be asked about its hosts: {why}"))],
    };
    let kept = answer.kept.iter().map(|(node, why)| format!("{node} is not forgotten yet: {why}"));
    let is_kept =
        |host: &&str| answer.kept.keys().any(|node| answer.hosts.of_gone(node).is_some_and(|s| s.host == *host));
    let gone = answer.hosts.gone().filter(|host| !is_kept(host)).map(|host| {
        format!(
            "nova still lists host {host}, which has no node any more and is not heard of; when it is gone for good: osdpl forget {host}"
        )
    });
    kept.chain(gone).map(warning).collect()
}

fn unmappable<'a>(hosts: impl ExactSizeIterator<Item = &'a String>, (release, known): Hosting<'_>) -> Finding {
    let count = hosts.len();
    let names = several(hosts.map(String::as_str), count);
    warning(format!(
        "nova lists no hypervisor for {names}: no instance is put there; look at the newest Job of CronJob {}/{} (there is none where manifests.cron_job_cell_setup is false), and at nova-compute's log",
        release.key.namespace, known.discovered_by
    ))
}

fn warning(message: String) -> Finding {
    Finding { level: Level::Warning, field: "nodes".into(), message }
}
