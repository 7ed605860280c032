//! Checks whether the workloads and Jobs of a cloud are up: whether the workloads are available and the Jobs complete.
//! All measurements use the same check, so that they are comparable.

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
struct ObservedObject {
    /// The name of the object's helm release, from the annotation `meta.helm.sh/release-name`. Empty for hooks, because
    /// helm does not annotate hooks.
    release: String,
    /// Whether the workload is available, or the Job complete.
    is_up: bool,
    is_job: bool,
}

/// Watches whether the workloads and Jobs of a namespace are up.
pub struct ReadinessWatch {
    observed: Observed,
    changed: watch::Receiver<u64>,
    _watches: JoinSet<()>,
}

impl ReadinessWatch {
    /// Starts to watch the workloads and Jobs in `namespace`.
    pub fn watch(client: &Client, namespace: &str) -> Self {
        let (sender, changed) = watch::channel(0);
        let observed =
            Observed { client: client.clone(), namespace: namespace.to_owned(), objects: Arc::default(), sender };
        let mut watches = JoinSet::new();
        observed.spawn::<Deployment>(&mut watches);
        observed.spawn::<StatefulSet>(&mut watches);
        observed.spawn::<DaemonSet>(&mut watches);
        observed.spawn::<Job>(&mut watches);
        Self { observed, changed, _watches: watches }
    }

    /// Waits until every workload of a release is available. Does not wait for Jobs.
    pub async fn available(&mut self, release: &str) -> anyhow::Result<()> {
        self.until(|object| !object.is_job && object.release == release).await
    }

    /// Waits until every workload in the namespace is available and every Job is complete.
    pub async fn all_up(&mut self) -> anyhow::Result<()> {
        self.until(|_| true).await
    }

    async fn until(&mut self, matches: impl Fn(&ObservedObject) -> bool) -> anyhow::Result<()> {
        // List the objects first, because the watches may not have delivered the objects that helm has just created.
        self.observed.list::<Deployment>().await?;
        self.observed.list::<StatefulSet>().await?;
        self.observed.list::<DaemonSet>().await?;
        self.observed.list::<Job>().await?;
        loop {
            let Some(down) = self.observed.find(|object| matches(object) && !object.is_up) else { return Ok(()) };
            let changed = tokio::time::timeout(Duration::from_mins(10), self.changed.changed()).await;
            changed.with_context(|| format!("{down} is not up, and no object has changed for 10 minutes"))??;
        }
    }
}

impl Clone for ReadinessWatch {
    fn clone(&self) -> Self {
        Self { observed: self.observed.clone(), changed: self.changed.clone(), _watches: JoinSet::new() }
    }
}

/// A kind of object that the benchmark watches: a kind of workload, or Job.
trait Workload:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// Whether the kind is Job.
    const IS_JOB: bool = false;

    /// Whether the object is up. The status of a workload must describe the workload's newest spec, and enough of its
    /// pods must be ready. For a Deployment, enough pods must also have the newest pod template. A Job must have
    /// succeeded.
    fn is_up(&self) -> bool;
}

impl Workload for Deployment {
    fn is_up(&self) -> bool {
        let status = self.status.clone().unwrap_or_default();
        let desired = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let has_replicas = |replicas: Option<i32>| replicas.unwrap_or(0) >= desired;
        current(self, status.observed_generation)
            && has_replicas(status.updated_replicas)
            && has_replicas(status.ready_replicas)
    }
}

impl Workload for StatefulSet {
    fn is_up(&self) -> bool {
        let status = self.status.clone().unwrap_or_default();
        let desired = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        current(self, status.observed_generation) && status.ready_replicas.unwrap_or(0) >= desired
    }
}

impl Workload for DaemonSet {
    fn is_up(&self) -> bool {
        let status = self.status.clone().unwrap_or_default();
        current(self, status.observed_generation) && status.number_ready >= status.desired_number_scheduled
    }
}

impl Workload for Job {
    const IS_JOB: bool = true;

    fn is_up(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.succeeded.unwrap_or(0) >= 1)
    }
}

fn current<K: Resource>(object: &K, observed: Option<i64>) -> bool {
    observed >= object.meta().generation
}

/// The state of the workloads and Jobs of a namespace, with the channel through which the watches announce changes.
#[derive(Clone)]
struct Observed {
    client: Client,
    namespace: String,
    objects: Arc<Mutex<BTreeMap<String, Observation>>>,
    sender: watch::Sender<u64>,
}

/// The newest known version of an object.
struct Observation {
    /// The `resourceVersion`: a number that grows with each change of an object
    /// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>).
    version: u64,
    /// `None` if the object was deleted.
    object: Option<ObservedObject>,
}

impl Observed {
    fn find(&self, matches: impl Fn(&ObservedObject) -> bool) -> Option<String> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let found = objects.iter().find(|(_, observation)| observation.object.as_ref().is_some_and(&matches));
        found.map(|(name, _)| name.clone())
    }

    fn api<K: Workload>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn list<K: Workload>(&self) -> anyhow::Result<()> {
        for object in self.api::<K>().list(&ListParams::default()).await?.items {
            self.apply_event(watcher::Event::Apply(object));
        }
        Ok(())
    }

    fn spawn<K: Workload>(&self, watches: &mut JoinSet<()>) {
        let observed = self.clone();
        watches.spawn(async move {
            let events = watcher(observed.api::<K>(), watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events.into_stream());
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                observed.apply_event(event);
                observed.sender.send_modify(|count| *count += 1);
            }
        });
    }

    fn apply_event<K: Workload>(&self, event: watcher::Event<K>) {
        match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let release = object.annotations().get("meta.helm.sh/release-name").cloned().unwrap_or_default();
                let observed = ObservedObject { release, is_up: object.is_up(), is_job: K::IS_JOB };
                self.record(&object, Some(observed));
            }
            watcher::Event::Delete(object) => self.record(&object, None),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    /// Records an object unless a newer version of it is known already: the response to a list request may arrive after
    /// the watch has delivered a change that the response does not contain.
    fn record<K: Workload>(&self, object: &K, observed: Option<ObservedObject>) {
        let version = object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{} {}", K::kind(&()), object.name_any());
        if objects.get(&name).is_none_or(|known| known.version <= version) {
            objects.insert(name, Observation { version, object: observed });
        }
    }
}
