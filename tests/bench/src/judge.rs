//! Checks whether the objects of charts are up, in the same way for every measurement.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A watched workload or Job.
#[derive(Clone, Debug)]
struct Seen {
    /// The helm release that it belongs to, also for hooks.
    release: String,
    /// Whether it is available or complete.
    up: bool,
    job: bool,
}

/// Watches a namespace.
pub struct ReadinessWatch {
    place: Observed,
    changed: watch::Receiver<u64>,
    _watches: JoinSet<()>,
}

impl ReadinessWatch {
    /// Starts watching `namespace`.
    pub fn watch(client: &Client, namespace: &str) -> Self {
        let (sender, changed) = watch::channel(0);
        let place = Observed { client: client.clone(), namespace: namespace.to_owned(), seen: Arc::default(), sender };
        let mut watches = JoinSet::new();
        place.spawn::<Deployment>(&mut watches);
        place.spawn::<StatefulSet>(&mut watches);
        place.spawn::<DaemonSet>(&mut watches);
        place.spawn::<Job>(&mut watches);
        Self { place, changed, _watches: watches }
    }

    /// Waits until every workload of a release is available, except for Jobs.
    pub async fn available(&mut self, release: &str) -> anyhow::Result<()> {
        self.until(|seen| !seen.job && seen.release == release).await
    }

    /// Waits until every workload is available and every Job is complete.
    pub async fn all_up(&mut self) -> anyhow::Result<()> {
        self.until(|_| true).await
    }

    async fn until(&mut self, counts: impl Fn(&Seen) -> bool) -> anyhow::Result<()> {
        // A watch may lag behind helm; a list does not.
        self.place.list::<Deployment>().await?;
        self.place.list::<StatefulSet>().await?;
        self.place.list::<DaemonSet>().await?;
        self.place.list::<Job>().await?;
        loop {
            let Some(down) = self.place.first(|seen| counts(seen) && !seen.up) else { return Ok(()) };
            let changed = tokio::time::timeout(Duration::from_mins(10), self.changed.changed()).await;
            changed.with_context(|| format!("nothing changes any more, and {down} is not up"))??;
        }
    }
}

impl Clone for ReadinessWatch {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), changed: self.changed.clone(), _watches: JoinSet::new() }
    }
}

/// A kind of object that can be up.
trait Work:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// Whether it is a Job, not a workload.
    const JOB: bool = false;

    /// Whether the newest spec is fully rolled out.
    fn is_up(&self) -> bool;
}

impl Work for Deployment {
    fn is_up(&self) -> bool {
        let status = self.status.clone().unwrap_or_default();
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let enough = |replicas: Option<i32>| replicas.unwrap_or(0) >= wanted;
        current(self, status.observed_generation) && enough(status.updated_replicas) && enough(status.ready_replicas)
    }
}

impl Work for StatefulSet {
    fn is_up(&self) -> bool {
        let status = self.status.clone().unwrap_or_default();
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        current(self, status.observed_generation) && status.ready_replicas.unwrap_or(0) >= wanted
    }
}

impl Work for DaemonSet {
    fn is_up(&self) -> bool {
        let status = self.status.clone().unwrap_or_default();
        current(self, status.observed_generation) && status.number_ready >= status.desired_number_scheduled
    }
}

impl Work for Job {
    const JOB: bool = true;

    fn is_up(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.succeeded.unwrap_or(0) >= 1)
    }
}

fn current<K: Resource>(object: &K, observed: Option<i64>) -> bool {
    observed >= object.meta().generation
}

/// The watched namespace, the observed objects, and the receiver of changes.
#[derive(Clone)]
struct Observed {
    client: Client,
    namespace: String,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    sender: watch::Sender<u64>,
}

impl Observed {
    fn first(&self, counts: impl Fn(&Seen) -> bool) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().find(|(_, seen)| counts(seen)).map(|(name, _)| name.clone())
    }

    fn api<K: Work>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn list<K: Work>(&self) -> anyhow::Result<()> {
        for object in self.api::<K>().list(&ListParams::default()).await?.items {
            self.take(watcher::Event::Apply(object));
        }
        Ok(())
    }

    fn spawn<K: Work>(&self, watches: &mut JoinSet<()>) {
        let place = self.clone();
        watches.spawn(async move {
            let events = watcher(place.api::<K>(), watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events.into_stream());
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                place.take(event);
                place.sender.send_modify(|count| *count += 1);
            }
        });
    }

    fn take<K: Work>(&self, event: watcher::Event<K>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |object: &K| format!("{} {}", K::kind(&()), object.name_any());
        match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let release = object.annotations().get("meta.helm.sh/release-name").cloned().unwrap_or_default();
                seen.insert(name(&object), Seen { release, up: object.is_up(), job: K::JOB });
            }
            watcher::Event::Delete(object) => drop(seen.remove(&name(&object))),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
}
