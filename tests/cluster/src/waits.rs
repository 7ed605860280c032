//! Makes simulated pods wait for the objects for which a real kubelet and OpenStack-Helm's `kubernetes-entrypoint`
//! wait.
//!
//! A real kubelet does not start a pod whose Secrets or ConfigMaps are missing. In OpenStack-Helm's pods, the init
//! container `init` runs `kubernetes-entrypoint`, which waits until the pod's dependencies are available. kwok
//! simulates neither of these waits. So this module watches the Secrets, ConfigMaps and dependencies. When all objects
//! for which a scheduled pod waits are available, the module releases the pod: it sets an annotation, without which
//! kwok's stages do not start the pod. Before the release, the module applies fault rules to the pod.
//!
//! The submodules `needs`, `facts`, `table`, `world`, `rules` and `evaluate` contain only data and pure functions. Only
//! this file and the submodules `watch` and `events` send requests to the API server.

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

/// The prefix of every annotation and label that controls simulated pods and nodes.
pub(crate) const PREFIX: &str = "kwok.osdpl.dev/";
/// The maximum number of patches that the supervisor sends concurrently. The limit protects the API server when the
/// supervisor releases many pods at once.
const PATCHES: usize = 32;
/// The delay between a failed patch of an object and the next evaluation of this object. A patch usually fails because
/// the API server is unavailable or busy. No event reports when the API server recovers, so the supervisor must retry.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Watches the cluster, and releases each pod when all objects for which it waits are available. Runs until the process
/// exits.
pub(crate) async fn run(client: Client) {
    let (sender, mut finished) = mpsc::unbounded_channel();
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
            Some((uid, succeeded)) = finished.recv() => touched.all |= writer.finish(&uid, succeeded),
        }
        // Take all pending changes before the evaluation, so that a burst of changes is evaluated only once.
        while let Some(Some(change)) = changes.next().now_or_never() {
            world.apply(change, &mut touched);
        }
        changes.watch_also(std::mem::take(&mut touched.customs));
        if world.is_known() {
            writer.write_results(&world, &std::mem::take(&mut touched));
        }
    }
}

/// Patches pods and the ConfigMap of the fault rules. Each pod gets the control annotations that [`evaluate`] returns.
/// The ConfigMap gets the digest of the rules that are in effect. Does not send the same patch twice.
struct ResultWriter {
    client: Client,
    permits: Arc<Semaphore>,
    /// Tells [`run`] that the API server has responded to a patch, or that the patch failed: the uid of the patched
    /// object, and whether the patch succeeded.
    sender: mpsc::UnboundedSender<(String, bool)>,
    /// The last patch of each object, by the object's uid.
    sent: HashMap<String, SentPatch>,
}

/// A patch that the supervisor has sent. Until the watch reports the patched object, each evaluation of the object
/// returns the same patch. The supervisor compares each returned patch with this one, so that it does not send the same
/// patch twice.
struct SentPatch {
    patch: Value,
    /// Whether the supervisor is waiting for the API server's response. While it waits, it sends no other patch of the
    /// object, because the API server could execute the later patch first.
    is_pending: bool,
    /// Whether an evaluation has returned a different patch while the supervisor was waiting for the response.
    is_outdated: bool,
}

impl ResultWriter {
    fn write_results(&mut self, world: &World, touched: &Touched) {
        for (key, pod) in world.pods().filter(|(key, pod)| touched.has(key, pod)) {
            let annotations = evaluate::evaluate(key, pod, world);
            if annotations.is_empty() {
                if self.sent.get(&pod.uid).is_some_and(|sent| !sent.is_pending) {
                    self.sent.remove(&pod.uid);
                }
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
        // The patch contains the uid, so that the API server refuses the patch if a newer pod has the same name.
        let patch = json!({ "metadata": { "uid": uid, "annotations": annotations } });
        match self.sent.get_mut(uid) {
            Some(sent) if sent.patch == patch => None,
            Some(sent) if sent.is_pending => {
                sent.is_outdated = true;
                None
            }
            Some(_) | None => {
                let sent = SentPatch { patch: patch.clone(), is_pending: true, is_outdated: false };
                self.sent.insert(uid.to_string(), sent);
                Some(patch)
            }
        }
    }

    /// Records that the API server has responded to a patch. Returns whether the object must be evaluated again,
    /// because the patch failed or is outdated.
    fn finish(&mut self, uid: &str, succeeded: bool) -> bool {
        let Some(sent) = self.sent.get_mut(uid) else { return true };
        sent.is_pending = false;
        let again = !succeeded || sent.is_outdated;
        if again {
            self.sent.remove(uid);
        }
        again
    }

    fn send<K>(&self, api: Api<K>, name: &str, uid: &str, patch: Value)
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let (name, uid) = (name.to_string(), uid.to_string());
        let (permits, sender) = (Arc::clone(&self.permits), self.sender.clone());
        tokio::spawn(async move {
            let _permit = permits.acquire().await;
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            let succeeded = patched.is_ok();
            if let Err(error) = patched {
                let is_gone =
                    matches!(&error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict());
                if !is_gone {
                    eprintln!("cannot patch {name}: {}", crate::error::api_message(&error));
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
            // Ignore the result: sending can't fail, because the receiver exists until the process exits.
            let _ = sender.send((uid, succeeded));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sends_one_patch_of_an_object_at_a_time() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let (sender, _receiver) = mpsc::unbounded_channel();
        let mut writer =
            ResultWriter { client, permits: Arc::new(Semaphore::new(PATCHES)), sender, sent: HashMap::new() };
        let annotations = |digest: &str| [(IN_FORCE.to_string(), Some(digest.to_string()))].into();
        assert!(writer.new_patch("a", annotations("old")).is_some());
        assert_eq!(writer.new_patch("a", annotations("old")), None, "the same patch must not be sent twice");
        assert_eq!(writer.new_patch("a", annotations("new")), None, "only one patch per object may be in flight");
        assert!(writer.new_patch("b", annotations("old")).is_some());
        assert!(writer.finish("a", true), "after the response to the old patch, the new patch must be sent");
        assert!(writer.new_patch("a", annotations("new")).is_some());
        assert!(!writer.finish("a", true), "after the response to the newest patch, no patch must be sent");
        assert!(!writer.finish("b", true));
        assert_eq!(
            writer.new_patch("b", annotations("old")),
            None,
            "a successful patch must not be sent again before the watch reports it"
        );
        assert!(writer.finish("b", false), "a failed patch must be sent again");
    }
}
