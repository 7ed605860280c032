//! Fetches the bodies of release records, and keeps the parts that osdpl uses. The body of a record is the revision
//! that helm stores in it: the values, the manifest and the hooks.

#![allow(clippy::disallowed_methods, reason = "uses the clock to time retries")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use kube::{Api, Client};
use tokio::sync::watch;

use super::RECHECK_INTERVAL;
use super::body::{self, Objects};
use super::records::Newest;
use crate::tasks::partial::{Partial, Record};
use crate::tasks::problems::Problems;
use crate::tasks::watch::describe_error;
use osdpl_core::observed::{RecordBody, ReleaseKey};
use osdpl_core::release::{RecordMeta, RevisionOrigin};
use osdpl_core::scrub::Scrubber;

/// The description of the task's work, for its reports to [`Problems`] about failed fetches of record bodies.
const READING: &str = "reading release records";

/// The maximum total size of the stored record bodies in memory, in bytes. The bodies of all records of a cloud with
/// all services need much less.
const CAPACITY: usize = 64 << 20;

/// The data that the task keeps of the body of a release's newest record, and the state of the request that fetches the
/// record.
///
/// The task keeps them, because a body takes tens of milliseconds to fetch and decode. After a restart of the operator,
/// the task fetches all bodies before it publishes its first result.
#[derive(Default)]
struct Entry {
    /// The uid of the record's Secret. The revision does not identify the record: after a release was uninstalled and
    /// installed again, its revisions restart at 1.
    record: Option<String>,
    /// The resourceVersion of the record that the watch had reported when the last fetch started (`requested`), and the
    /// resourceVersion that the fetch returned (`found`). The body is up to date if one of the two equals the newest
    /// resourceVersion that the watch has reported.
    requested: Option<String>,
    found: Option<String>,
    /// Whether a fetch is running, so that the task does not start a second one.
    in_flight: bool,
    /// When the last fetch failed; `None` if it succeeded or is running. The task uses this time to limit the rate of
    /// retries. After a restart, the task retries at once.
    failed: Option<Instant>,
    /// The objects in the revision's manifest. The task decodes the manifest only once, because it never changes.
    objects: Option<Arc<Objects>>,
    body: Option<Result<RecordBody, String>>,
}

/// The result of one fetch of a record's body.
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
    /// The fetch failed, and the task must retry it.
    Failed,
}

