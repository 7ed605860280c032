//! Derives the state of each release from helm's release records.
//!
//! The task watches the metadata of the records of all releases. It fetches the body of a record, which is the field
//! `data` of the record's Secret, only if the record has osdpl's labels and is in a namespace of the cloud. osdpl's
//! labels alone do not prove that osdpl made the record, because anyone who may write Secrets in some other namespace
//! can set the labels there. During an install or upgrade, helm changes the record at each hook. The task fetches the
//! body after each such change.

mod bodies;
mod body;
mod namespaces;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use kube::runtime::watcher;
use osdpl_values::CollectSorted;
use tokio::sync::{Notify, watch};

use bodies::Bodies;
pub(crate) use namespaces::named_namespaces;
use records::{Newest, Records, is_locked};

use super::partial::RecordHead;
use super::problems::Problems;
use super::watch::{Update, apis, follow};
use super::{LivenessCheck, Options, Spawner, publish};
use osdpl_core::observed::{Attempt, Liveness, ObservedRelease, RecordBody, ReleaseKey};
use osdpl_core::release::{RecordMeta, RevisionOrigin, SECRET_TYPE, Status};

/// The observed state of each release, by the release's namespace and name.
type Releases = BTreeMap<ReleaseKey, ObservedRelease>;

/// The time for which the task collects changes of release records before it evaluates them together.
const DEBOUNCE: Duration = Duration::from_millis(15);

/// The maximum number of record bodies that the task fetches and decodes concurrently. Each body takes megabytes of
/// memory when it is decompressed.
const FETCHES: usize = 2;

/// The interval at which the task repeats the work that no watch triggers: it checks whether the operator process that
/// made a pending record is still alive, and retries failed reads of bodies.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The metadata of the watched records, and the notification that the metadata changed. After a restart of the
/// operator, the watches list the records again.
#[derive(Clone, Default)]
struct Shared {
    records: Arc<Mutex<Records>>,
    changed: Arc<Notify>,
}

impl Shared {
    /// Locks the records, even if a watch panicked while it held the lock. A panicked watch restarts and lists all its
    /// records again, so the records become complete again.
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pending records, each with its resourceVersion and the time when this process saw the last change.
///
/// osdpl keeps them, because it measures by its own clock how long a record has not changed, and records do not contain
/// this time. After a restart, osdpl measures from zero: if it does not know whether the helm process of a record still
/// runs, it waits for the full time again before it unlocks the record.
#[derive(Clone, Default)]
pub(super) struct PendingRecords(Arc<Mutex<PendingByRelease>>);

type PendingByRelease = BTreeMap<ReleaseKey, (Option<String>, Instant)>;

impl PendingRecords {
    fn update(&self, newest: &BTreeMap<ReleaseKey, Newest>, now: Instant) {
        let mut known = self.records();
        let pending = newest.iter().filter_map(|(key, newest)| {
            let meta = newest.meta.as_ref().filter(|meta| meta.status.is_pending())?;
            let before = known.get(key).filter(|(version, _)| *version == meta.resource_version);
            Some((key.clone(), (meta.resource_version.clone(), before.map_or(now, |(_, since)| *since))))
        });
        let pending = pending.collect_map();
        *known = pending;
    }

    /// Returns how long each pending record has not changed.
    pub(super) fn unchanged(&self) -> BTreeMap<ReleaseKey, Duration> {
        let now = now();
        self.records()
            .iter()
            .map(|(key, (_, since))| (key.clone(), now.saturating_duration_since(*since)))
            .collect_map()
    }

