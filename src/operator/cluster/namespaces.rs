//! Namespaces: creates missing ones, and watches which are being deleted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::inputs::spawn_watch;
use super::{Cluster, Error, ErrorContext};

impl Cluster {
    /// Creates a namespace if it does not exist.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        if api.get_opt(name).await.with_context(|| format!("reading namespace {name}"))?.is_some() {
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

/// The names of the namespaces that are being deleted, kept by a watch.
pub(super) struct TerminatingNamespaces {
    state: Arc<Mutex<Terminating>>,
    _watch: AbortOnDropHandle<()>,
}

impl TerminatingNamespaces {
    /// Starts the watch; `trigger` is notified of every change.
    pub(super) fn new(client: kube::Client, trigger: Arc<Notify>) -> Self {
        let state = Arc::<Mutex<Terminating>>::default();
        let shared = Arc::clone(&state);
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
        let apply = move |event| shared.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
        Self { state, _watch: spawn_watch(watcher(api, watcher::Config::default()), trigger, apply) }
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).names.clone()
    }
}

#[derive(Default)]
struct Terminating {
    names: BTreeSet<String>,
    /// The names in the list that is being received.
    listed: BTreeSet<String>,
}

impl Terminating {
    /// Applies an event of the watch; returns whether the names changed.
    fn apply(&mut self, event: Result<watcher::Event<PartialObjectMeta<Namespace>>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Apply(namespace)) => update(&mut self.names, &namespace),
            Ok(watcher::Event::Delete(namespace)) => self.names.remove(&namespace.name_any()),
            Ok(watcher::Event::Init) => {
                self.listed.clear();
                false
            }
            Ok(watcher::Event::InitApply(namespace)) => {
                update(&mut self.listed, &namespace);
                false
            }
            // Only a complete list shows that a namespace was deleted while the watch was interrupted.
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut self.listed);
                std::mem::replace(&mut self.names, listed) != self.names
            }
            Err(_) => false,
        }
    }
}

/// Adds or removes a namespace; returns whether the names changed.
fn update(names: &mut BTreeSet<String>, namespace: &PartialObjectMeta<Namespace>) -> bool {
    let name = namespace.name_any();
    if namespace.metadata.deletion_timestamp.is_some() { names.insert(name) } else { names.remove(&name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, is_terminating: bool) -> PartialObjectMeta<Namespace> {
        let deleted_at = is_terminating.then_some("2026-01-01T00:00:00Z");
        let metadata = serde_json::json!({"name": name, "deletionTimestamp": deleted_at});
        serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn complete_list_replaces_the_names() {
        let mut state = Terminating::default();
        assert!(state.apply(Ok(watcher::Event::Apply(namespace("deleted", true)))));
        assert!(state.apply(Ok(watcher::Event::Apply(namespace("terminating", true)))));
        let listed = [namespace("terminating", true), namespace("active", false)].map(watcher::Event::InitApply);
        for event in [watcher::Event::Init].into_iter().chain(listed) {
            assert!(!state.apply(Ok(event)));
            assert!(state.names.contains("deleted"), "an incomplete list removes no name");
        }
        assert!(state.apply(Ok(watcher::Event::InitDone)));
        assert_eq!(state.names, BTreeSet::from(["terminating".to_owned()]));
        for event in
            [watcher::Event::Init, watcher::Event::InitApply(namespace("terminating", true)), watcher::Event::InitDone]
        {
            assert!(!state.apply(Ok(event)), "the same list again is no change");
        }
    }
}
