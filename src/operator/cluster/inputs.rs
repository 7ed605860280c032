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
use osdpl_decide::{Data, ObjectState as State, Objects, Reference, Requests};

/// Takes in what a watch says of an object; returns whether that changed something. What was read once counts until something else is read: a watch
/// that breaks says nothing about the object.
fn hear(state: &mut State, seen: Result<Option<Data>, watcher::Error>) -> bool {
    let heard = match seen {
        Ok(Some(data)) => State::Read(Arc::new(data)),
        Ok(None) => State::Missing,
        Err(error) if matches!(state, State::Unread | State::Failed(_)) => State::Failed(error.to_string()),
        Err(_) => return false,
    };
    let changed = *state != heard;
    *state = heard;
    changed
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
    /// Objects of others in place of ours.
    occupants: Mutex<BTreeMap<Reference, Watched>>,
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
            occupants: Mutex::default(),
            terminating,
            _namespaces: namespaces,
            own,
            added,
            maps,
            rook: Mutex::default(),
        }
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

    /// Watches exactly what a plan requests.
    pub fn subscribe(&self, requests: &Requests) {
        self.watch(&self.watched, &requests.objects);
        self.watch(&self.occupants, &requests.occupants);
        self.watch_rook(requests.rook.as_ref().map(|(namespace, kinds)| (namespace.as_str(), kinds.as_slice())));
    }

    fn watch(&self, all: &Mutex<BTreeMap<Reference, Watched>>, wanted: &BTreeSet<Reference>) {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|reference, _| wanted.contains(reference));
        for reference in wanted {
            all.entry(reference.clone()).or_insert_with(|| self.start(reference));
        }
    }

    /// Everything that is known of the watched objects.
    pub fn snapshot(&self) -> Objects {
        Objects {
            named: states(&self.watched),
            occupants: states(&self.occupants),
            secrets: self.own.all(),
            maps: self.maps.all(),
            own_listed: self.own.is_heard() && self.maps.is_heard(),
            rook: self.rook_objects(),
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
            hear(&mut state.lock().unwrap_or_else(PoisonError::into_inner), seen.map(|object| object.map(data)))
        })
    }
}

fn states(all: &Mutex<BTreeMap<Reference, Watched>>) -> BTreeMap<Reference, State> {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let state = |watched: &Watched| watched.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter().map(|(reference, watched)| (reference.clone(), state(watched))).collect()
}

#[cfg(test)]
mod tests;
