//! The namespaces that are being deleted, as one watch tells them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::follow::follow;

/// Keeps the names of the namespaces that are being deleted.
pub(super) fn namespaces(
    client: kube::Client,
    terminating: Arc<Mutex<Terminating>>,
    poke: Arc<Notify>,
) -> AbortOnDropHandle<()> {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let hear = move |event| terminating.lock().unwrap_or_else(PoisonError::into_inner).hear(event);
    follow(watcher(api, watcher::Config::default()), poke, hear)
}

/// The namespaces that are being deleted.
#[derive(Default)]
pub(super) struct Terminating {
    pub(super) names: BTreeSet<String>,
    /// Those that the list which is under way has told.
    arriving: BTreeSet<String>,
}

impl Terminating {
    /// Takes in what the watch tells; returns whether a pass should look.
    fn hear(&mut self, event: Result<watcher::Event<PartialObjectMeta<Namespace>>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Apply(namespace)) => keep(&mut self.names, &namespace),
            Ok(watcher::Event::Delete(namespace)) => self.names.remove(&namespace.name_any()),
            Ok(watcher::Event::Init) => {
                self.arriving.clear();
                false
            }
            Ok(watcher::Event::InitApply(namespace)) => {
                keep(&mut self.arriving, &namespace);
                false
            }
            // A namespace whose end was missed is in no list: only the whole of it tells that it is gone.
            Ok(watcher::Event::InitDone) => {
                let arrived = std::mem::take(&mut self.arriving);
                std::mem::replace(&mut self.names, arrived) != self.names
            }
            Err(_) => false,
        }
    }
}

fn keep(names: &mut BTreeSet<String>, namespace: &PartialObjectMeta<Namespace>) -> bool {
    let name = namespace.name_any();
    if namespace.metadata.deletion_timestamp.is_some() { names.insert(name) } else { names.remove(&name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, ends: bool) -> PartialObjectMeta<Namespace> {
        let ends = ends.then_some("2026-01-01T00:00:00Z");
        let metadata = serde_json::json!({"name": name, "deletionTimestamp": ends});
        serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_namespace_whose_end_was_missed_is_being_deleted_no_more() {
        let mut held = Terminating::default();
        assert!(held.hear(Ok(watcher::Event::Apply(namespace("gone", true)))));
        assert!(held.hear(Ok(watcher::Event::Apply(namespace("ends", true)))));
        let listed = [namespace("ends", true), namespace("stays", false)].map(watcher::Event::InitApply);
        for event in [watcher::Event::Init].into_iter().chain(listed) {
            assert!(!held.hear(Ok(event)));
            assert!(held.names.contains("gone"), "a list that is under way says nothing yet");
        }
        assert!(held.hear(Ok(watcher::Event::InitDone)));
        assert_eq!(held.names, BTreeSet::from(["ends".to_owned()]));
        for event in
            [watcher::Event::Init, watcher::Event::InitApply(namespace("ends", true)), watcher::Event::InitDone]
        {
            assert!(!held.hear(Ok(event)), "the same list again is no news");
        }
    }
}
