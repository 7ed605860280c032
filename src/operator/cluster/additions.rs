//! Caches the additions: `ConfigMap`s that add files to the catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::watch::{is_forbidden, spawn_watch};
use osdpl_core::catalog::{Addition, LABEL};

/// The namespace and name of a `ConfigMap`.
type Name = (String, String);

#[derive(Default)]
struct State {
    additions: BTreeMap<Name, Addition>,
    /// The names of the additions that the watch has received so far of a list that is not complete yet.
    listed: BTreeSet<Name>,
    /// Whether the watch has completed its first list, or the API server forbade the list. Passes wait until this is
    /// `true`.
    is_known: bool,
    /// The message with which the API server forbade the list; `None` if it did not forbid the list, or the watch has
    /// completed a list since.
    forbidden: Option<String>,
}

/// The watch on additions, and the additions that it has reported.
pub(super) struct Additions {
    state: Arc<Mutex<State>>,
    is_known: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

impl Additions {
    /// Starts the watch on the additions among `maps`. If the content of an addition changes, the watch notifies `trigger`, which
    /// triggers a pass.
    pub(super) fn new(maps: Api<ConfigMap>, trigger: Arc<Notify>) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let (sender, is_known) = watch::channel(false);
        let events = watcher(maps, watcher::Config::default().labels(&selector()));
        let watch = spawn_watch(events, trigger, move |event| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let is_changed = state.apply(event);
            sender.send_if_modified(|is_known| std::mem::replace(is_known, state.is_known) != state.is_known);
            is_changed
        });
        Self { state, is_known, _watch: watch }
    }
}

impl Additions {
    /// Waits until the watch has completed its first list of additions, or the API server has forbidden the list.
    pub(super) async fn wait_until_known(&self) {
        // `wait_for` fails only if the sender is dropped. The task of the watch owns the sender, and ends only when
        // `self` is dropped.
        let _ = self.is_known.clone().wait_for(|is_known| *is_known).await;
    }

    /// Returns the additions in a namespace; `None` until the watch has completed its first list, or the API server has
    /// forbidden the list.
    pub(super) fn of_namespace(&self, namespace: &str) -> Option<Vec<Addition>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let in_namespace = state.additions.iter().filter(|((other, _), _)| other == namespace);
        state.is_known.then(|| in_namespace.map(|(_, addition)| addition.clone()).collect())
    }

    /// Returns the message with which the API server forbade the list of additions, if it did.
    pub(super) fn forbidden(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).forbidden.clone()
    }
}

impl State {
    /// Updates the known additions with an event of the watch; returns whether the event must trigger a pass.
    fn apply(&mut self, event: Result<watcher::Event<ConfigMap>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Init) => {
                self.listed.clear();
                false
            }
            Ok(watcher::Event::InitApply(map)) => {
                self.listed.insert(name(&map));
                self.put(&map)
            }
            Ok(watcher::Event::InitDone) => {
                let before = self.additions.len();
                let listed = std::mem::take(&mut self.listed);
                self.additions.retain(|name, _| listed.contains(name));
                let is_first = !std::mem::replace(&mut self.is_known, true) || self.forbidden.take().is_some();
                is_first || before != self.additions.len()
            }
            Ok(watcher::Event::Apply(map)) => self.put(&map),
            Ok(watcher::Event::Delete(map)) => self.additions.remove(&name(&map)).is_some(),
            Err(error) => {
                tracing::warn!(%error, "can't watch the ConfigMaps that add to the catalogue; retrying");
                // Passes wait for the additions. If the API server forbids the list, the wait ends. After any other
                // error, passes wait until a retry of the watch succeeds: a pass without the additions would remove
                // their values from releases.
                let is_first = is_forbidden(&error) && !self.is_known;
                if is_first {
                    (self.is_known, self.forbidden) = (true, Some(error.to_string()));
                }
                is_first
            }
        }
    }

    fn put(&mut self, map: &ConfigMap) -> bool {
        let addition = read_addition(map);
        self.additions.insert(name(map), addition.clone()) != Some(addition)
    }
}

