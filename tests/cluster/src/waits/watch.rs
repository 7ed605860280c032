//! Watches all objects that decide whether pods may start. One stream contains the changes from all watches.

use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::{DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, discovery};
use std::time::Duration;

use super::needs::CustomKind;
use super::rules::{FAULTS, FAULTS_NAMESPACE};
use super::world::Change;

/// The delay before kube restarts a failed watch. The delay is short, because tests restart the API server and continue
/// as soon as the new API server is ready.
const DELAY: Duration = Duration::from_millis(200);
/// The interval at which the supervisor asks whether the API server knows a kind of custom resource. The API server may
/// not know the kind yet, because the CRD may be created after a pod that waits for a resource of this kind.
const UNKNOWN_KIND: Duration = Duration::from_secs(1);

/// The stream of the changes that all watches report.
pub(super) struct Changes {
    client: Client,
    streams: SelectAll<BoxStream<'static, Change>>,
}

impl Changes {
    pub fn new(client: Client) -> Self {
        let all = watcher::Config::default;
        let faults: Api<ConfigMap> = Api::namespaced(client.clone(), FAULTS_NAMESPACE);
        let only = all().fields(&format!("metadata.name={FAULTS}"));
        let streams = select_all([
            changes(Api::all(client.clone()), all(), Change::Pod),
            changes(Api::all(client.clone()), all(), Change::Slice),
            changes(Api::all(client.clone()), all(), Change::Job),
            changes(Api::all(client.clone()), all(), Change::DaemonSet),
            changes::<PartialObjectMeta<Secret>>(Api::all(client.clone()), all(), Change::Secret),
            changes::<PartialObjectMeta<ConfigMap>>(Api::all(client.clone()), all(), Change::ConfigMap),
            changes(Api::all(client.clone()), all(), Change::Node),
            changes(faults, only, Change::Faults),
        ]);
        Self { client, streams }
    }

    /// Waits for the next change and returns it. The result is never `None`, because watches never end.
    pub async fn next(&mut self) -> Option<Change> {
        self.streams.next().await
    }

    /// Starts a watch for each of `kinds`. Pods wait for custom resources of these kinds.
    pub fn watch_also(&mut self, kinds: Vec<CustomKind>) {
        for kind in kinds {
            let client = self.client.clone();
            let found = async move {
                let api = find(client, &kind).await;
                (api, kind)
            };
            let stream = futures::stream::once(found).flat_map(|(api, kind)| {
                changes(api, watcher::Config::default(), move |event| Change::Custom(kind.clone(), event))
            });
            self.streams.push(stream.boxed());
        }
    }
}

/// Waits until the API server knows the kind, and returns the `Api` for resources of this kind.
async fn find(client: Client, kind: &CustomKind) -> Api<DynamicObject> {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
    let gvk = GroupVersionKind::gvk(group, version, &kind.kind);
    loop {
        if let Ok((resource, capabilities)) = discovery::pinned_kind(&client, &gvk).await {
            return Api::dynamic(client, &resource, &capabilities.scope).constrain(&kind.namespace);
        }
        tokio::time::sleep(UNKNOWN_KIND).await;
    }
}

fn changes<K>(
    api: Api<K>,
    config: watcher::Config,
    change: impl Fn(Event<K>) -> Change + Send + 'static,
) -> BoxStream<'static, Change>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    without_errors(watch(api, config).backoff(Steady)).map(change).boxed()
}

/// Removes errors from the events of a watch, because kube restarts a failed watch by itself.
fn without_errors<T>(stream: impl Stream<Item = Result<T, Error>>) -> impl Stream<Item = T> {
    stream.filter_map(|result| std::future::ready(result.ok()))
}

/// A backoff with a constant delay. The delay of kube's own backoff grows to half a minute, which would slow down tests
/// that restart the API server.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(DELAY)
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}
