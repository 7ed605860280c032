//! Asks Nova which of its hosts are new and which have lost their node, and has it forget those that a person calls gone for good: at once when
//! a compute comes or goes, and not again until something changes.
//!
//! The question is set by reconcile ([`crate::tasks::Tasks::ask_hosts`]); a pass never waits for the answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::Spawner;
use super::problems::Problems;
use super::show::show;
use crate::http::{Cloud, Reach};
use osdpl_core::nodes::several;
use osdpl_core::openstack::{Access, Answer, Error, Forgotten, Heard, Hosts, Question, nova};

/// The first pause before Nova is asked again although nothing changed; each is twice as long as the one before.
const AGAIN: Duration = Duration::from_secs(5);

/// The longest pause while Nova has not heard of every compute whose pod is ready, or still hears of one without a node: nova-compute reports every
/// 10 s (`report_interval`) and is missed after 60 s (`service_down_time`). What lasts longer is so on purpose, such as computes outside of the
/// cluster.
const SOON: Duration = Duration::from_secs(80);

/// The longest pause while Nova can't be asked, or keeps a host that a person calls gone.
const SELDOM: Duration = Duration::from_mins(11);

/// Starts the task, where APIs are asked at all.
pub(super) fn spawn(
    spawner: &mut Spawner,
    reach: Option<&Reach>,
    problems: &Problems,
    poke: &Arc<Notify>,
) -> (watch::Sender<Option<Question>>, watch::Receiver<Option<Arc<Heard>>>) {
    let (wish, wanted) = watch::channel(None);
    let (sender, answered) = watch::channel(None);
    if let Some(reach) = reach.cloned() {
        let poke = Arc::clone(poke);
        spawner.spawn("hosts", problems, move || {
            run(Cloud::new(reach.clone()), wanted.clone(), sender.clone(), Arc::clone(&poke))
        });
    }
    (wish, answered)
}

async fn run(
    cloud: Cloud,
    mut wanted: watch::Receiver<Option<Question>>,
    sender: watch::Sender<Option<Arc<Heard>>>,
    poke: Arc<Notify>,
) {
    let mut pause = AGAIN;
    loop {
        let question = wanted.borrow_and_update().clone();
        let mut longest = Duration::ZERO;
        let heard = match question {
            None => None,
            Some(question) => {
                let answer = ask(&cloud, &question).await.map_err(|error| error.to_string());
                longest = patience(&question, &answer);
                Some(Heard { question, answer })
            }
        };
        show(heard.map(Arc::new), &sender, &poke);
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                pause = AGAIN;
            }
            () = tokio::time::sleep(pause), if pause <= longest => pause *= 2,
        }
    }
}

/// Up to which pause it is asked again although nothing changed.
fn patience(question: &Question, answer: &Result<Answer, String>) -> Duration {
    match answer {
        Ok(answer) if !answer.kept.is_empty() => SELDOM,
        Ok(answer) if answer.hosts.lingers() || answer.hosts.up < question.ready() => SOON,
        Ok(_) => Duration::ZERO,
        Err(_) => SELDOM,
    }
}

async fn ask(cloud: &Cloud, question: &Question) -> Result<Answer, Error> {
    let access = &question.access;
    let services = cloud.call(access, &nova::services()).await?.services;
    let hypervisors = cloud.hypervisors(access).await?;
    let mut answer = Answer { hosts: Hosts::of(services, &hypervisors, question.nodes.as_ref()), ..Answer::default() };
    for node in &question.forget {
        let Some(service) = answer.hosts.of_gone(node).cloned() else { continue };
        match forget(cloud, access, &service).await {
            Ok(agents) => {
                answer.hosts.drop_host(&service.host);
                answer.forgotten.insert(node.clone(), Forgotten { host: service.host, agents });
            }
            Err(why) => drop(answer.kept.insert(node.clone(), why)),
        }
    }
    Ok(answer)
}

/// Forgets a host of which nothing is left: nobody hears of it, and no instance is on it.
async fn forget(cloud: &Cloud, access: &Access, service: &nova::Service) -> Result<usize, String> {
    let host = &service.host;
    if service.is_up() {
        return Err(format!("nova still hears of {host}; it misses a host a minute after the last word"));
    }
    let instances = cloud.servers(access, host).await.map_err(|error| error.to_string())?;
    if !instances.is_empty() {
        let names = several(instances.iter().map(|server| server.name.as_str()), instances.len());
        return Err(format!("nova has instances on {host}: {names}; evacuate or delete them"));
    }
    cloud.forget_host(access, host, &service.id).await.map_err(|error| error.to_string())
}
