//! The pods of daemons that are being rolled, and the revisions of their templates: watched as long as that goes on and no longer. The wish is
//! set by reconcile ([`crate::tasks::Tasks::roll`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::Spawner;
use super::partial::{ControllerRevision, Partial, Pod};
use super::problems::Problems;
use super::shard::Shard;
use super::show::show;
use super::watch::follow;
use osdpl_core::health::pod;
use osdpl_core::observed::{DaemonPod, Daemons, Rolling};

/// How long a burst of changes is gathered.
const BURST: Duration = Duration::from_millis(15);

/// What reconcile wants to be watched.
pub(super) type Wanted = BTreeSet<Daemons>;

/// What was seen, of those of which everything was listed.
pub(super) type Found = BTreeMap<Daemons, Rolling>;

/// A revision of a `DaemonSet`'s template.
#[derive(Debug, PartialEq)]
struct Revision {
    /// The `DaemonSet`'s uid.
    set: String,
    hash: String,
    /// The higher the newer; one that is taken up again gets a new one.
    number: i64,
}

#[derive(Default)]
struct Seen {
    pods: Shard<DaemonPod>,
    revisions: Shard<Revision>,
}

/// What one pair of watches sees; they end when this is dropped.
struct Watched {
    seen: Arc<Mutex<Seen>>,
    watches: JoinSet<()>,
}

/// Starts the task.
pub(super) fn spawn(
    spawner: &mut Spawner,
    client: &Client,
    problems: &Problems,
    poke: &Arc<Notify>,
) -> (watch::Sender<Wanted>, watch::Receiver<Arc<Found>>) {
    let (wish, wanted) = watch::channel(Wanted::new());
    let (sender, found) = watch::channel(Arc::default());
    let (client, board, poke) = (client.clone(), problems.clone(), Arc::clone(poke));
    spawner.spawn("rollouts", problems, move || {
        run(client.clone(), board.clone(), wanted.clone(), sender.clone(), Arc::clone(&poke))
    });
    (wish, found)
}

async fn run(
    client: Client,
    problems: Problems,
    mut wanted: watch::Receiver<Wanted>,
    sender: watch::Sender<Arc<Found>>,
    poke: Arc<Notify>,
) {
    let changed = Arc::new(Notify::new());
    let mut watched: BTreeMap<Daemons, Watched> = BTreeMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        watched.retain(|daemons, _| now.contains(daemons));
        for daemons in now {
            watched.entry(daemons).or_insert_with_key(|daemons| Watched::new(daemons, &client, &problems, &changed));
        }
        // One that panicked: the task starts again, and lists anew.
        if watched.values_mut().any(|watched| watched.watches.try_join_next().is_some()) {
            return;
        }
        let found = watched.iter().filter_map(|(daemons, watched)| Some((daemons.clone(), watched.found()?)));
        show(Arc::new(found.collect()), &sender, &poke);
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = changed.notified() => tokio::time::sleep(BURST).await,
        }
    }
}

impl Watched {
    fn new(
        Daemons { namespace, component }: &Daemons,
        client: &Client,
        problems: &Problems,
        changed: &Arc<Notify>,
    ) -> Self {
        let (seen, mut watches) = (Arc::<Mutex<Seen>>::default(), JoinSet::new());
        let labels = format!("application={},component={}", component.application, component.component);
        let selector = watcher::Config::default().labels(&labels);
        let (own, news) = (Arc::clone(&seen), Arc::clone(changed));
        let pods: Api<Partial<Pod>> = Api::namespaced(client.clone(), namespace);
        watches.spawn(follow(pods, selector.clone(), problems.clone(), move |event| {
            let read = |pod: &Partial<Pod>| pod::daemon(&pod.metadata, &pod.spec, &pod.status);
            if lock(&own).pods.take(event, read) {
                news.notify_one();
            }
        }));
        let (own, news) = (Arc::clone(&seen), Arc::clone(changed));
        let revisions: Api<Partial<ControllerRevision>> = Api::namespaced(client.clone(), namespace);
        watches.spawn(follow(revisions, selector, problems.clone(), move |event| {
            if lock(&own).revisions.take(event, revision) {
                news.notify_one();
            }
        }));
        Self { seen, watches }
    }

    /// What is seen, once everything was listed.
    fn found(&self) -> Option<Rolling> {
        let seen = lock(&self.seen);
        if !seen.pods.is_listed() || !seen.revisions.is_listed() {
            return None;
        }
        let mut newest: BTreeMap<&str, &Revision> = BTreeMap::new();
        for (_, revision) in seen.revisions.entries() {
            let known = newest.entry(&revision.set).or_insert(revision);
            if known.number < revision.number {
                *known = revision;
            }
        }
        let revisions = newest.into_iter().map(|(set, revision)| (set.to_owned(), revision.hash.clone()));
        Some(Rolling {
            pods: seen.pods.entries().map(|(_, pod)| pod.clone()).collect(),
            revisions: revisions.collect(),
        })
    }
}

/// Whoever panicked in here left whole values.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn revision(object: &Partial<ControllerRevision>) -> Option<Revision> {
    let metadata = &object.metadata;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let hash = metadata.labels.as_ref()?.get(pod::REVISION)?.clone();
    Some(Revision { set: controller.uid.clone(), hash, number: object.revision })
}
