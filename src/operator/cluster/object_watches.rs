//! Watches the objects that passes read: objects that the spec names, osdpl's own objects, namespaces, and objects of
//! Rook.
//!
//! Each object that the spec names has a separate watch, which is limited to the object's name. So the operator never
//! receives other Secrets of the namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::runtime::watcher;
use osdpl_client::Scope;
use osdpl_values::CollectSorted;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::additions::unreadable;
use super::namespaces::{NamespaceWatch, Namespaces};
use super::owned::OwnedObjects;
use super::rook::{RookObjects, RookWatch};
use super::watch::spawn_watch;
use osdpl_core::api::{AdditionReference, ValuesKind};
use osdpl_core::catalog::{ConfigMapData, NamedAdditions};
use osdpl_decide::{Data, ObjectState, Objects, Reference, Requests};

struct WatchedObject {
    _watch: AbortOnDropHandle<()>,
    state: Arc<Mutex<ObjectState>>,
}

type WatchedObjects = Mutex<BTreeMap<Reference, WatchedObject>>;

/// The watches whose cached objects become part of the snapshot of each pass.
///
/// Kept so that a pass gets the objects without a request to the API server. A restart loses only the caches: the new
/// watches list the objects again, and passes that need an object wait until its watch has reported it.
pub(crate) struct ObjectWatches {
    pub(super) client: kube::Client,
    /// The trigger of passes. Every watch notifies it of a change.
    pub(super) trigger: Arc<Notify>,
    /// The watches on the objects that the spec names, such as those of `valuesFrom`. After a restart, the first plan
    /// requests them again.
    named: WatchedObjects,
    /// The watches on the `ConfigMap`s of additions. A pass needs these objects before it can load the catalogue. After
    /// a restart, the first pass starts them again.
    additions: WatchedObjects,
    /// The watches on objects that exist without osdpl's label, but have the name and the data of an object that osdpl
    /// would create. osdpl uses such an object instead of creating one. After a restart, a plan requests them again.
    foreign: WatchedObjects,
    /// The watch on namespaces, with their names. After a restart, the new watch lists them again.
    namespaces: NamespaceWatch,
    /// The Secrets with osdpl's label, also those that osdpl has written and that the watch does not report yet. After
    /// a restart, the new watches list all of them.
    pub(super) own_secrets: OwnedObjects<Secret>,
    /// The `ConfigMap`s with osdpl's label; kept like `own_secrets`.
    pub(super) own_maps: OwnedObjects<ConfigMap>,
    /// The namespaces in which the operator has rights.
    scope: Scope,
    /// The watches on Rook's objects; `None` until a plan requests them. After a restart, a plan requests them again.
    rook: Mutex<Option<RookWatch>>,
}

impl ObjectWatches {
    /// Starts the watches that do not depend on a spec. Every change of a watched object notifies `trigger`, which
    /// triggers a pass.
    pub(super) fn new(client: kube::Client, scope: &Scope, trigger: Arc<Notify>) -> Self {
        Self {
            namespaces: NamespaceWatch::new(client.clone(), Arc::clone(&trigger)),
            own_secrets: OwnedObjects::new(client.clone(), Arc::clone(&trigger)),
            own_maps: OwnedObjects::new(client.clone(), Arc::clone(&trigger)),
            scope: scope.clone(),
            named: Mutex::default(),
            additions: Mutex::default(),
            foreign: Mutex::default(),
            rook: Mutex::default(),
            client,
            trigger,
        }
    }

    /// Watches the additions that `references` name in `namespace`, and returns them; `None` until the watches have
    /// reported each addition.
    pub(crate) fn additions(&self, namespace: &str, references: &[AdditionReference]) -> Option<NamedAdditions> {
        let reference =
            |name: &str| Reference { kind: ValuesKind::ConfigMap, namespace: namespace.into(), name: name.into() };
        self.watch_objects(&self.additions, &references.iter().map(|one| reference(&one.name)).collect_set());
        let states = states(&self.additions);
        let is_read = states.values().all(|state| *state != ObjectState::Unread);
        let data = |name: &str| states.get(&reference(name)).map_or(Ok(None), config_map_data);
        is_read.then(|| NamedAdditions::read(references, namespace, data))
    }

    /// Returns the namespaces of the cluster. Until the watch has listed them, every namespace counts as existing.
    pub(crate) fn namespaces(&self) -> Namespaces {
        self.namespaces.namespaces().unwrap_or_default()
    }

