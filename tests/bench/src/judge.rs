//! Whether what charts installed is up: the same judge for every way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A watched workload or Job.
#[derive(Clone, Debug)]
struct Seen {
    /// The helm release that it belongs to; hooks say so too.
    release: String,
    /// Whether pods wait for nothing more.
    up: bool,
    job: bool,
}

/// Watches one namespace.
pub struct Judge {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    changed: watch::Receiver<u64>,
    _watches: JoinSet<()>,
}

impl Judge {
    /// Begins to watch `namespace`.
    pub fn watch(client: &Client, namespace: &str) -> Self {
        let seen = Arc::default();
        let (sender, changed) = watch::channel(0);
        let mut watches = JoinSet::new();
        let place = Place { client, namespace, seen: &seen, sender: &sender };
        place.spawn(&mut watches, false, |object: &Deployment| {
            let status = object.status.clone().unwrap_or_default();
            let wanted = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            current(object, status.observed_generation) && status.updated_replicas.unwrap_or(0) >= wanted && status.ready_replicas.unwrap_or(0) >= wanted
        });
        place.spawn(&mut watches, false, |object: &StatefulSet| {
            let status = object.status.clone().unwrap_or_default();
            let wanted = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            current(object, status.observed_generation) && status.ready_replicas.unwrap_or(0) >= wanted
        });
        place.spawn(&mut watches, false, |object: &DaemonSet| {
            let status = object.status.clone().unwrap_or_default();
            current(object, status.observed_generation) && status.number_ready >= status.desired_number_scheduled
        });
        place.spawn(&mut watches, true, |object: &Job| object.status.as_ref().is_some_and(|status| status.succeeded.unwrap_or(0) >= 1));
        Self { seen, changed, _watches: watches }
    }

    /// Waits until every workload of a release is available, its Jobs aside: what "its pods are ready" means.
    pub async fn available(&mut self, release: &str) -> anyhow::Result<()> {
        self.until(|seen| !seen.job && seen.release == release).await
    }

    /// Waits until every workload is available and every Job complete.
    pub async fn all_up(&mut self) -> anyhow::Result<()> {
        self.until(|_| true).await
    }

    async fn until(&mut self, counts: impl Fn(&Seen) -> bool) -> anyhow::Result<()> {
        loop {
            let down = {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.iter().filter(|(_, seen)| counts(seen) && !seen.up).map(|(name, _)| name.clone()).next()
            };
            let Some(down) = down else { return Ok(()) };
            let changed = tokio::time::timeout(std::time::Duration::from_mins(10), self.changed.changed()).await;
            changed.with_context(|| format!("nothing changes any more, and {down} is not up"))??;
        }
    }
}

impl Clone for Judge {
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), changed: self.changed.clone(), _watches: JoinSet::new() }
    }
}

/// Where to watch, and whom to tell.
struct Place<'a> {
    client: &'a Client,
    namespace: &'a str,
    seen: &'a Arc<Mutex<BTreeMap<String, Seen>>>,
    sender: &'a watch::Sender<u64>,
}

impl Place<'_> {
    fn spawn<K>(&self, watches: &mut JoinSet<()>, job: bool, up: fn(&K) -> bool)
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        let (seen, sender) = (Arc::clone(self.seen), self.sender.clone());
        watches.spawn(async move {
            let events = watcher(api, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events.into_stream());
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                take(event, &seen, job, up);
                sender.send_modify(|count| *count += 1);
            }
        });
    }
}

fn take<K: Resource<DynamicType = ()>>(event: watcher::Event<K>, seen: &Mutex<BTreeMap<String, Seen>>, job: bool, up: fn(&K) -> bool) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let name = |object: &K| format!("{} {}", K::kind(&()), object.name_any());
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            let release = object.annotations().get("meta.helm.sh/release-name").cloned().unwrap_or_default();
            seen.insert(name(&object), Seen { release, up: up(&object), job });
        }
        watcher::Event::Delete(object) => drop(seen.remove(&name(&object))),
        watcher::Event::Init | watcher::Event::InitDone => {}
    }
}

fn current<K: Resource>(object: &K, observed: Option<i64>) -> bool {
    observed >= object.meta().generation
}
