//! Asks Nova which of its hosts are new and which have lost their node, and has it forget those that a person calls gone for good: at once when
//! a compute comes or goes, and not again until something changes.
//!
//! The question is set by reconcile ([`crate::tasks::Tasks::ask_hosts`]); a pass never waits for the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::Spawner;
use super::problems::Problems;
use crate::http::{Cloud, Reach};
use crate::openstack::{Answered, Error, Hosts, Question, nova};

/// The first pause before Nova is asked again: it did not answer, or has not heard of every compute whose pod is ready. Nova-compute reports
/// every 10 s (`report_interval`), and at once when it starts.
const AGAIN: Duration = Duration::from_secs(5);

/// The longest pause.
const SELDOM: Duration = Duration::from_mins(15);

/// Starts the task, where APIs are asked at all.
pub(super) fn spawn(
    spawner: &mut Spawner,
    reach: Option<&Reach>,
    problems: &Problems,
    poke: &Arc<Notify>,
) -> (watch::Sender<Option<Question>>, watch::Receiver<Option<Arc<Answered>>>) {
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
    sender: watch::Sender<Option<Arc<Answered>>>,
    poke: Arc<Notify>,
) {
    let mut pause = AGAIN;
    loop {
        let question = wanted.borrow_and_update().clone();
        let again = match &question {
            None => None,
            Some(question) => match ask(&cloud, question).await {
                Ok(answer) => {
                    let again = answer.hosts.up < question.ready() || !answer.kept.is_empty();
                    show(answer, &sender, &poke);
                    again.then_some(pause)
                }
                Err(error) => {
                    tracing::info!(%error, "which hosts are new could not be asked");
                    Some(pause)
                }
            },
        };
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                pause = AGAIN;
            }
            () = tokio::time::sleep(pause), if again.is_some() => pause = (pause * 2).min(SELDOM),
        }
    }
}

async fn ask(cloud: &Cloud, question: &Question) -> Result<Answered, Error> {
    let access = &question.access;
    let services = cloud.call(access, &nova::services()).await?.services;
    let hypervisors = cloud.call(access, &nova::hypervisors()).await?.hypervisors;
    let mut hosts = Hosts::of(&services, &hypervisors, question.nodes.as_ref());
    let (mut kept, mut forgotten) = (BTreeMap::new(), BTreeMap::new());
    let asked: Vec<(String, String)> =
        hosts.to_forget(&question.forget).map(|(host, id)| (host.clone(), id.clone())).collect();
    for (host, id) in asked {
        match cloud.forget_host(access, &host, &id).await {
            Ok(agents) => {
                hosts.gone.remove(&host);
                forgotten.insert(host, agents);
            }
            Err(error) => drop(kept.insert(host, error.to_string())),
        }
    }
    Ok(Answered { question: question.clone(), hosts, kept, forgotten })
}

fn show(answer: Answered, sender: &watch::Sender<Option<Arc<Answered>>>, poke: &Notify) {
    let different = sender.send_if_modified(|shown| {
        let different = shown.as_deref() != Some(&answer);
        if different {
            *shown = Some(Arc::new(answer));
        }
        different
    });
    if different {
        poke.notify_one();
    }
}
