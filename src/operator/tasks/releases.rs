//! Keeps what helm has recorded.
//!
//! The records' metadata is watched, for all releases. A body is fetched only of releases that are or were ours: at every
//! step while an operation of ours runs (helm rewrites its record at each hook), and once when it has ended.

mod bodies;
mod body;
mod records;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::{Notify, watch};

use bodies::Bodies;
use records::Records;

use super::partial::RecordHead;
use super::problems::Problems;
use super::show::show;
use super::watch::{News, follow};
use super::{Options, OwnerOf, Spawner};
use osdpl_core::observed::{Key, Owner, ReleaseSeen};
use osdpl_core::release::SECRET_TYPE;

/// What all releases recorded.
type Releases = BTreeMap<Key, ReleaseSeen>;

/// How long a burst of changes is gathered before it is looked at.
const BURST: Duration = Duration::from_millis(15);

/// How many bodies are fetched and decoded at a time: each unpacks to megabytes.
const FETCHES: usize = 2;

/// How often it is looked again for what no watch tells: whether another process still lives, and a body that could not be
/// fetched.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The store, and the news that something in it changed.
#[derive(Clone, Default)]
struct Shared {
    records: Arc<Mutex<Records>>,
    changed: Arc<Notify>,
}

impl Shared {
    /// A watch that panicked in here lists anew when it starts again.
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the watches and the task that makes the picture; it is `None` until everything was seen once.
pub(super) fn spawn(
    spawner: &mut Spawner,
    client: &Client,
    options: &Options,
    problems: &Problems,
    poke: Arc<Notify>,
) -> watch::Receiver<Option<Arc<Releases>>> {
    let shared = Shared::default();
    let selector = watcher::Config::default().labels("owner=helm").fields(&format!("type={SECRET_TYPE}"));
    for api in options.scope.apis::<RecordHead>(client) {
        let index = shared.records().add();
        let (shared, selector, noted) = (shared.clone(), selector.clone(), problems.clone());
        spawner.spawn("releases", problems, move || {
            let shared = shared.clone();
            follow(api.clone(), selector.clone(), noted.clone(), move |news| {
                if let News::Event(event) = news
                    && shared.records().take(index, event)
                {
                    shared.changed.notify_one();
                }
            })
        });
    }
    let (sender, receiver) = watch::channel(None);
    let painter = Painter { shared, owner: Arc::clone(&options.owner), sender, poke };
    let (client, scrubber, noted) = (client.clone(), options.scrubber.clone(), problems.clone());
    spawner.spawn("release records", problems, move || {
        painter.clone().run(Bodies::new(client.clone(), scrubber.clone(), noted.clone()))
    });
    receiver
}

#[derive(Clone)]
struct Painter {
    shared: Shared,
    owner: OwnerOf,
    sender: watch::Sender<Option<Arc<Releases>>>,
    poke: Arc<Notify>,
}

impl Painter {
    /// Makes a picture whenever something changed, and pokes when it is another one.
    async fn run(self, mut bodies: Bodies) {
        let mut fetching = FuturesUnordered::new();
        loop {
            let newest = self.shared.records().newest();
            let mut look_again = false;
            if let Some(newest) = newest {
                fetching.extend(bodies.wanted(&newest, FETCHES.saturating_sub(fetching.len())));
                let releases = records::seen(&newest, &bodies, &self.owner);
                look_again = bodies.has_failures() || releases.values().any(may_live_elsewhere);
                // At the start all bodies are awaited, so that a restart shows what was shown before.
                if fetching.is_empty() || self.sender.borrow().is_some() {
                    show(Some(Arc::new(releases)), &self.sender, &self.poke);
                }
            }
            tokio::select! {
                () = self.shared.changed.notified() => tokio::time::sleep(BURST).await,
                Some(fetched) = fetching.next() => bodies.keep(fetched),
                () = tokio::time::sleep(LOOK_AGAIN), if look_again => {}
            }
        }
    }
}

/// Whether another process holds the release: nothing tells when it ends.
fn may_live_elsewhere(release: &ReleaseSeen) -> bool {
    let locked = release.status.starts_with("pending-") || release.status == "uninstalling";
    locked && release.attempt.as_ref().is_some_and(|attempt| matches!(attempt.owner, Owner::Alive | Owner::Unknown))
}