    /// Starts watches on the objects that the plan requests, and stops all watches on other objects.
    pub(crate) fn subscribe(&self, requests: &Requests) {
        let permitted =
            requests.namespaces.iter().filter(|namespace| self.scope.contains(namespace)).cloned().collect_set();
        if !requests.namespaces.is_empty() {
            self.own_secrets.watch(&permitted);
            self.own_maps.watch(&permitted);
        }
        self.watch_objects(&self.named, &requests.objects);
        self.watch_objects(&self.foreign, &requests.foreign);
        self.watch_rook(requests.rook.as_ref().map(|(namespace, kinds)| (namespace.as_str(), kinds.as_slice())));
    }

    /// Starts two groups of watches in the namespace of `target`: on Rook's objects that osdpl created, and on all
    /// objects of the kinds in `target`. Only the second group caches its objects.
    ///
    /// `None` stops the watches.
    fn watch_rook(&self, target: Option<(&str, &[&'static str])>) {
        let mut watch = self.rook.lock().unwrap_or_else(PoisonError::into_inner);
        if !target.is_some_and(|(namespace, kinds)| watch.as_ref().is_some_and(|watch| watch.is_for(namespace, kinds)))
        {
            *watch = target.map(|(namespace, kinds)| RookWatch::new(&self.client, namespace, kinds, &self.trigger));
        }
    }

    /// Returns the cached objects of Rook, by kind and name.
    fn rook_objects(&self) -> RookObjects {
        let watch = self.rook.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().map(RookWatch::objects).unwrap_or_default()
    }

    /// Returns whether an object of Rook that osdpl created could have changed since the last call of this function.
    ///
    /// At the first call after the start of the watches, and without watches, the result is `true`.
    pub(crate) fn take_rook_changed(&self) -> bool {
        let watch = self.rook.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().is_none_or(RookWatch::take_changed)
    }

    fn watch_objects(&self, watched: &WatchedObjects, requested: &BTreeSet<Reference>) {
        let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|reference, _| requested.contains(reference));
        for reference in requested {
            watched.entry(reference.clone()).or_insert_with(|| self.watch_object(reference));
        }
    }

    /// Returns the cached state of all watched objects, for the snapshot of a pass.
    pub(crate) fn snapshot(&self) -> Objects {
        Objects {
            named: states(&self.named),
            foreign: states(&self.foreign),
            secrets: self.own_secrets.all(),
            maps: self.own_maps.all(),
            namespaces: self.namespaces().all,
            listed: self.own_secrets.is_known() && self.own_maps.is_known() && self.namespaces.namespaces().is_some(),
            rook: self.rook_objects(),
        }
    }

    /// Returns one line about each cache that has no room for all objects of its kind and namespace.
    pub(crate) fn problems(&self) -> Vec<String> {
        [self.own_secrets.problems(), self.own_maps.problems()].concat()
    }

    fn watch_object(&self, reference: &Reference) -> WatchedObject {
        let Reference { kind, namespace, name } = reference;
        match kind {
            ValuesKind::Secret => {
                let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
                self.follow(watcher::watch_object(api, name), |secret| {
                    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect_map()
                })
            }
            ValuesKind::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
                self.follow(watcher::watch_object(api, name), |map| {
                    map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes())).collect_map()
                })
            }
        }
    }

    fn follow<K: Send + 'static>(
        &self,
        events: impl Stream<Item = Result<Option<K>, watcher::Error>> + Send + 'static,
        data: fn(K) -> Data,
    ) -> WatchedObject {
        let state = Arc::<Mutex<ObjectState>>::default();
        let shared = Arc::clone(&state);
        let watch = spawn_watch(events, Arc::clone(&self.trigger), move |event| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            update(&mut state, event.map(|object| object.map(data)))
        });
        WatchedObject { _watch: watch, state }
    }
}

/// Updates the state of an object with an event of its watch; returns whether the state changed.
///
/// Until the watch has reported the object, an error sets the state to `Failed`. After that, an error does not change
/// the state: it only interrupts the watch, and passes keep using the state that the watch reported last.
fn update(state: &mut ObjectState, event: Result<Option<Data>, watcher::Error>) -> bool {
    let new = match event {
        Ok(Some(data)) => ObjectState::Read(Arc::new(data)),
        Ok(None) => ObjectState::Missing,
        Err(error) if matches!(state, ObjectState::Unread | ObjectState::Failed(_)) => {
            ObjectState::Failed(error.to_string())
        }
        Err(_) => return false,
    };
    let is_changed = *state != new;
    *state = new;
    is_changed
}