/// The bodies of the newest records of releases, with the code that fetches and stores them.
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

    /// Returns the body of a release record, or the reason why the task could not decode the body or has no memory for
    /// it; `None` if the task has not read the record yet. While the task fetches a newer version of the record, this
    /// function returns the older body.
    pub(super) fn of(&self, key: &ReleaseKey, meta: &RecordMeta) -> Option<&Result<RecordBody, String>> {
        let entry = self.entries.get(key).filter(|entry| entry.record == meta.uid)?;
        entry.body.as_ref()
    }

    /// Whether the body that the task has read belongs to the newest version of the record that the watch has reported,
    /// or to a newer version.
    pub(super) fn is_current(&self, key: &ReleaseKey, meta: &RecordMeta) -> bool {
        let entry = self.entries.get(key).filter(|entry| entry.record == meta.uid && !entry.in_flight);
        entry.is_some_and(|entry| {
            [&entry.requested, &entry.found].contains(&&meta.resource_version) && entry.failed.is_none()
        })
    }

    /// Whether the last fetch of any record's body has failed. The task must then retry this fetch.
    pub(super) fn has_failures(&self) -> bool {
        self.entries.values().any(|entry| entry.failed.is_some())
    }

    /// Returns futures that fetch the bodies of release records, at most `limit` of them, and marks these fetches as in
    /// flight. The caller must start the futures now. Drops the stored bodies of records outside of `namespaces`.
    pub(super) fn begin_fetches(
        &mut self,
        newest: &BTreeMap<ReleaseKey, Newest>,
        namespaces: &BTreeSet<String>,
        limit: usize,
    ) -> Vec<impl Future<Output = Fetched> + Send + use<>> {
        let is_own = |key: &ReleaseKey| namespaces.contains(&key.namespace);
        self.entries.retain(|key, entry| entry.in_flight || newest.contains_key(key) && is_own(key));
        let mut fetches = Vec::new();
        for (key, newest) in newest.iter().filter(|(key, _)| is_own(key)) {
            let Some(meta) = newest.meta.as_ref().filter(|meta| is_wanted(meta)) else { continue };
            if fetches.len() < limit && self.needs_fetch(key, meta) {
                fetches.push(self.fetch(key, meta));
            }
        }
        fetches
    }

    /// Whether the task must now fetch the body of the record with the metadata `meta`. If so, the function marks this
    /// fetch as in flight.
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
                    // Decompress the record on a thread for blocking work: for a large record, this takes tens of
                    // milliseconds, during which it would block the threads that serve watches.
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
                let size = |objects: &Option<Arc<Objects>>| objects.as_ref().map_or(0, |objects| objects.size);
                (entry.found, entry.objects, entry.body) = (found, None, None);
                let others: usize = self.entries.values().map(|entry| size(&entry.objects)).sum();
                let fits = others + size(&objects) <= CAPACITY;
                let Some(entry) = self.entries.get_mut(&fetched.key) else { return };
                if fits {
                    (entry.objects, entry.body) = (objects, Some(*body));
                } else {
                    entry.body = Some(Err(no_room()));
                    // Retry later: this body fits once the bodies of other records need less memory, for example
                    // because records were deleted. No watch reports when the body fits.
                    entry.failed = Some(Instant::now());
                }
            }
            Outcome::Deleted => {}
            Outcome::Failed => entry.failed = Some(Instant::now()),
        }
    }
}

/// Returns the message for a body that the task does not keep, because all bodies together would exceed [`CAPACITY`].
fn no_room() -> String {
    format!(
        "the release records in the namespaces of the cloud need more than {} MiB of the operator's memory, so the \
         operator does not keep this one; delete the records that helm did not write, and find out who wrote them",
        CAPACITY >> 20
    )
}

