//! Objects that the spec names: Secrets and ConfigMaps, each watched by its exact name, and nothing else read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::api::ValuesKind;

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

type Data = BTreeMap<String, Vec<u8>>;

#[derive(Default)]
enum State {
    #[default]
    Unread,
    Missing,
    Read(Data),
    Failed(String),
}

struct Watched {
    task: AbortHandle,
    state: Arc<Mutex<State>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The watches on the objects that the spec names.
pub struct Inputs {
    client: kube::Client,
    poke: Arc<Notify>,
    watched: Mutex<BTreeMap<Reference, Watched>>,
}

impl Inputs {
    /// No watch yet; `poke` is told of every change.
    pub fn new(client: kube::Client, poke: Arc<Notify>) -> Self {
        Self { client, poke, watched: Mutex::default() }
    }

    /// Watches exactly these objects.
    pub fn watch(&self, wanted: &BTreeSet<Reference>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|reference, _| wanted.contains(reference));
        for reference in wanted {
            watched.entry(reference.clone()).or_insert_with(|| self.start(reference));
        }
    }

    /// One key of an object's data.
    ///
    /// # Errors
    /// What is missing, and what to do; never what the object holds.
    pub fn get(&self, reference: &Reference, key: &str) -> Result<Vec<u8>, String> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = watched.get(reference) else { return Err(format!("{reference} is being read")) };
        match &*entry.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Unread => Err(format!("{reference} is being read")),
            State::Missing => Err(format!("{reference} does not exist; create it with the key {key:?}")),
            State::Failed(error) => Err(format!("{reference} can't be read: {error}")),
            State::Read(data) => data.get(key).cloned().ok_or_else(|| {
                let keys = data.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                format!("{reference} has no key {key:?} (it has: {keys}); add the key or name another one")
            }),
        }
    }

    fn start(&self, reference: &Reference) -> Watched {
        let state = Arc::<Mutex<State>>::default();
        let Reference { kind, namespace, name } = reference;
        let task = match kind {
            ValuesKind::Secret => {
                let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
                self.follow(watcher::watch_object(api, name), &state, |secret| {
                    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
                })
            }
            ValuesKind::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
                self.follow(watcher::watch_object(api, name), &state, |map| {
                    map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
                })
            }
        };
        Watched { task, state }
    }

    fn follow<K: Send + 'static>(
        &self,
        stream: impl futures::Stream<Item = Result<Option<K>, watcher::Error>> + Send + 'static,
        state: &Arc<Mutex<State>>,
        data: fn(K) -> Data,
    ) -> AbortHandle {
        let (state, poke) = (Arc::clone(state), Arc::clone(&self.poke));
        let stream = stream.default_backoff();
        let task = stream.for_each(move |seen| {
            *state.lock().unwrap_or_else(PoisonError::into_inner) = match seen {
                Ok(Some(object)) => State::Read(data(object)),
                Ok(None) => State::Missing,
                Err(error) => State::Failed(error.to_string()),
            };
            poke.notify_one();
            std::future::ready(())
        });
        tokio::spawn(task).abort_handle()
    }
}
