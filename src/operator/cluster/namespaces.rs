//! Creates missing namespaces, and watches which namespaces exist and which are being deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use osdpl_values::CollectSorted;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::watch::{is_forbidden, spawn_watch};
use super::{Cluster, Error, ErrorContext};

impl Cluster {
    /// Creates a namespace if it does not exist.
    ///
    /// The function asks the API server whether the namespace exists. It does not use the watch on namespaces, because
    /// the watch may lag, or osdpl may not be permitted to watch namespaces.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn create_namespace(&self, name: &str) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        if api.get_metadata_opt(name).await.with_context(|| format!("reading namespace {name}"))?.is_some() {
            return Ok(());
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            other => other.map(drop).with_context(|| format!("creating namespace {name}")),
        }
    }
}

/// The namespaces of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// The names of all namespaces; `None` if osdpl lacks the right to list them.
    pub(crate) all: Option<BTreeSet<String>>,
    /// The names of the namespaces that are being deleted.
    pub(crate) terminating: BTreeSet<String>,
}

impl Namespaces {
    /// Whether a namespace exists and is not being deleted. If osdpl lacks the right to list namespaces, assumes that
    /// `name` exists.
    pub(crate) fn is_usable(&self, name: &str) -> bool {
        !self.terminating.contains(name) && self.all.as_ref().is_none_or(|all| all.contains(name))
    }
}

/// The watch on all namespaces of the cluster, with the names that the watch has reported.
pub(super) struct NamespaceWatch {
    state: Arc<Mutex<State>>,
    _watch: AbortOnDropHandle<()>,
}

impl NamespaceWatch {
    /// Starts the watch on namespaces. Every change notifies `trigger`, which triggers a pass.
    pub(super) fn new(client: kube::Client, trigger: Arc<Notify>) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
        let apply = move |event| shared.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
        Self { state, _watch: spawn_watch(watcher(api, watcher::Config::default()), trigger, apply) }
    }

    /// Returns the namespaces; `None` until the watch has completed its first list, or the API server has forbidden
    /// that list.
    pub(super) fn namespaces(&self) -> Option<Namespaces> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).namespaces()
    }
}

/// The names of namespaces. The value is `true` if the namespace is being deleted.
type Names = BTreeMap<String, bool>;

#[derive(Default)]
struct State {
    names: Names,
    /// Those namespaces in the current list that the watch has already received; empty between lists.
    listed: Names,
    /// Whether the watch has completed its first list.
    is_listed: bool,
    /// Whether the API server forbade the first list of namespaces, because the operator lacks the permission.
    is_forbidden: bool,
}

impl State {
    /// Updates the stored names with an event of the watch; returns whether the event must trigger a pass.
    fn apply(&mut self, event: Result<watcher::Event<PartialObjectMeta<Namespace>>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Apply(namespace)) => insert(&mut self.names, &namespace),
            Ok(watcher::Event::Delete(namespace)) => self.names.remove(&namespace.name_any()).is_some(),
            Ok(watcher::Event::Init) => {
                self.listed.clear();
                false
            }
            Ok(watcher::Event::InitApply(namespace)) => {
                insert(&mut self.listed, &namespace);
                false
            }
            // Replace all names. If a namespace was deleted while the watch was interrupted, the watch reports no
            // deletion, but the new list does not contain the namespace.
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut self.listed);
                let is_first = !std::mem::replace(&mut self.is_listed, true);
                is_first | (std::mem::replace(&mut self.names, listed) != self.names)
            }
            Err(error) => is_forbidden(&error) && !self.is_listed && !std::mem::replace(&mut self.is_forbidden, true),
        }
    }

    fn namespaces(&self) -> Option<Namespaces> {
        let terminating = self.names.iter().filter(|(_, is_terminating)| **is_terminating);
        (self.is_listed || self.is_forbidden).then(|| Namespaces {
            all: self.is_listed.then(|| self.names.keys().cloned().collect_set()),
            terminating: terminating.map(|(name, _)| name.clone()).collect_set(),
        })
    }
}

/// Adds a namespace to `names`; returns whether `names` changed.
fn insert(names: &mut Names, namespace: &PartialObjectMeta<Namespace>) -> bool {
    let is_terminating = namespace.metadata.deletion_timestamp.is_some();
    names.insert(namespace.name_any(), is_terminating) != Some(is_terminating)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, is_terminating: bool) -> PartialObjectMeta<Namespace> {
        let deleted_at = is_terminating.then_some("2026-01-01T00:00:00Z");
        let metadata = serde_json::json!({"name": name, "deletionTimestamp": deleted_at});
        serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn complete_list_replaces_the_names() {
        let mut state = State::default();
        assert!(
            state.apply(Ok(watcher::Event::InitDone)),
            "the first complete list triggers a pass, even if it is empty"
        );
        assert!(state.apply(Ok(watcher::Event::Apply(namespace("deleted", true)))));
        assert!(state.apply(Ok(watcher::Event::Apply(namespace("terminating", true)))));
        let listed = || [namespace("terminating", true), namespace("active", false)].map(watcher::Event::InitApply);
        for event in [watcher::Event::Init].into_iter().chain(listed()) {
            assert!(!state.apply(Ok(event)));
            assert!(state.names.contains_key("deleted"), "an incomplete list removes no name");
        }
        assert!(state.apply(Ok(watcher::Event::InitDone)));
        let expected =
            Namespaces { all: Some(names(&["terminating", "active"])), terminating: names(&["terminating"]) };
        assert_eq!(state.namespaces(), Some(expected));
        for event in [watcher::Event::Init].into_iter().chain(listed()).chain([watcher::Event::InitDone]) {
            assert!(!state.apply(Ok(event)), "a list with the same namespaces triggers no pass");
        }
    }

    #[test]
    fn forbidden_list_is_known_once() {
        let forbidden = || {
            let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let mut state = State::default();
        assert_eq!(state.namespaces(), None);
        assert!(
            !state.apply(Err(watcher::Error::NoResourceVersion)),
            "after this error, passes keep waiting for the first list, because the watch retries"
        );
        assert!(state.apply(forbidden()) && !state.apply(forbidden()));
        assert_eq!(state.namespaces(), Some(Namespaces::default()));
    }
}
