//! Asks the APIs of services for an answer: at once after a change, then calmly.
//!
//! The wish is set by reconcile ([`crate::tasks::Tasks::probe`]); a pass never waits for an answer. What cannot be connected to is not judged.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when to ask again")]

mod board;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};

use board::{Board, Done, Due, Judgement};

use super::Spawner;
use super::problems::Problems;
use super::show::show;
use crate::http::{Http, Reach};
use osdpl_core::endpoint::{Answer, Login, Target, Types, Url, trouble, types};
use osdpl_core::observed::{EndpointSeen, Key};

/// What Keystone answers with a token (Identity API v3).
const CREATED: u16 = 201;

/// How many are asked at a time.
const AT_ONCE: usize = 2;

/// How the APIs of services are asked.
#[derive(Clone, Debug)]
pub struct Probing {
    /// How they are reached.
    pub reach: Reach,
    /// How often one that answers well is asked.
    pub period: Duration,
}

/// How often an API that answers well is asked: often enough to hear of a fault within a minute, and nothing beside what users ask.
pub const PROBE_PERIOD: Duration = Duration::from_secs(45);

/// How long an API may take: upstream's own readiness probes allow 15 s and less, and a client waits no longer than a person.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What reconcile wants to be asked.
pub(super) type Wanted = BTreeMap<Key, Target>;

/// What was found.
pub(super) type Found = BTreeMap<Key, EndpointSeen>;

/// Starts the task, where it is wanted.
pub(super) fn spawn(
    spawner: &mut Spawner,
    probing: Option<&Probing>,
    problems: &Problems,
    poke: &Arc<Notify>,
) -> (watch::Sender<Wanted>, watch::Receiver<Arc<Found>>) {
    let (wish, wanted) = watch::channel(Wanted::new());
    let (sender, found) = watch::channel(Arc::default());
    if let Some(probing) = probing.cloned() {
        let poke = Arc::clone(poke);
        spawner.spawn("endpoints", problems, move || {
            run(probing.clone(), wanted.clone(), sender.clone(), Arc::clone(&poke))
        });
    }
    (wish, found)
}

async fn run(
    probing: Probing,
    mut wanted: watch::Receiver<Wanted>,
    sender: watch::Sender<Arc<Found>>,
    poke: Arc<Notify>,
) {
    let http = Arc::new(Http::new(probing.reach.clone()));
    let mut board = Board::new(probing.period);
    let mut asking = FuturesUnordered::new();
    loop {
        board.want(&wanted.borrow_and_update(), Instant::now());
        let due = board.due(Instant::now(), AT_ONCE.saturating_sub(asking.len()));
        asking.extend(due.into_iter().map(|due| ask(Arc::clone(&http), due)));
        show(Arc::new(board.found()), &sender, &poke);
        let next = board.next();
        let pause = next.map(|next| next.saturating_duration_since(Instant::now())).unwrap_or_default();
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            Some(done) = asking.next() => board.keep(done, Instant::now()),
            () = tokio::time::sleep(pause), if next.is_some() && asking.len() < AT_ONCE => {}
        }
    }
}

/// Asks one; of Keystone also for a token where the catalogue is wanted.
async fn ask(http: Arc<Http>, Due { key, target, catalogue }: Due) -> Done {
    let (judgement, types) = match http.get(&target.url).await {
        None => (Judgement::Unreachable, None),
        Some(answer) => match (trouble(&target, &answer), target.login.as_ref().filter(|_| catalogue)) {
            (Some(wrong), _) => (Judgement::Bad(wrong), None),
            (None, None) => (Judgement::Well, None),
            (None, Some(login)) => log_in(&http, &target.url, login).await,
        },
    };
    Done { key, target, judgement, types }
}

/// Asks Keystone for a token, and for the catalogue that comes with it.
async fn log_in(http: &Http, url: &Url, login: &Login) -> (Judgement, Option<Types>) {
    let url = Url { path: format!("{}/auth/tokens", url.path.trim_end_matches('/')), ..url.clone() };
    let Some(answer) = http.post(&url, login.body()).await else { return (Judgement::Unreachable, None) };
    if let Some(wrong) = answer.refused(&[CREATED]) {
        return (Judgement::Bad(format!("POST {url}, as the administrator: {wrong}")), None);
    }
    match &answer {
        Answer::Status { body, .. } => (Judgement::Well, types(body)),
        Answer::Silence(_) | Answer::Certificate(_) | Answer::Broken(_) => (Judgement::Well, None),
    }
}
