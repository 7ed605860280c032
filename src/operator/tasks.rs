//! The tasks beside reconcile: each watches something in the cluster, keeps what was made of it in small values, and pokes
//! when these have changed. Reconcile asks [`Tasks::observe`] and never waits for the API server.
//!
//! ```text
//! releases  helm's records, by their metadata; their bodies only when something happens
//! health    workloads, Jobs, the pods that are not ready, and what tells why: Services, volume claims, StorageClasses
//! drift     what others did to the objects of releases
//! endpoints what the APIs of services answer
//! hosts     which of Nova's hosts are new, and which have lost their node; forgets those that a person names
//! rollouts  the pods of daemons that are being rolled, while they are
//! watch     one watch that never ends        partial   objects with the few fields that are used
//! shard     what one watch has seen          problems  what keeps the tasks from seeing the cluster
//! show      what a task has found, handed on            seen      what all of them have seen
//! ```
//!
//! Nothing here writes to the API server of Kubernetes.

mod drift;
mod endpoints;
mod health;
mod hosts;
mod partial;
mod problems;
mod releases;
mod rollouts;
mod seen;
mod shard;
mod show;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::Client;
use tokio::sync::{Notify, watch as latest};
use tokio::task::JoinSet;

pub use endpoints::{PROBE_PERIOD, PROBE_TIMEOUT, Probing};
pub use seen::Seen;
pub use watch::Scope;

use osdpl_core::cause::Chain;
use osdpl_core::drift::Tolerated;
use osdpl_core::endpoint::Target;
use osdpl_core::observed::{Daemons, DriftSeen, EndpointSeen, Key, Owner, ReleaseSeen, Rolling};
use osdpl_core::openstack::{Heard, Question};
use osdpl_core::scrub::Scrubber;
use problems::Problems;

/// How long a task that died waits before it starts again.
const RESTART: Duration = Duration::from_secs(2);

/// How long a node may be `NotReady` before it is named. Kubernetes itself waits some 50 s before it calls a node so that is not heard of
/// (`node-monitor-grace-period`), but one that says so itself, as a kubelet that restarts does, is mostly back before this ends.
pub const NODE_GRACE: Duration = Duration::from_secs(40);

/// Tells whether the operator process with this identity lives (the fence; see [`crate::helm`]). It is asked from an async
/// task and must not block for long.
pub type OwnerOf = Arc<dyn Fn(&str) -> Owner + Send + Sync>;

/// What the tasks need to know.
#[derive(Clone)]
pub struct Options {
    /// Where to look.
    pub scope: Scope,
    /// Whether the maker of a record lives.
    pub owner: OwnerOf,
    /// Kinds, as the API server's paths name them, that are not looked at because they may not be read: what they would tell stays unsaid.
    pub without: BTreeSet<&'static str>,
    /// Takes secrets out of logs and of what helm says; the newest one counts.
    pub scrubber: latest::Receiver<Arc<Scrubber>>,
    /// How long a node that is not ready is waited for before it is told; see [`NODE_GRACE`].
    pub node_grace: Duration,
    /// How the APIs of services are asked; `None` where nobody asks them.
    pub probing: Option<Probing>,
    /// What others may write into the objects of releases; `None` where nobody looks after these.
    pub tolerated: Option<Arc<Tolerated>>,
}

/// The running tasks; they end when this is dropped.
pub struct Tasks {
    releases: latest::Receiver<Option<Arc<BTreeMap<Key, ReleaseSeen>>>>,
    health: latest::Receiver<Option<Arc<health::Health>>>,
    shared: health::Shared,
    drift: latest::Receiver<Option<Arc<BTreeMap<Key, DriftSeen>>>>,
    attended: latest::Sender<Option<BTreeSet<Key>>>,
    wanted: latest::Sender<BTreeMap<Key, Target>>,
    endpoints: latest::Receiver<Arc<BTreeMap<Key, EndpointSeen>>>,
    question: latest::Sender<Option<Question>>,
    hosts: latest::Receiver<Option<Arc<Heard>>>,
    rolled: latest::Sender<BTreeSet<Daemons>>,
    rolling: latest::Receiver<Arc<BTreeMap<Daemons, Rolling>>>,
    problems: Problems,
    _running: Spawner,
}

