//! The bodies of records: which are wanted, fetching them, and what was learned from them.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when to try again")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kube::{Api, Client};
use tokio::sync::watch;

use super::LOOK_AGAIN;
use super::body::{self, Objects};
use super::records::{Newest, is_locked};
use crate::tasks::partial::{Partial, Record};
use crate::tasks::problems::Problems;
use crate::tasks::watch::said;
use osdpl_core::observed::{BodySeen, Key};
use osdpl_core::release::{Maker, Meta};
use osdpl_core::scrub::Scrubber;

/// What a fetch does, in a problem's words.
const READING: &str = "reading release records";

/// What is known of the newest record's body of one release.
#[derive(Default)]
struct Entry {
    /// Which record it is: a release that was removed and installed again starts at revision 1, with another uid.
    record: Option<String>,
    /// The state of the record that was asked for last, or found: either answers the same question.
    asked: Option<String>,
    found: Option<String>,
    in_flight: bool,
    /// When the last fetch failed, if it did.
    failed: Option<Instant>,
    /// The revision's objects, which never change.
    objects: Option<Arc<Objects>>,
    body: Option<Result<BodySeen, String>>,
}

/// What came of a fetch.
pub(super) struct Fetched {
    key: Key,
    outcome: Outcome,
}

enum Outcome {
    Read {
        found: Option<String>,
        objects: Option<Arc<Objects>>,
        body: Box<Result<BodySeen, String>>,
    },
    /// It is gone: the watch will tell.
    Gone,
    /// To be tried again.
    Failed,
}

/// The bodies.
pub(super) struct Bodies {
    client: Client,
    scrubber: watch::Receiver<Arc<Scrubber>>,
    problems: Problems,
    entries: BTreeMap<Key, Entry>,
}

impl Bodies {
    pub(super) fn new(client: Client, scrubber: watch::Receiver<Arc<Scrubber>>, problems: Problems) -> Self {
        Self { client, scrubber, problems, entries: BTreeMap::new() }
    }

    /// The body of that record, as far as it is known; while a newer state of it is fetched, the older one.
    pub(super) fn of(&self, key: &Key, meta: &Meta) -> Option<&Result<BodySeen, String>> {
        let entry = self.entries.get(key).filter(|entry| entry.record == meta.uid)?;
        entry.body.as_ref()
    }

    /// Whether a body could not be fetched.
    pub(super) fn has_failures(&self) -> bool {
        self.entries.values().any(|entry| entry.failed.is_some())
    }

    /// Begins at most so many fetches.
    pub(super) fn wanted(
        &mut self,
        newest: &BTreeMap<Key, Newest>,
        most: usize,
    ) -> Vec<impl Future<Output = Fetched> + Send + use<>> {
        self.entries.retain(|key, entry| entry.in_flight || newest.contains_key(key));
        let mut begun = Vec::new();
        for (key, newest) in newest {
            let Some(meta) = newest.meta.as_ref().filter(|meta| is_wanted(meta)) else { continue };
            if begun.len() < most && self.ask(key, meta) {
                begun.push(self.fetch(key, meta));
            }
        }
        begun
    }

    /// Whether that state of the record has to be fetched; if so it counts as asked for.
    fn ask(&mut self, key: &Key, meta: &Meta) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.in_flight {
            return false;
        }
        if entry.record != meta.uid {
            *entry = Entry { record: meta.uid.clone(), ..Entry::default() };
        }
        let state = &meta.resource_version;
        let answered = entry.asked == *state || entry.found == *state;
        if entry.failed.map_or(answered, |at| at.elapsed() < LOOK_AGAIN) {
            return false;
        }
        entry.asked.clone_from(state);
        entry.in_flight = true;
        entry.failed = None;
        true
    }

    fn fetch(&self, key: &Key, meta: &Meta) -> impl Future<Output = Fetched> + Send + use<> {
        let api = Api::<Partial<Record>>::namespaced(self.client.clone(), &key.namespace);
        let (key, name, uid) = (key.clone(), meta.secret_name(), meta.uid.clone());
        let objects = self.entries.get(&key).and_then(|entry| entry.objects.clone());
        let (scrubber, problems) = (self.scrubber.borrow().clone(), self.problems.clone());
        async move {
            let what = format!("{}/{name}", key.namespace);
            let outcome = match api.get(&name).await {
                Ok(record) if record.metadata.uid != uid => Outcome::Gone,
                Ok(record) => {
                    problems.works(READING, &what);
                    let release = key.clone();
                    let read = move || read(&record, &release, objects, &scrubber);
                    // Off the threads that serve watches: unpacking a big record takes tens of milliseconds.
                    tokio::task::spawn_blocking(read).await.unwrap_or(Outcome::Failed)
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => Outcome::Gone,
                Err(error) => {
                    problems.fails(READING, &what, said(&error));
                    Outcome::Failed
                }
            };
            Fetched { key, outcome }
        }
    }

    /// Keeps what a fetch brought.
    pub(super) fn keep(&mut self, fetched: Fetched) {
        let Some(entry) = self.entries.get_mut(&fetched.key) else { return };
        entry.in_flight = false;
        match fetched.outcome {
            Outcome::Read { found, objects, body } => {
                entry.found = found;
                entry.objects = objects;
                entry.body = Some(*body);
            }
            Outcome::Gone => {}
            Outcome::Failed => entry.failed = Some(Instant::now()),
        }
    }
}

/// Bodies of releases that never were ours are nobody's business, and neither is how far a foreign operation is.
fn is_wanted(meta: &Meta) -> bool {
    match meta.maker {
        Maker::Ours(_) => true,
        Maker::Inherited(_) => !is_locked(meta),
        Maker::Foreign => false,
    }
}

fn read(record: &Partial<Record>, release: &Key, known: Option<Arc<Objects>>, scrubber: &Scrubber) -> Outcome {
    let found = record.metadata.resource_version.clone();
    let payload = &record.data.release.0;
    let objects = match known.map_or_else(|| body::objects(payload, release).map(Arc::new), Ok) {
        Ok(objects) => objects,
        Err(error) => return Outcome::Read { found, objects: None, body: Box::new(Err(error.to_string())) },
    };
    let body = body::read(payload, &release.namespace, &objects, scrubber).map_err(|error| error.to_string());
    Outcome::Read { found, objects: Some(objects), body: Box::new(body) }
}
