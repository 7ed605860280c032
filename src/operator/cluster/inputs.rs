//! Objects that the spec names: Secrets and ConfigMaps, each watched by its exact name, and nothing else read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::added::Added;
use super::ending::{Terminating, namespaces};
use super::follow::follow;
use super::own::{Own, OwnSecrets};
use super::rook::RookWatch;
use osdpl_core::api::ValuesKind;
use osdpl_core::desired::Unavailable;

/// An object that the spec names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Its kind.
    pub kind: ValuesKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What an object holds, by key.
pub type Data = BTreeMap<String, Vec<u8>>;

#[derive(Default, PartialEq)]
enum State {
    #[default]
    Unread,
    Missing,
    Read(Data),
    Failed(String),
}

impl State {
    /// Whether that is news. What was read once counts until something else is read: a watch that breaks says nothing about the object.
    fn hear(&mut self, seen: Result<Option<Data>, watcher::Error>) -> bool {
        let heard = match seen {
            Ok(Some(data)) => Self::Read(data),
            Ok(None) => Self::Missing,
            Err(error) if matches!(self, Self::Unread | Self::Failed(_)) => Self::Failed(error.to_string()),
            Err(_) => return false,
        };
        let is_news = *self != heard;
        *self = heard;
        is_news
    }
}

struct Watched {
    _watch: AbortOnDropHandle<()>,
    state: Arc<Mutex<State>>,
}

/// The watches on the objects that the spec names, on our own Secrets and `ConfigMap`s, and on namespaces.
pub struct Inputs {
    pub(super) client: kube::Client,
    pub(super) poke: Arc<Notify>,
    watched: Mutex<BTreeMap<Reference, Watched>>,
    /// What others keep in place of ours, and may.
    beside: Mutex<BTreeMap<Reference, Watched>>,
    terminating: Arc<Mutex<Terminating>>,
    _namespaces: AbortOnDropHandle<()>,
    own: OwnSecrets,
    pub(super) added: Added,
    maps: Own<ConfigMap>,
    pub(super) rook: Mutex<Option<RookWatch>>,
}

impl Inputs {
    /// No object is named yet; `poke` is told of every change.
    pub fn new(client: kube::Client, poke: Arc<Notify>) -> Self {
        let terminating = Arc::<Mutex<Terminating>>::default();
        let namespaces = namespaces(client.clone(), Arc::clone(&terminating), Arc::clone(&poke));
        let (own, maps) = (Own::new(client.clone(), Arc::clone(&poke)), Own::new(client.clone(), Arc::clone(&poke)));
        let added = Added::new(client.clone(), Arc::clone(&poke));
        Self {
            client,
            poke,
            watched: Mutex::default(),
            beside: Mutex::default(),
            terminating,
            _namespaces: namespaces,
            own,
            added,
            maps,
            rook: Mutex::default(),
        }
    }

    /// Drops what is held of our own Secrets and `ConfigMap`s: they were removed, and the watch may tell so only later.
    pub fn forget_own(&self) {
        self.own.forget_all();
        self.maps.forget_all();
    }

    /// Whether a Secret of ours is held.
    pub fn has_own(&self, namespace: &str, name: &str) -> bool {
        self.own.known(namespace, name).is_some()
    }

    /// Our own Secrets.
    pub(super) fn own(&self) -> &OwnSecrets {
        &self.own
    }

    /// Our own `ConfigMap`s.
    pub(super) fn own_maps(&self) -> &Own<ConfigMap> {
        &self.maps
    }

    /// The namespaces that are being deleted.
    pub fn terminating(&self) -> BTreeSet<String> {
        self.terminating.lock().unwrap_or_else(PoisonError::into_inner).names.clone()
    }