fn selector() -> String {
    format!("{LABEL}=true")
}

fn name(map: &ConfigMap) -> Name {
    (map.namespace().unwrap_or_default(), map.name_any())
}

/// Returns the addition that a `ConfigMap` contains: the `ConfigMap`'s data, and its name as the source.
pub fn read_addition(map: &ConfigMap) -> Addition {
    let (namespace, name) = name(map);
    Addition { source: format!("ConfigMap {namespace}/{name}"), data: map.data.clone().unwrap_or_default() }
}

/// Lists the additions in a namespace, without a watch.
///
/// # Errors
/// If a request to the API server fails.
pub async fn list_additions(client: &Client, namespace: &str) -> Result<Vec<Addition>, kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let maps = api.list(&ListParams::default().labels(&selector())).await?;
    Ok(maps.items.iter().map(read_addition).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(name: &str, text: &str) -> ConfigMap {
        let data = serde_json::json!({"presets.edge.yaml": text});
        let metadata = serde_json::json!({"namespace": "openstack", "name": name});
        serde_json::from_value(serde_json::json!({"metadata": metadata, "data": data})).unwrap()
    }

    fn names(state: &State) -> Vec<&str> {
        state.additions.keys().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn reports_changed_content_and_forgets_unlisted_maps() {
        let mut state = State::default();
        assert!(!state.apply(Ok(watcher::Event::Init)));
        assert!(state.apply(Ok(watcher::Event::InitApply(map("a", "1")))));
        assert!(state.apply(Ok(watcher::Event::InitDone)), "the first complete list triggers a pass");
        assert!(
            !state.apply(Ok(watcher::Event::Apply(map("a", "1")))),
            "an event with the same content triggers no pass"
        );
        assert!(state.apply(Ok(watcher::Event::Apply(map("a", "2")))));
        assert!(state.apply(Ok(watcher::Event::Apply(map("b", "1")))));
        for event in [watcher::Event::Init, watcher::Event::InitApply(map("b", "1"))] {
            assert!(!state.apply(Ok(event)));
        }
        assert!(state.apply(Ok(watcher::Event::InitDone)));
        assert_eq!(names(&state), ["b"]);
        assert!(state.apply(Ok(watcher::Event::Delete(map("b", "1")))));
        assert!(names(&state).is_empty());
    }

    fn forbidden() -> Result<watcher::Event<ConfigMap>, watcher::Error> {
        let status = kube::core::Status::failure("configmaps is forbidden", "Forbidden").with_code(403);
        Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn interrupted_watch_keeps_the_additions() {
        let mut state = State::default();
        assert!(!state.apply(Err(watcher::Error::NoResourceVersion)));
        assert!(!state.is_known, "passes keep waiting after this error, because the watch retries");
        state.apply(Ok(watcher::Event::Init));
        state.apply(Ok(watcher::Event::InitApply(map("a", "1"))));
        state.apply(Ok(watcher::Event::InitDone));
        for error in [Err(watcher::Error::NoResourceVersion), forbidden()] {
            assert!(!state.apply(error));
            assert!(state.forbidden.is_none(), "after an error, the additions of the last list stay in use");
            assert_eq!(names(&state), ["a"]);
        }
    }

    #[test]
    fn reports_a_forbidden_watch_until_it_is_allowed() {
        let mut state = State::default();
        assert!(state.apply(forbidden()) && state.is_known);
        let message = state.forbidden.as_ref();
        assert!(message.is_some_and(|message| message.contains("configmaps is forbidden")), "{message:?}");
        assert!(!state.apply(forbidden()), "a repeated refusal triggers no second pass");
        state.apply(Ok(watcher::Event::Init));
        assert!(
            state.apply(Ok(watcher::Event::InitDone)) && state.forbidden.is_none(),
            "the first complete list triggers a pass, even if it is empty"
        );
    }
}