/// Whether osdpl uses the body of a release record.
///
/// osdpl uses only the bodies of releases that it manages. If someone else upgrades or rolls back such a release, osdpl
/// does not use the body of the new record until helm has finished.
fn is_wanted(meta: &RecordMeta) -> bool {
    match meta.origin {
        RevisionOrigin::Ours(_) => true,
        RevisionOrigin::Inherited(_) => !meta.status.is_pending(),
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

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use serde_json::json;

    use super::*;

    /// Returns a release whose only record has osdpl's labels, as if osdpl had made it.
    fn labelled(namespace: &str) -> (ReleaseKey, Newest) {
        let labels = json!({
            "owner": "helm", "name": "nova", "version": "1", "status": "deployed", "osdpl.dev/attempt": "p1.a-1-v1",
        });
        let name = "sh.helm.release.v1.nova.v1";
        let metadata =
            json!({"name": name, "namespace": namespace, "uid": namespace, "resourceVersion": "1", "labels": labels});
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        let meta = RecordMeta::read(&metadata).unwrap();
        assert!(matches!(meta.origin, RevisionOrigin::Ours(_)));
        (ReleaseKey::new(namespace, "nova"), Newest { meta: Some(meta), ..Newest::default() })
    }

    #[tokio::test]
    async fn keeps_bodies_within_the_capacity() {
        let silent = axum::Router::new().fallback(std::future::pending::<String>);
        let (_secrets, scrubber) = watch::channel(Arc::default());
        let mut bodies = Bodies::new(Client::new(silent, "cloud"), scrubber, Problems::default());
        let newest = BTreeMap::from([labelled("a"), labelled("b")]);
        let namespaces = ["a", "b"].map(str::to_owned).into();
        let fetched = |key: &ReleaseKey, size| {
            let payload = r#"{"name": "nova", "namespace": "a", "version": 1, "info": {"status": "deployed"}}"#;
            let payload = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, payload).into_bytes();
            let mut objects = body::objects(&payload, key).unwrap();
            objects.size = size;
            let body = Box::new(body::read(&payload, "a", &objects, &Scrubber::default()).map_err(|e| e.to_string()));
            let outcome = Outcome::Read { found: Some("1".into()), objects: Some(Arc::new(objects)), body };
            Fetched { key: key.clone(), outcome }
        };
        let is_kept = |bodies: &Bodies, key| bodies.of(key, newest[key].meta.as_ref().unwrap()).unwrap().is_ok();
        let keys: Vec<&ReleaseKey> = newest.keys().collect();
        assert_eq!(bodies.begin_fetches(&newest, &namespaces, 9).len(), 2);
        bodies.store_fetched(fetched(keys[0], CAPACITY));
        bodies.store_fetched(fetched(keys[1], 1));
        assert_eq!((is_kept(&bodies, keys[0]), is_kept(&bodies, keys[1])), (true, false));
        assert!(bodies.has_failures(), "the task reads the body again later");
        let message = bodies.of(keys[1], newest[keys[1]].meta.as_ref().unwrap()).unwrap().as_ref().unwrap_err();
        for part in ["need more than 64 MiB of the operator's memory", "delete the records that helm did not write"] {
            assert!(message.contains(part), "{message}");
        }
        bodies.store_fetched(fetched(keys[0], CAPACITY - 1));
        bodies.store_fetched(fetched(keys[1], 1));
        assert_eq!((is_kept(&bodies, keys[0]), is_kept(&bodies, keys[1])), (true, true));
    }

    #[test]
    fn keeps_no_values_of_a_record() {
        let large = json!({"key": "x".repeat(6 << 20)});
        let chart = json!({"metadata": {"name": "nova", "version": "1"}, "values": large});
        let info = json!({"status": "deployed"});
        let record =
            json!({"name": "nova", "namespace": "a", "version": 1, "info": info, "chart": chart, "config": large});
        let payload = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, record.to_string());
        let objects = body::objects(payload.as_bytes(), &labelled("a").0).unwrap();
        let body = body::read(payload.as_bytes(), "a", &objects, &Scrubber::default()).unwrap();
        assert_eq!((body.chart.as_str(), objects.size), ("nova", 0));
        let kept = format!("{objects:?} {body:?}");
        assert!(kept.len() < 1 << 10, "{} bytes", kept.len());
    }

    #[tokio::test]
    async fn reads_only_the_records_in_the_namespaces_of_the_cloud() {
        let silent = axum::Router::new().fallback(std::future::pending::<String>);
        let (_secrets, scrubber) = watch::channel(Arc::default());
        let mut bodies = Bodies::new(Client::new(silent, "cloud"), scrubber, Problems::default());
        let newest = BTreeMap::from([labelled("compute"), labelled("openstack"), labelled("tenant")]);
        let namespaces = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert!(bodies.begin_fetches(&newest, &namespaces(&[]), 9).is_empty());
        assert_eq!(bodies.begin_fetches(&newest, &namespaces(&["compute", "openstack"]), 9).len(), 2);
        let keys: Vec<_> = bodies.entries.keys().map(ToString::to_string).collect();
        assert_eq!(keys, ["compute/nova", "openstack/nova"]);
        for key in bodies.entries.keys().cloned().collect::<Vec<_>>() {
            bodies.store_fetched(Fetched { key, outcome: Outcome::Deleted });
        }
        bodies.begin_fetches(&newest, &namespaces(&["openstack"]), 9);
        assert_eq!(bodies.entries.len(), 1, "the bodies in other namespaces are dropped");
    }
}