    /// Watches exactly these objects.
    pub fn watch(&self, wanted: &BTreeSet<Reference>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|reference, _| wanted.contains(reference));
        for reference in wanted {
            watched.entry(reference.clone()).or_insert_with(|| self.start(reference));
        }
    }

    /// Watches an object that someone else keeps in place of ours, or not any more; nothing waits for its first answer.
    pub(super) fn watch_beside(&self, reference: Reference, wanted: bool) {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted {
            beside.entry(reference).or_insert_with_key(|reference| self.start(reference));
        } else {
            beside.remove(&reference);
        }
    }

    /// What such an object holds; none where it was not read, or is gone.
    pub(super) fn beside(&self, reference: &Reference) -> Option<Data> {
        let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        match &*beside.get(reference)?.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Read(data) => Some(data.clone()),
            State::Unread | State::Missing | State::Failed(_) => None,
        }
    }

    /// Watches nothing of others' but of these any more.
    pub(super) fn keep_beside(&self, wanted: &BTreeSet<Reference>) {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        beside.retain(|reference, _| wanted.contains(reference));
    }

    /// Watches nothing of others' any more.
    pub fn leave_beside(&self) {
        self.keep_beside(&BTreeSet::new());
    }

    /// Watches nothing any more that a spec names, or that stands in place of what one asked for.
    pub fn leave(&self) {
        self.watch(&BTreeSet::new());
        self.watch_rook(None);
        self.leave_beside();
    }

    /// Returns when each of the watched objects, and our own Secrets, were read, or were refused.
    pub async fn settled(&self) {
        while self.is_reading() {
            self.poke.notified().await;
        }
    }

    /// Whether one of the watched objects, or our own Secrets, were neither read nor refused yet; the first answer pokes.
    pub fn is_reading(&self) -> bool {
        let rook = self.rook.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(RookWatch::is_reading);
        if rook || !self.own.is_heard() {
            return true;
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched
            .values()
            .any(|entry| matches!(*entry.state.lock().unwrap_or_else(PoisonError::into_inner), State::Unread))
    }

    /// One key of an object's data.
    ///
    /// # Errors
    /// What is missing, and what to do; never what the object holds.
    pub fn get(&self, reference: &Reference, key: &str) -> Result<Vec<u8>, Unavailable> {
        let remedy = || format!("create it with the key {key:?}");
        self.read(reference, remedy, |data| {
            data.get(key).cloned().ok_or_else(|| {
                let keys = data.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                Unavailable::Missing(format!(
                    "{reference} has no key {key:?} (it has: {keys}); add the key or name another one"
                ))
            })
        })
    }

    /// All of an object's data.
    ///
    /// # Errors
    /// What is missing, and what to do; never what the object holds.
    pub fn all(&self, reference: &Reference) -> Result<Data, Unavailable> {
        self.read(reference, || "create it, or correct the name".into(), |data| Ok(data.clone()))
    }

    fn read<T>(
        &self,
        reference: &Reference,
        remedy: impl FnOnce() -> String,
        take: impl FnOnce(&Data) -> Result<T, Unavailable>,
    ) -> Result<T, Unavailable> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = || Unavailable::Unusable(format!("{reference} is being read"));
        let Some(entry) = watched.get(reference) else { return Err(unread()) };
        match &*entry.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Unread => Err(unread()),
            State::Missing => Err(Unavailable::Missing(format!("{reference} does not exist; {}", remedy()))),
            State::Failed(error) => Err(Unavailable::Unusable(format!("{reference} can't be read: {error}"))),
            State::Read(data) => take(data),
        }
    }

    fn start(&self, reference: &Reference) -> Watched {
        let state = Arc::<Mutex<State>>::default();
        let Reference { kind, namespace, name } = reference;
        let watch = match kind {
            ValuesKind::Secret => {
                let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
                self.hold(watcher::watch_object(api, name), &state, |secret| {
                    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
                })
            }
            ValuesKind::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
                self.hold(watcher::watch_object(api, name), &state, |map| {
                    map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
                })
            }
        };
        Watched { _watch: watch, state }
    }

    fn hold<K: Send + 'static>(
        &self,
        events: impl futures::Stream<Item = Result<Option<K>, watcher::Error>> + Send + 'static,
        state: &Arc<Mutex<State>>,
        data: fn(K) -> Data,
    ) -> AbortOnDropHandle<()> {
        let state = Arc::clone(state);
        follow(events, Arc::clone(&self.poke), move |seen| {
            state.lock().unwrap_or_else(PoisonError::into_inner).hear(seen.map(|object| object.map(data)))
        })
    }
}

#[cfg(test)]
mod tests;