    fn records(&self) -> MutexGuard<'_, PendingByRelease> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(clippy::disallowed_methods, reason = "measures how long records do not change")]
fn now() -> Instant {
    Instant::now()
}

/// Starts the watches on records and the releases task; returns a receiver of the releases' state, and the pending
/// records.
///
/// The state is `None` until the task has listed all records and read their bodies.
pub(super) fn spawn(
    spawner: &mut Spawner,
    client: &Client,
    options: &Options,
    problems: &Problems,
    namespaces: watch::Receiver<Option<BTreeSet<String>>>,
    trigger: Arc<Notify>,
) -> (watch::Receiver<Option<Arc<Releases>>>, PendingRecords) {
    let (shared, pending) = (Shared::default(), PendingRecords::default());
    let selector = watcher::Config::default().labels("owner=helm").fields(&format!("type={SECRET_TYPE}"));
    for api in apis::<RecordHead>(&options.scope, client) {
        let index = shared.records().add();
        let (shared, selector, own_problems) = (shared.clone(), selector.clone(), problems.clone());
        spawner.spawn("releases", problems, move || {
            let shared = shared.clone();
            follow(api.clone(), selector.clone(), own_problems.clone(), move |update| {
                if let Update::Event(event) = update
                    && shared.records().take(index, event)
                {
                    shared.changed.notify_one();
                }
            })
        });
    }
    let (sender, receiver) = watch::channel(None);
    let owner = Arc::clone(&options.liveness);
    let task = ReleaseTask { shared, pending: pending.clone(), owner, namespaces, sender, trigger };
    let (client, scrubber, own_problems) = (client.clone(), options.scrubber.clone(), problems.clone());
    let scope = options.scope.clone();
    spawner.spawn("release records", problems, move || {
        let (client, scope, problems) = (client.clone(), scope.clone(), own_problems.clone());
        let (task, bodies) = (task.clone(), Bodies::new(client.clone(), scrubber.clone(), problems.clone()));
        async move { task.run(bodies, namespaces::initial(&client, scope, &problems).await).await }
    });
    (receiver, pending)
}

#[derive(Clone)]
struct ReleaseTask {
    shared: Shared,
    pending: PendingRecords,
    owner: LivenessCheck,
    /// The namespaces of the cloud; `None` before the first plan.
    namespaces: watch::Receiver<Option<BTreeSet<String>>>,
    sender: watch::Sender<Option<Arc<Releases>>>,
    trigger: Arc<Notify>,
}

impl ReleaseTask {
    /// Derives the state of all releases after each change. Triggers a pass when this state differs from the previous
    /// state.
    ///
    /// Until the first plan names the namespaces of the cloud, the task uses the namespaces in `initial`.
    async fn run(mut self, mut bodies: Bodies, initial: BTreeSet<String>) {
        let mut fetching = FuturesUnordered::new();
        loop {
            let newest = self.shared.records().newest();
            let mut recheck = false;
            if let Some(newest) = newest {
                self.pending.update(&newest, now());
                let namespaces = self.namespaces.borrow_and_update().clone();
                let namespaces = namespaces.as_ref().unwrap_or(&initial);
                fetching.extend(bodies.begin_fetches(&newest, namespaces, FETCHES.saturating_sub(fetching.len())));
                let releases = derive_state(&newest, &bodies, &self.owner);
                recheck = bodies.has_failures() || releases.values().any(may_live_elsewhere);
                // Publish the first result only after the task has read the bodies of all records. Otherwise, the
                // status would lose the data from the bodies whenever the operator restarts.
                if fetching.is_empty() || self.sender.borrow().is_some() {
                    publish(Some(Arc::new(releases)), &self.sender, &self.trigger);
                }
            }
            tokio::select! {
                () = self.shared.changed.notified() => tokio::time::sleep(DEBOUNCE).await,
                Some(fetched) = fetching.next() => bodies.store_fetched(fetched),
                Ok(()) = self.namespaces.changed() => {}
                () = tokio::time::sleep(RECHECK_INTERVAL), if recheck => {}
            }
        }
    }
}

/// Whether the newest record of the release is pending or `uninstalling`, and a helm process of another operator
/// process could still be working on the release.
///
/// No watch reports when that helm process ends, so the task must repeat the check.
fn may_live_elsewhere(release: &ObservedRelease) -> bool {
    let locked = release.status.is_pending() || release.status == Status::Uninstalling;
    locked
        && release.attempt.as_ref().is_some_and(|attempt| matches!(attempt.owner, Liveness::Alive | Liveness::Unknown))
}

/// Derives the state of all releases from their records, and asks `owner` whether the operator processes that made the
/// records are alive.
fn derive_state(newest: &BTreeMap<ReleaseKey, Newest>, bodies: &Bodies, owner: &LivenessCheck) -> Releases {
    let mut owners = BTreeMap::new();
    let mut owner_of = |instance: &str| *owners.entry(instance.to_owned()).or_insert_with(|| owner(instance));
    newest
        .iter()
        .map(|(key, newest)| {
            let mut release = match &newest.meta {
                Some(meta) => of_meta(meta, &mut owner_of),
                // The state is unknown, because the metadata of all records of the release is malformed.
                None => ObservedRelease { status: Status::Unknown, ..ObservedRelease::default() },
            };
            release.was_deployed = newest.was_deployed;
            release.history.clone_from(&newest.history);
            release.own_inputs = newest.operator_revision.as_ref().and_then(|(_, inputs)| inputs.clone());
            release.own_revision = newest.operator_revision.as_ref().map(|(revision, _)| *revision);
            match newest.meta.as_ref().and_then(|meta| Some((meta, bodies.of(key, meta)?))) {
                Some((meta, Ok(body))) => {
                    release.body = Some(without_stale_state(body, meta, bodies.is_current(key, meta)));
                }
                Some((meta, Err(why))) => {
                    release.undecodable = Some(format!("Secret {}/{}: {why}", key.namespace, meta.secret_name()));
                }
                None => {}
            }
            release.undecodable = newest.malformed.clone().or(release.undecodable);
            (key.clone(), release)
        })
        .collect_map()
}

/// Returns the body of a record without the fields that may be outdated.
///
/// Drops the running hook if helm has finished the install, upgrade or uninstall since the task read the body. Drops
/// `delete_hooks_completed` if the task has not read the newest version of the body.
fn without_stale_state(body: &RecordBody, meta: &RecordMeta, is_current: bool) -> RecordBody {
    let running = is_locked(meta);
    RecordBody {
        hook: body.hook.clone().filter(|hook| running || hook.failed),
        delete_hooks_completed: body.delete_hooks_completed.filter(|_| is_current),
        ..body.clone()
    }
}

fn of_meta(meta: &RecordMeta, owner_of: &mut impl FnMut(&str) -> Liveness) -> ObservedRelease {
    let attempt = match &meta.origin {
        RevisionOrigin::Ours(attempt) | RevisionOrigin::Inherited(attempt) => Some(Attempt {
            label: attempt.to_string(),
            revision: attempt.revision().into(),
            owner: owner_of(attempt.instance()),
        }),
        RevisionOrigin::Foreign => None,
    };
    ObservedRelease {
        status: meta.status,
        revision: meta.revision.into(),
        created_at: meta.created,
        uid: meta.uid.clone(),
        inputs: meta.inputs.clone(),
        catalog: meta.catalog.clone(),
        images: meta.images.clone(),
        instances: meta.instances.clone(),
        split: meta.split.clone(),
        baseline: meta.baseline,
        chart: meta.chart.clone(),
        hooks: meta.hooks.clone(),
        release: meta.catalog_name.clone(),
        attempt,
        ..ObservedRelease::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_the_time_since_the_last_change_of_a_pending_record() {
        let key = ReleaseKey::new("openstack", "store");
        let record = |status: &str, version: &str| {
            let labels = [("owner", "helm"), ("name", "store"), ("status", status), ("version", "1")];
            let metadata = serde_json::json!({
                "name": "sh.helm.release.v1.store.v1", "namespace": "openstack", "resourceVersion": version,
                "labels": BTreeMap::from(labels), "creationTimestamp": "2020-01-01T00:00:00Z",
            });
            let meta = RecordMeta::read(&serde_json::from_value(metadata).unwrap()).unwrap();
            BTreeMap::from([(key.clone(), Newest { meta: Some(meta), ..Newest::default() })])
        };
        let (pending, start) = (PendingRecords::default(), Instant::now());
        let since = |status, version, seconds| {
            pending.update(&record(status, version), start + Duration::from_secs(seconds));
            pending.records().get(&key).map(|(_, since)| since.duration_since(start).as_secs())
        };
        assert_eq!(since("pending-upgrade", "7", 1), Some(1), "the time of the creation does not count");
        assert_eq!(since("pending-upgrade", "7", 5), Some(1));
        assert_eq!(since("pending-upgrade", "8", 9), Some(9));
        assert_eq!(since("deployed", "9", 10), None);
    }
}
