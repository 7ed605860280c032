//! A kubelet's waiting, and `kubernetes-entrypoint`'s, played for real.
//!
//! Simulated init containers succeed at once, which would hide what decides everything with OpenStack-Helm:
//! the init container `init` holds each pod until its dependencies are there, and a real kubelet holds each
//! pod whose Secrets or ConfigMaps are missing. This program watches what pods wait for and lets a scheduled
//! pod go by an annotation that kwok's stages ask for. Nothing is polled: every change of the watched world
//! is judged at once. It also puts fault rules on pods, before it lets them go.
//!
//! `needs`, `facts`, `table`, `world`, `rules` and `judge` are plain data and functions; `watch` and this file talk to the API.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

mod events;
mod facts;
mod judge;
mod needs;
pub(crate) mod rules;
mod table;
mod watch;
mod world;

use rules::{FAULTS, FAULTS_NAMESPACE, IN_FORCE};
use world::{Touched, World};

/// Begins every annotation and label by which pods and nodes are steered.
pub(crate) const PREFIX: &str = "kwok.osdpl.dev/";
/// Patches under way at once; enough for a burst of pods, few enough to leave the API server to others.
const PATCHES: usize = 32;
/// How long after a failed patch the world is judged again. What made it fail mostly was an API server that is away or busy, and no watch tells
/// when it is not any more.
const AGAIN: Duration = Duration::from_millis(200);

/// Watches and judges until the process ends.
pub(crate) async fn run(client: Client) {
    let (sender, mut failures) = mpsc::unbounded_channel();
    let mut hand =
        Hand { client: client.clone(), permits: Arc::new(Semaphore::new(PATCHES)), sender, sent: HashMap::new() };
    let mut changes = watch::Changes::new(client);
    let mut world = World::default();
    let mut touched = Touched::default();
    loop {
        tokio::select! {
            Some(change) = changes.next() => world.learn(change, &mut touched),
            Some(uid) = failures.recv() => {
                hand.sent.remove(&uid);
                touched.all = true;
            }
        }
        // A burst is judged once.
        while let Some(Some(change)) = changes.next().now_or_never() {
            world.learn(change, &mut touched);
        }
        changes.watch_also(std::mem::take(&mut touched.customs));
        if world.is_known() {
            hand.carry_out(&world, &std::mem::take(&mut touched));
        }
    }
}

/// Writes judgements to pods, each once.
struct Hand {
    client: Client,
    permits: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<String>,
    /// What was sent last, by the object's uid: judgements repeat until the watch has brought them back.
    sent: HashMap<String, Value>,
}

impl Hand {
    fn carry_out(&mut self, world: &World, touched: &Touched) {
        for (key, pod) in world.pods().filter(|(key, pod)| touched.has(key, pod)) {
            let annotations = judge::judge(key, pod, world);
            if annotations.is_empty() {
                self.sent.remove(&pod.uid);
            } else if let Some(patch) = self.unsent(&pod.uid, annotations) {
                events::failed_mounts(&self.client, key, pod, &patch);
                self.send(Api::<Pod>::namespaced(self.client.clone(), &key.namespace), &key.name, &pod.uid, patch);
            }
        }
        if let Some((digest, uid)) = world.rules_to_acknowledge()
            && let Some(patch) = self.unsent(uid, [(IN_FORCE.to_string(), Some(digest))].into())
        {
            self.send(Api::<ConfigMap>::namespaced(self.client.clone(), FAULTS_NAMESPACE), FAULTS, uid, patch);
        }
    }

    fn unsent(&mut self, uid: &str, annotations: judge::Annotations) -> Option<Value> {
        let annotations: HashMap<String, Option<String>> =
            annotations.into_iter().map(|(key, value)| (format!("{PREFIX}{key}"), value)).collect();
        // The uid guards against a namesake that came after the one we judged.
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
                    eprintln!("cannot steer {name}: {}", crate::error::said(&error));
                }
                tokio::time::sleep(AGAIN).await;
                // The receiver lives as long as the process.
                let _ = sender.send(uid);
            }
        });
    }
}