impl Tasks {
    /// Starts the tasks; `poke` is notified whenever [`Tasks::observe`] or [`Tasks::problems`] has something else to tell.
    pub fn spawn(client: &Client, options: &Options, poke: &Arc<Notify>) -> Self {
        let problems = Problems::default();
        let mut spawner = Spawner::default();
        let releases = releases::spawn(&mut spawner, client, options, &problems, Arc::clone(poke));
        let (health, shared) = health::spawn(&mut spawner, client, options, &problems, Arc::clone(poke));
        let attended = latest::Sender::new(None);
        let looker = drift::Looker {
            client: client.clone(),
            options: options.clone(),
            problems: problems.clone(),
            releases: releases.clone(),
            attended: attended.subscribe(),
        };
        let drift = drift::spawn(&mut spawner, looker, Arc::clone(poke));
        let (wanted, endpoints) = endpoints::spawn(&mut spawner, options.probing.as_ref(), &problems, poke);
        let reach = options.probing.as_ref().map(|probing| &probing.reach);
        let (question, hosts) = hosts::spawn(&mut spawner, reach, &problems, poke);
        let (rolled, rolling) = rollouts::spawn(&mut spawner, client, &problems, poke);
        let (board, poke) = (problems.clone(), Arc::clone(poke));
        spawner.spawn("problems", &problems, move || board.clone().follow(Arc::clone(&poke)));
        Self {
            releases,
            health,
            shared,
            drift,
            attended,
            wanted,
            endpoints,
            question,
            hosts,
            rolled,
            rolling,
            problems,
            _running: spawner,
        }
    }

    /// Waits until everything was seen once; before, [`Tasks::observe`] tells nothing, which must not be taken for an empty
    /// cluster. It takes as long as the API server, or the rights, are missing: [`Tasks::problems`] tells.
    pub async fn ready(&self) {
        let (mut releases, mut health, mut drift) = (self.releases.clone(), self.health.clone(), self.drift.clone());
        // The senders live as long as the tasks, and these as long as `self`.
        let _ = releases.wait_for(Option::is_some).await;
        let _ = health.wait_for(Option::is_some).await;
        let _ = drift.wait_for(Option::is_some).await;
    }

    /// Whether everything was seen once.
    pub fn is_ready(&self) -> bool {
        self.releases.borrow().is_some() && self.health.borrow().is_some() && self.drift.borrow().is_some()
    }

    /// What is seen now.
    pub fn observe(&self) -> Seen {
        Seen {
            releases: self.releases.borrow().clone().unwrap_or_default(),
            health: self.health.borrow().clone().unwrap_or_default(),
            drift: self.drift.borrow().clone().unwrap_or_default(),
            endpoints: self.endpoints.borrow().clone(),
            hosts: self.hosts.borrow().clone(),
            rolling: self.rolling.borrow().clone(),
        }
    }

    /// Why a pod is not ready, from it to its root; nothing for one that is, or that is of no release.
    pub fn of_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        self.shared.of_pod(namespace, name)
    }

    /// Looks after the objects of these releases and no others; before it is called, after those of all that are ours.
    pub fn attend(&self, releases: BTreeSet<Key>) {
        self.attended.send_if_modified(|attended| {
            let different = attended.as_ref() != Some(&releases);
            *attended = Some(releases);
            different
        });
    }

    /// Asks these APIs, and no others; what has changed of one has it asked at once.
    pub fn probe(&self, wanted: BTreeMap<Key, Target>) {
        self.wanted.send_if_modified(|known| {
            let different = *known != wanted;
            if different {
                *known = wanted;
            }
            different
        });
    }

    /// Asks Nova this about its hosts, where it differs from what it was asked last; nothing where there is nothing to ask.
    pub fn ask_hosts(&self, question: Option<Question>) {
        self.question.send_if_modified(|known| {
            let different = *known != question;
            *known = question;
            different
        });
    }

    /// Watches the pods of these daemons and no others; it costs nothing where there are none.
    pub fn roll(&self, wanted: BTreeSet<Daemons>) {
        self.rolled.send_if_modified(|known| {
            let different = *known != wanted;
            if different {
                *known = wanted;
            }
            different
        });
    }

    /// Tells when what is seen of workloads, pods and nodes has changed.
    pub fn changes(&self) -> impl futures::Stream<Item = ()> + Send + use<> {
        let changes = self.health.clone();
        futures::stream::unfold(changes, |mut seen| async move { seen.changed().await.ok().map(|()| ((), seen)) })
    }

    /// What keeps the tasks from seeing the cluster, one line each; what they tell may be out of date then.
    pub fn problems(&self) -> Vec<String> {
        self.problems.list()
    }
}

/// Keeps tasks running: one that ends or panics is started again.
#[derive(Default)]
struct Spawner(JoinSet<()>);

impl Spawner {
    fn spawn<F>(&mut self, name: &'static str, problems: &Problems, mut start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let problems = problems.clone();
        self.0.spawn(async move {
            loop {
                // A panic has been printed by the hook already; its text may hold anything.
                let outcome = AssertUnwindSafe(start()).catch_unwind().await;
                let how = if outcome.is_err() { "panicked, see the log" } else { "ended" };
                problems.happened("running", name, format!("the task {how}, and is started again"));
                tokio::time::sleep(RESTART).await;
            }
        });
    }
}
