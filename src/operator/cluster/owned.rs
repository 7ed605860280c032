//! Caches the Secrets and `ConfigMap`s that have osdpl's label.
//!
//! Each of the two kinds has one watch in each namespace of the cloud. A cached object may be older than the object in
//! the API server, but never older than osdpl's last write: the cache also stores the API server's response to each
//! write, and keeps the version with the higher resourceVersion. If a write is based on an outdated object, the API
//! server refuses the write, and osdpl removes the object from the cache.
//!
//! Anyone who may write Secrets in a namespace can set the label, so each cache is limited to [`CAPACITY`] bytes. If
//! the cache lacks an object, plans request this object separately.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use osdpl_values::CollectSorted;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::watch::{is_forbidden, spawn_watch};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::observed::ReleaseKey;

/// The capacity of the cache of one kind in one namespace, in bytes. A cloud with all services needs only a small
/// part of this capacity.
const CAPACITY: usize = 4 << 20;

/// The memory, in bytes, that an object without data and with minimal metadata takes up (an estimate).
const OBJECT: usize = 1 << 10;

/// The memory, in bytes, that an entry of a map takes up besides its key and value (an estimate).
const ENTRY: usize = 64;

/// The factor by which an object's managed fields take up more memory than their JSON text, because they consist of
/// many small maps.
const MANAGED_FIELDS: usize = 8;

/// The number of objects per page, when a watch lists objects page by page. An object has at most 1 MiB, so a page has
/// at most 8 MiB.
const PAGE: u32 = 8;

/// A kind of objects that this module can cache: `Secret` or `ConfigMap`.
pub(super) trait OwnedKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Returns the approximate size of the object's data in memory, in bytes.
    fn data_size(&self) -> usize;
}

impl OwnedKind for Secret {
    fn data_size(&self) -> usize {
        self.data.iter().flatten().map(|(key, value)| ENTRY + key.len() + value.0.len()).sum()
    }
}

impl OwnedKind for ConfigMap {
    fn data_size(&self) -> usize {
        let texts = self.data.iter().flatten().map(|(key, value)| ENTRY + key.len() + value.len());
        let bytes = self.binary_data.iter().flatten().map(|(key, value)| ENTRY + key.len() + value.0.len());
        texts.chain(bytes).sum()
    }
}

struct Cache<K> {
    objects: BTreeMap<ReleaseKey, Arc<K>>,
    /// The approximate size of all cached objects in memory, in bytes.
    size: usize,
    /// Whether the cache lacks an object, because it was full when the watch received the object. A new LIST request of
    /// the watch sets this field to false.
    is_full: bool,
    /// The names of the objects that the watch has received so far in the list that is in progress; empty between
    /// lists.
    listed: BTreeSet<ReleaseKey>,
    /// Whether the watch has completed its first list, or the API server forbade the list.
    is_known: bool,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), size: 0, is_full: false, listed: BTreeSet::new(), is_known: false }
    }
}

/// The objects of one kind that have osdpl's label: for each namespace, a cache and the watch that updates the cache.
///
/// Anyone who may write Secrets in a namespace can set the label, so the operator watches only the namespaces of the
/// cloud.
pub(super) struct OwnedObjects<K> {
    client: Client,
    trigger: Arc<Notify>,
    namespaces: Mutex<BTreeMap<String, Watched<K>>>,
}

struct Watched<K> {
    cache: Arc<Mutex<Cache<K>>>,
    _watch: AbortOnDropHandle<()>,
}

impl<K: OwnedKind> OwnedObjects<K> {
    /// Creates an empty cache without watches. Every change of an object, except for osdpl's own writes, notifies
    /// `trigger`, which triggers a pass.
    pub(super) fn new(client: Client, trigger: Arc<Notify>) -> Self {
        Self { client, trigger, namespaces: Mutex::default() }
    }

    /// Watches the given namespaces, and stops the watches in all other namespaces.
    pub(super) fn watch(&self, namespaces: &BTreeSet<String>) {
        let mut watched = self.namespaces();
        watched.retain(|namespace, _| namespaces.contains(namespace));
        for namespace in namespaces {
            watched.entry(namespace.clone()).or_insert_with(|| self.watch_namespace(namespace));
        }
    }

    fn watch_namespace(&self, namespace: &str) -> Watched<K> {
        let cache = Arc::<Mutex<Cache<K>>>::default();
        let shared = Arc::clone(&cache);
        let apply = move |event| shared.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
        let api = Api::namespaced(self.client.clone(), namespace);
        let events = watcher(api, watcher::Config::default().labels(DEPLOYMENT_LABEL).page_size(PAGE));
        Watched { cache, _watch: spawn_watch(events, Arc::clone(&self.trigger), apply) }
    }