/// Returns the data of a watched `ConfigMap`.
fn config_map_data(state: &ObjectState) -> ConfigMapData {
    match state {
        ObjectState::Read(data) => {
            // The watch has converted the text in the ConfigMap to bytes, so convert the bytes back to text.
            let text = |(key, bytes): (&String, &Vec<u8>)| (key.clone(), String::from_utf8_lossy(bytes).into_owned());
            Ok(Some(data.iter().map(text).collect_map()))
        }
        ObjectState::Failed(error) => Err(unreadable(error)),
        ObjectState::Missing | ObjectState::Unread => Ok(None),
    }
}

fn states(watched: &WatchedObjects) -> BTreeMap<Reference, ObjectState> {
    let watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
    let state = |object: &WatchedObject| object.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
    watched.iter().map(|(reference, object)| (reference.clone(), state(object))).collect_map()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_watch_keeps_the_state() {
        let error = || Err(watcher::Error::NoResourceVersion);
        let data = Data::from([("key".to_owned(), b"value".to_vec())]);
        let mut state = ObjectState::default();
        assert!(update(&mut state, error()));
        assert!(matches!(state, ObjectState::Failed(_)), "before the first report, an error sets the state `Failed`");
        assert!(!update(&mut state, error()), "a repeated error does not change the state");
        assert!(update(&mut state, Ok(Some(data.clone()))));
        assert!(
            !update(&mut state, error()) && !update(&mut state, Ok(Some(data))),
            "after an object was read, errors and events with the same data do not change its state"
        );
        assert!(matches!(&state, ObjectState::Read(data) if data.contains_key("key")));
        assert!(update(&mut state, Ok(None)));
        assert!(!update(&mut state, error()) && !update(&mut state, Ok(None)));
        assert!(matches!(state, ObjectState::Missing));
    }

    #[tokio::test]
    async fn watches_own_objects_only_in_the_namespaces_of_the_cloud() {
        let (sender, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let respond = move |request: axum::extract::Request| {
            let _ = sender.send(request.uri().path().to_owned());
            std::future::pending::<String>()
        };
        let inputs = ObjectWatches::new(
            kube::Client::new(axum::Router::new().fallback(respond), "cloud"),
            &Scope::All,
            Arc::default(),
        );
        assert!(!inputs.own_secrets.is_known(), "the objects are unknown before a plan requests namespaces");
        let namespaces = ["compute".to_owned(), "openstack".to_owned()].into();
        inputs.subscribe(&Requests { namespaces, ..Requests::default() });
        let mut expected: BTreeSet<String> = ["compute", "openstack"]
            .into_iter()
            .flat_map(|namespace| {
                ["secrets", "configmaps"].map(|kind| format!("/api/v1/namespaces/{namespace}/{kind}"))
            })
            .collect();
        while !expected.is_empty() {
            let path = requests.recv().await.unwrap();
            assert!(path != "/api/v1/secrets", "no Secret of another namespace is read");
            expected.remove(&path);
        }
        inputs.subscribe(&Requests::default());
        assert!(!inputs.own_secrets.is_known(), "the watches have not listed the objects yet");
    }

    #[tokio::test]
    async fn watches_exactly_the_requested_objects() {
        let silent = axum::Router::new().fallback(std::future::pending::<String>);
        let inputs = ObjectWatches::new(kube::Client::new(silent, "cloud"), &Scope::All, Arc::default());
        let reference =
            |name: &str| Reference { kind: ValuesKind::Secret, namespace: "openstack".into(), name: name.into() };
        let (pool, other) = (reference("rbd-keyring"), reference("of-another-release"));
        let both = Requests { foreign: [pool.clone(), other].into(), ..Requests::default() };
        inputs.subscribe(&both);
        assert_eq!(inputs.snapshot().foreign.len(), 2);
        inputs.subscribe(&Requests { foreign: [pool.clone()].into(), objects: [pool.clone()].into(), ..both });
        let snapshot = inputs.snapshot();
        assert!(snapshot.foreign.keys().eq([&pool]) && snapshot.named[&pool] == ObjectState::Unread);
        inputs.subscribe(&Requests::default());
        assert!(inputs.snapshot().named.is_empty());
    }
}
