//! Decides which bodies of release records to fetch, fetches them, and keeps the parts that osdpl uses.

#![allow(clippy::disallowed_methods, reason = "uses the clock to time retries")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kube::{Api, Client};
use tokio::sync::watch;

use super::RECHECK_INTERVAL;
use super::body::{self, Objects};
use super::records::{Newest, is_locked};
use crate::tasks::partial::{Partial, Record};
use crate::tasks::problems::Problems;
use crate::tasks::watch::describe_error;
use osdpl_core::observed::{RecordBody, ReleaseKey};
use osdpl_core::release::{RecordMeta, RevisionOrigin};
use osdpl_core::scrub::Scrubber;

/// The name of the activity under which [`Problems`] lists failed fetches.
const READING: &str = "reading release records";

/// The body of a release's newest record, and the state of the request that fetches it.
#[derive(Default)]
struct Entry {
    /// The record's uid, which tells records of the same revision apart: a release that was removed and installed again
    /// restarts at revision 1.
    record: Option<String>,
    /// The resourceVersion that the watch had reported when the last fetch started (`requested`), and the
    /// resourceVersion that the fetch returned (`found`). The body is up to date if the watch's newest resourceVersion
    /// equals one of the two.
    requested: Option<String>,
    found: Option<String>,
    in_flight: bool,
    /// When the last fetch failed; `None` if it succeeded or is running.
    failed: Option<Instant>,
    /// The objects of the revision. The task decodes the objects only once, because they never change.
    objects: Option<Arc<Objects>>,
    body: Option<Result<RecordBody, String>>,
}

/// The result of fetching the body of a record.
pub(super) struct Fetched {
    key: ReleaseKey,
    outcome: Outcome,
}

enum Outcome {
    Read {
        found: Option<String>,
        objects: Option<Arc<Objects>>,
        body: Box<Result<RecordBody, String>>,
    },
    /// The record is deleted. The task does nothing, because the watch on records reports the deletion.
    Deleted,
    /// The fetch failed and must be retried.
    Failed,
}

/// The bodies of the newest record of each release.
pub(super) struct Bodies {
    client: Client,
    scrubber: watch::Receiver<Arc<Scrubber>>,
    problems: Problems,
    entries: BTreeMap<ReleaseKey, Entry>,
}

impl Bodies {
    pub(super) fn new(client: Client, scrubber: watch::Receiver<Arc<Scrubber>>, problems: Problems) -> Self {
        Self { client, scrubber, problems, entries: BTreeMap::new() }
    }

    /// Returns the body of a record, if it is known. While a fetch of a newer version is running, this function returns
    /// the older body.
    pub(super) fn of(&self, key: &ReleaseKey, meta: &RecordMeta) -> Option<&Result<RecordBody, String>> {
        let entry = self.entries.get(key).filter(|entry| entry.record == meta.uid)?;
        entry.body.as_ref()
    }

    /// Whether the last fetch of any body has failed, so that the task must retry it.
    pub(super) fn has_failures(&self) -> bool {
        self.entries.values().any(|entry| entry.failed.is_some())
    }

    /// Returns the fetches of bodies to start now, at most `limit`, and marks them as in flight.
    pub(super) fn begin_fetches(
        &mut self,
        newest: &BTreeMap<ReleaseKey, Newest>,
        limit: usize,
    ) -> Vec<impl Future<Output = Fetched> + Send + use<>> {
        self.entries.retain(|key, entry| entry.in_flight || newest.contains_key(key));
        let mut fetches = Vec::new();
        for (key, newest) in newest {
            let Some(meta) = newest.meta.as_ref().filter(|meta| is_wanted(meta)) else { continue };
            if fetches.len() < limit && self.needs_fetch(key, meta) {
                fetches.push(self.fetch(key, meta));
            }
        }
        fetches
    }

    /// Whether this version of a record must be fetched now. If so, the function marks its fetch as in flight.
    fn needs_fetch(&mut self, key: &ReleaseKey, meta: &RecordMeta) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.in_flight {
            return false;
        }
        if entry.record != meta.uid {
            *entry = Entry { record: meta.uid.clone(), ..Entry::default() };
        }
        let state = &meta.resource_version;
        let current = entry.requested == *state || entry.found == *state;
        if entry.failed.map_or(current, |since| since.elapsed() < RECHECK_INTERVAL) {
            return false;
        }
        entry.requested.clone_from(state);
        entry.in_flight = true;
        entry.failed = None;
        true
    }

    fn fetch(&self, key: &ReleaseKey, meta: &RecordMeta) -> impl Future<Output = Fetched> + Send + use<> {
        let api = Api::<Partial<Record>>::namespaced(self.client.clone(), &key.namespace);
        let (key, name, uid) = (key.clone(), meta.secret_name(), meta.uid.clone());
        let objects = self.entries.get(&key).and_then(|entry| entry.objects.clone());
        let (scrubber, problems) = (self.scrubber.borrow().clone(), self.problems.clone());
        async move {
            let what = format!("{}/{name}", key.namespace);
            let outcome = match api.get(&name).await {
                Ok(record) if record.metadata.uid != uid => Outcome::Deleted,
                Ok(record) => {
                    problems.report_success(READING, &what);
                    let release = key.clone();
                    let read = move || read(&record, &release, objects, &scrubber);
                    // Unpacking a big record takes tens of milliseconds, which would block the threads that serve
                    // watches.
                    tokio::task::spawn_blocking(read).await.unwrap_or(Outcome::Failed)
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => Outcome::Deleted,
                Err(error) => {
                    problems.report_failure(READING, &what, describe_error(&error));
                    Outcome::Failed
                }
            };
            Fetched { key, outcome }
        }
    }

    /// Stores the body that a fetch has returned, or its failure.
    pub(super) fn store_fetched(&mut self, fetched: Fetched) {
        let Some(entry) = self.entries.get_mut(&fetched.key) else { return };
        entry.in_flight = false;
        match fetched.outcome {
            Outcome::Read { found, objects, body } => {
                entry.found = found;
                entry.objects = objects;
                entry.body = Some(*body);
            }
            Outcome::Deleted => {}
            Outcome::Failed => entry.failed = Some(Instant::now()),
        }
    }
}

/// Whether osdpl uses the body of a record.
///
/// osdpl does not use the bodies of releases that it does not manage. It also does not follow an operation that someone
/// else runs on a release of osdpl.
fn is_wanted(meta: &RecordMeta) -> bool {
    match meta.origin {
        RevisionOrigin::Ours(_) => true,
        RevisionOrigin::Inherited(_) => !is_locked(meta),
        RevisionOrigin::Foreign => false,
    }
}

fn read(record: &Partial<Record>, release: &ReleaseKey, known: Option<Arc<Objects>>, scrubber: &Scrubber) -> Outcome {
    let found = record.metadata.resource_version.clone();
    let payload = &record.data.release.0;
    let objects = match known.map_or_else(|| body::objects(payload, release).map(Arc::new), Ok) {
        Ok(objects) => objects,
        Err(error) => return Outcome::Read { found, objects: None, body: Box::new(Err(error.to_string())) },
    };
    let body = body::read(payload, &release.namespace, &objects, scrubber).map_err(|error| error.to_string());
    Outcome::Read { found, objects: Some(objects), body: Box::new(body) }
}