    /// Whether every watch has completed its first list, or the API server forbade the list.
    ///
    /// osdpl does not wait for a forbidden list, because plans then request the objects one by one.
    pub(super) fn is_known(&self) -> bool {
        let watched = self.namespaces();
        !watched.is_empty() && watched.values().all(|watched| watched.cache().is_known)
    }

    /// Returns all cached objects.
    pub(super) fn all(&self) -> BTreeMap<ReleaseKey, Arc<K>> {
        self.namespaces().values().flat_map(|watched| watched.cache().objects.clone()).collect_map()
    }

    /// Caches an object that the API server returned in response to osdpl's own write.
    pub(super) fn put(&self, object: K) {
        if let Some(watched) = self.namespaces().get(&object.namespace().unwrap_or_default()) {
            watched.cache().put(object);
        }
    }

    /// Removes an object from the cache, because osdpl has deleted the object, or because a write that was based on the
    /// cached object has failed.
    pub(super) fn forget(&self, namespace: &str, name: &str) {
        if let Some(watched) = self.namespaces().get(namespace) {
            watched.cache().remove(&ReleaseKey::new(namespace, name));
        }
    }

    /// Returns one line about each cache that has no room for all its objects.
    pub(super) fn problems(&self) -> Vec<String> {
        let watched = self.namespaces();
        let full = watched.iter().filter(|(_, watched)| watched.cache().is_full);
        let describe = |(namespace, _): (&String, _)| {
            format!(
                "the {}s with the label {DEPLOYMENT_LABEL} in namespace {namespace} have more than {} MiB, so osdpl \
                 does not cache all of them; delete those that osdpl did not create, and find out what wrote them",
                K::kind(&()),
                CAPACITY >> 20
            )
        };
        full.map(describe).collect()
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<String, Watched<K>>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Watched<K> {
    fn cache(&self) -> MutexGuard<'_, Cache<K>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: OwnedKind> Cache<K> {
    /// Applies an event of the watch to the cache; returns whether the event must trigger a pass.
    fn apply(&mut self, event: Result<watcher::Event<K>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Init) => {
                self.listed.clear();
                self.is_full = false;
                false
            }
            Ok(watcher::Event::InitApply(object)) => {
                self.listed.insert(name(&object));
                self.put(object);
                false
            }
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut self.listed);
                let gone: Vec<_> = self.objects.keys().filter(|name| !listed.contains(name)).cloned().collect();
                for name in &gone {
                    self.remove(name);
                }
                self.is_known = true;
                true
            }
            Ok(watcher::Event::Apply(object)) => self.put(object),
            Ok(watcher::Event::Delete(object)) => {
                let name = name(&object);
                let is_outdated = self.objects.get(&name).is_some_and(|cached| is_older(&object, &**cached));
                // If the cache is full, it may lack the deleted object. A plan may have read this object separately. So
                // the deletion triggers a pass even if the cache does not contain the object.
                !is_outdated && (self.remove(&name) || self.is_full)
            }
            Err(error) => is_forbidden(&error) && !std::mem::replace(&mut self.is_known, true),
        }
    }

    fn put(&mut self, object: K) -> bool {
        let name = name(&object);
        let is_known =
            |cached: &Arc<K>| is_older(&object, &**cached) || object.resource_version() == cached.resource_version();
        if self.objects.get(&name).is_some_and(is_known) {
            return false;
        }
        self.remove(&name);
        let size = size(&object);
        if self.size + size > CAPACITY {
            self.is_full = true;
        } else {
            self.size += size;
            self.objects.insert(name, Arc::new(object));
        }
        true
    }

    fn remove(&mut self, name: &ReleaseKey) -> bool {
        let removed = self.objects.remove(name);
        self.size -= removed.as_ref().map_or(0, |object| size(&**object));
        removed.is_some()
    }
}

/// Returns the approximate memory that an object takes up, in bytes. This includes the metadata, because annotations
/// alone may have 256 KiB.
fn size<K: OwnedKind>(object: &K) -> usize {
    let metadata = object.meta();
    let length = |text: serde_json::Result<Vec<u8>>| text.map_or(0, |text| text.len());
    let managed_fields = length(serde_json::to_vec(&metadata.managed_fields));
    OBJECT + object.data_size() + length(serde_json::to_vec(metadata)) + MANAGED_FIELDS * managed_fields
}

