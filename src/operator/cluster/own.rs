//! Our own Secrets and `ConfigMap`s, whole, as a watch of each kind tells them: a pass asks the API server for none that is here.
//!
//! What is held may be older than the truth, never older than what we wrote: an answer of the API server is held like an event, and the
//! higher resourceVersion counts. What is not held is asked for, so whatever is in doubt is dropped. A write from a state that is not
//! the newest is refused by the API server (its resourceVersion), and drops what is held.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::follow::follow;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::observed::ReleaseKey;

/// A kind that is held.
pub(super) trait Kept:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl Kept for Secret {}
impl Kept for ConfigMap {}

struct Held<K> {
    objects: BTreeMap<ReleaseKey, Arc<K>>,
    /// What the list that is under way has told.
    arriving: BTreeSet<ReleaseKey>,
    /// Whether the watch has told everything once, or was refused.
    heard: bool,
}

impl<K> Default for Held<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), arriving: BTreeSet::new(), heard: false }
    }
}

/// The Secrets with our label.
pub(super) type OwnSecrets = Own<Secret>;

/// The objects of a kind with our label.
pub(super) struct Own<K> {
    held: Arc<Mutex<Held<K>>>,
    _watch: AbortOnDropHandle<()>,
}

impl<K: Kept> Own<K> {
    /// Watches them all; `poke` is told of every change that is not ours.
    pub fn new(client: Client, poke: Arc<Notify>) -> Self {
        let held = Arc::<Mutex<Held<K>>>::default();
        let told = Arc::clone(&held);
        let hear = move |event| told.lock().unwrap_or_else(PoisonError::into_inner).hear(event);
        let watch = follow(watcher(Api::all(client), watcher::Config::default().labels(DEPLOYMENT_LABEL)), poke, hear);
        Self { held, _watch: watch }
    }

    /// Whether the watch has told all there are, or was refused: then each is asked for.
    pub fn is_heard(&self) -> bool {
        self.held().heard
    }

    /// All of them as they are held.
    pub fn all(&self) -> BTreeMap<ReleaseKey, Arc<K>> {
        self.held().objects.clone()
    }

    /// Holds what the API server answered to a write.
    pub fn put(&self, object: K) {
        self.held().put(object);
    }

    /// Drops what is held: the API server refused a write from it.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.held().objects.remove(&ReleaseKey::new(namespace, name));
    }

    fn held(&self) -> MutexGuard<'_, Held<K>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kept> Held<K> {
    /// Takes in what the watch tells; returns whether a pass should look.
    fn hear(&mut self, event: Result<watcher::Event<K>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Init) => {
                self.arriving.clear();
                false
            }
            Ok(watcher::Event::InitApply(object)) => {
                self.arriving.insert(name(&object));
                self.put(object);
                false
            }
            Ok(watcher::Event::InitDone) => {
                let arrived = std::mem::take(&mut self.arriving);
                self.objects.retain(|name, _| arrived.contains(name));
                self.heard = true;
                true
            }
            Ok(watcher::Event::Apply(object)) => self.put(object),
            Ok(watcher::Event::Delete(object)) => {
                let name = name(&object);
                let is_past = self.objects.get(&name).is_some_and(|held| is_older(&object, &**held));
                !is_past && self.objects.remove(&name).is_some()
            }
            Err(error) => is_refusal(&error) && !std::mem::replace(&mut self.heard, true),
        }
    }

    fn put(&mut self, object: K) -> bool {
        let name = name(&object);
        let known = self.objects.get(&name);
        if known.is_some_and(|held| is_older(&object, &**held) || object.resource_version() == held.resource_version())
        {
            return false;
        }
        self.objects.insert(name, Arc::new(object));
        true
    }
}

/// Whether it can't be watched with these rights. What else goes wrong is tried again.
pub(super) fn is_refusal(error: &watcher::Error) -> bool {
    let refused = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_forbidden());
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => refused(error),
        watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) | watcher::Error::NoResourceVersion => false,
    }
}

fn name<K: Kept>(object: &K) -> ReleaseKey {
    ReleaseKey::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// By resourceVersion, which counts up (KEP-5504); what is no number is taken for new.
pub fn is_older<K: ResourceExt>(object: &K, than: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
    version(object).zip(version(than)).is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn secret(version: u64) -> Secret {
        let metadata = ObjectMeta {
            namespace: Some("cloud".into()),
            name: Some("credentials".into()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        };
        Secret { metadata, ..Secret::default() }
    }

    fn version(held: &Held<Secret>) -> Option<String> {
        held.objects.values().next().and_then(|held| held.resource_version())
    }

    #[test]
    fn what_we_wrote_is_held_until_the_watch_tells_something_newer() {
        let mut held = Held::<Secret>::default();
        assert!(held.put(secret(9)));
        for past in [watcher::Event::Apply(secret(7)), watcher::Event::Delete(secret(8))] {
            assert!(!held.hear(Ok(past)));
            assert_eq!(version(&held).as_deref(), Some("9"));
        }
        assert!(!held.hear(Ok(watcher::Event::Apply(secret(9)))), "our own write is no news");
        assert!(held.hear(Ok(watcher::Event::Apply(secret(10)))));
        assert!(held.hear(Ok(watcher::Event::Delete(secret(11)))));
        assert_eq!(version(&held), None);
    }

    #[test]
    fn what_a_new_list_does_not_tell_is_asked_for() {
        let mut held = Held::<Secret>::default();
        held.put(secret(9));
        assert!(!held.hear(Ok(watcher::Event::Init)));
        assert!(!held.heard);
        assert!(held.hear(Ok(watcher::Event::InitDone)));
        assert!(held.heard && held.objects.is_empty());
    }

    #[test]
    fn a_watch_that_is_refused_keeps_nobody_waiting() {
        let refused = || {
            let status = kube::core::Status::failure("secrets is forbidden", "Forbidden").with_code(403);
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let mut held = Held::<Secret>::default();
        assert!(!held.hear(Err(watcher::Error::NoResourceVersion)) && !held.heard, "it is tried again");
        assert!(held.hear(refused()) && held.heard);
        assert!(!held.hear(refused()), "it is told once");
    }
}
