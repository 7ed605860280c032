//! The waits of a kubelet and of `kubernetes-entrypoint`.
//!
//! Simulated init containers succeed at once, which would hide an essential behaviour of OpenStack-Helm: the init
//! container `init` blocks each pod until its dependencies are available, and a real kubelet blocks each pod whose
//! Secrets or ConfigMaps are missing. This program watches these dependencies and releases a scheduled pod with an
//! annotation that kwok's stages read. Nothing is polled: every change is evaluated at once. It also applies fault
//! rules to pods before it releases them.
//!
//! `needs`, `facts`, `table`, `world`, `rules` and `evaluate` are plain data and functions; `watch` and this file use
//! the API.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

mod evaluate;
mod events;
mod facts;
mod needs;
pub(crate) mod rules;
mod table;
mod watch;
mod world;

use rules::{FAULTS, FAULTS_NAMESPACE, IN_FORCE};
use world::{Touched, World};

/// The prefix of every annotation and label that controls pods and nodes.
pub(crate) const PREFIX: &str = "kwok.osdpl.dev/";
/// The number of concurrent patches: enough for a burst of pods, without overloading the API server.
const PATCHES: usize = 32;
/// The delay of the next evaluation after a failed patch. Usually the API server was unavailable or busy, and no watch
/// reports its recovery.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Watches and evaluates until the process exits.
pub(crate) async fn run(client: Client) {
    let (sender, mut failures) = mpsc::unbounded_channel();
    let mut writer = ResultWriter {
        client: client.clone(),
        permits: Arc::new(Semaphore::new(PATCHES)),
        sender,
        sent: HashMap::new(),
    };
    let mut changes = watch::Changes::new(client);
    let mut world = World::default();
    let mut touched = Touched::default();
    loop {
        tokio::select! {
            Some(change) = changes.next() => world.apply(change, &mut touched),
            Some(uid) = failures.recv() => {
                writer.sent.remove(&uid);
                touched.all = true;
            }
        }
        // A burst is evaluated once.
        while let Some(Some(change)) = changes.next().now_or_never() {
            world.apply(change, &mut touched);
        }
        changes.watch_also(std::mem::take(&mut touched.customs));
        if world.is_known() {
            writer.write_results(&world, &std::mem::take(&mut touched));
        }
    }
}

/// Writes results to pods, each once.
struct ResultWriter {
    client: Client,
    permits: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<String>,
    /// The last patch by the object's uid: evaluations repeat until the watch returns the change.
    sent: HashMap<String, Value>,
}

impl ResultWriter {
    fn write_results(&mut self, world: &World, touched: &Touched) {
        for (key, pod) in world.pods().filter(|(key, pod)| touched.has(key, pod)) {
            let annotations = evaluate::evaluate(key, pod, world);
            if annotations.is_empty() {
                self.sent.remove(&pod.uid);
            } else if let Some(patch) = self.new_patch(&pod.uid, annotations) {
                events::failed_mounts(&self.client, key, pod, &patch);
                self.send(Api::<Pod>::namespaced(self.client.clone(), &key.namespace), &key.name, &pod.uid, patch);
            }
        }
        if let Some((digest, uid)) = world.rules_to_acknowledge()
            && let Some(patch) = self.new_patch(uid, [(IN_FORCE.to_string(), Some(digest))].into())
        {
            self.send(Api::<ConfigMap>::namespaced(self.client.clone(), FAULTS_NAMESPACE), FAULTS, uid, patch);
        }
    }

    fn new_patch(&mut self, uid: &str, annotations: evaluate::Annotations) -> Option<Value> {
        let annotations: HashMap<String, Option<String>> =
            annotations.into_iter().map(|(key, value)| (format!("{PREFIX}{key}"), value)).collect();
        // The uid protects a newer pod of the same name.
        let patch = json!({ "metadata": { "uid": uid, "annotations": annotations } });
        let is_new = self.sent.get(uid) != Some(&patch);
        is_new.then(|| {
            self.sent.insert(uid.to_string(), patch.clone());
            patch
        })
    }

    fn send<K>(&self, api: Api<K>, name: &str, uid: &str, patch: Value)
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let (name, uid) = (name.to_string(), uid.to_string());
        let (permits, sender) = (Arc::clone(&self.permits), self.sender.clone());
        tokio::spawn(async move {
            let _permit = permits.acquire().await;
            if let Err(error) = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                let is_gone =
                    matches!(&error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict());
                if !is_gone {
                    eprintln!("cannot patch {name}: {}", crate::error::api_message(&error));
                }
                tokio::time::sleep(RETRY_DELAY).await;
                // The receiver exists as long as the process.
                let _ = sender.send(uid);
            }
        });
    }
}