fn name<K: OwnedKind>(object: &K) -> ReleaseKey {
    ReleaseKey::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// Whether `object` is an older version of a Kubernetes object than the version `than`, as the resourceVersions of both
/// show.
///
/// Kubernetes guarantees that a newer version of an object has a higher resourceVersion (KEP-5504). The result is
/// `false` if a resourceVersion is not a number.
pub(crate) fn is_older<K: ResourceExt>(object: &K, than: &K) -> bool {
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

    fn version(cache: &Cache<Secret>) -> Option<String> {
        cache.objects.values().next().and_then(|cached| cached.resource_version())
    }

    #[test]
    fn keeps_own_writes_until_a_newer_event() {
        let mut cache = Cache::<Secret>::default();
        assert!(cache.put(secret(9)));
        for outdated in [watcher::Event::Apply(secret(7)), watcher::Event::Delete(secret(8))] {
            assert!(!cache.apply(Ok(outdated)));
            assert_eq!(version(&cache).as_deref(), Some("9"));
        }
        assert!(!cache.apply(Ok(watcher::Event::Apply(secret(9)))), "the event of osdpl's own write triggers no pass");
        assert!(cache.apply(Ok(watcher::Event::Apply(secret(10)))));
        assert!(cache.apply(Ok(watcher::Event::Delete(secret(11)))));
        assert_eq!(version(&cache), None);
    }

    #[test]
    fn bounds_the_size_of_all_objects() {
        let sized = |name: &str, version, length: usize| {
            let mut secret = secret(version);
            secret.metadata.name = Some(name.to_owned());
            secret.data = Some([("key".to_owned(), k8s_openapi::ByteString(vec![0; length]))].into());
            secret
        };
        let mut cache = Cache::<Secret>::default();
        for index in 0..20 {
            cache.apply(Ok(watcher::Event::InitApply(sized(&format!("a{index}"), 1, 1 << 20))));
            cache.apply(Ok(watcher::Event::InitApply(sized(&format!("b{index}"), 1, 10))));
        }
        assert!(cache.is_full && cache.size <= CAPACITY);
        assert_eq!(cache.objects.len(), 3 + 20, "small objects have room");
        for index in 0..20 {
            cache.apply(Ok(watcher::Event::Apply(sized(&format!("a{index}"), 2, 10))));
        }
        assert_eq!(cache.objects.len(), 40);
        assert!(cache.size > 40 * (OBJECT + 13) && cache.size < 40 * (OBJECT + 500), "{}", cache.size);
        for event in [watcher::Event::Init, watcher::Event::InitDone] {
            cache.apply(Ok(event));
        }
        assert!(!cache.is_full && cache.size == 0);
        for index in 0..40 {
            let mut empty = sized(&format!("c{index}"), 3, 0);
            let text = "a".repeat(250 << 10);
            let fields = serde_json::json!({"manager": "x", "fieldsV1": {"f:data": {format!("f:{text}"): {}}}});
            if index % 2 == 0 {
                empty.metadata.annotations = Some([("note".to_owned(), text)].into());
            } else {
                empty.metadata.managed_fields = Some(vec![serde_json::from_value(fields).unwrap()]);
            }
            cache.apply(Ok(watcher::Event::Apply(empty)));
        }
        assert!(cache.is_full && cache.objects.len() <= 16, "the metadata counts, too: {}", cache.objects.len());
    }

    #[test]
    fn forgets_objects_that_a_new_list_lacks() {
        let mut cache = Cache::<Secret>::default();
        cache.put(secret(9));
        assert!(!cache.apply(Ok(watcher::Event::Init)));
        assert!(!cache.is_known);
        assert!(cache.apply(Ok(watcher::Event::InitDone)));
        assert!(cache.is_known && cache.objects.is_empty());
    }

    #[test]
    fn does_not_wait_for_a_forbidden_watch() {
        let forbidden = || {
            let status = kube::core::Status::failure("secrets is forbidden", "Forbidden").with_code(403);
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let mut cache = Cache::<Secret>::default();
        assert!(
            !cache.apply(Err(watcher::Error::NoResourceVersion)) && !cache.is_known,
            "after this error, passes keep waiting for the first list, because the watch retries"
        );
        assert!(cache.apply(forbidden()) && cache.is_known);
        assert!(!cache.apply(forbidden()), "a repeated refusal triggers no second pass");
    }
}
