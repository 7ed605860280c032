//! `ConfigMap`s with files for the catalogue, whole, as one watch tells them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::Inputs;
use super::follow::follow;
use super::own::is_refusal;
use osdpl_core::catalog::{Addition, LABEL};

/// Namespace and name.
type Name = (String, String);

#[derive(Default)]
struct Held {
    maps: BTreeMap<Name, Addition>,
    /// What the list that is under way has told.
    arriving: BTreeSet<Name>,
    /// Whether the watch has told everything once, or was refused.
    heard: bool,
    /// Why they can't be listed, where nothing was told because of that.
    refused: Option<String>,
}

/// The watch.
pub(super) struct Added {
    held: Arc<Mutex<Held>>,
    heard: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

impl Added {
    /// Watches them all; `poke` is told of every change of what they hold.
    pub(super) fn new(client: Client, poke: Arc<Notify>) -> Self {
        let held = Arc::<Mutex<Held>>::default();
        let told = Arc::clone(&held);
        let (sender, heard) = watch::channel(false);
        let events = watcher(Api::<ConfigMap>::all(client), watcher::Config::default().labels(&selector()));
        let watch = follow(events, poke, move |event| {
            let mut held = told.lock().unwrap_or_else(PoisonError::into_inner);
            let is_news = held.hear(event);
            sender.send_if_modified(|heard| std::mem::replace(heard, held.heard) != held.heard);
            is_news
        });
        Self { held, heard, _watch: watch }
    }

    /// Waits until everything was told once, or refused.
    pub(super) async fn told(&self) {
        // The sender lives as long as the task, and that as long as `self`.
        let _ = self.heard.clone().wait_for(|heard| *heard).await;
    }

    /// Those of a namespace; `None` until they were told.
    pub(super) fn of(&self, namespace: &str) -> Option<Vec<Addition>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.maps.iter().filter(|((place, _), _)| place == namespace);
        held.heard.then(|| own.map(|(_, addition)| addition.clone()).collect())
    }

    fn refused(&self) -> Option<String> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).refused.clone()
    }
}

impl Inputs {
    /// Waits until what `ConfigMap`s add to the catalogue was told once, or refused.
    pub async fn told_additions(&self) {
        self.added.told().await;
    }

    /// What `ConfigMap`s of a namespace add to the catalogue; `None` until they were told.
    pub fn additions(&self, namespace: &str) -> Option<Vec<Addition>> {
        self.added.of(namespace)
    }

    /// Why it is not known what `ConfigMap`s add to the catalogue, where they may not be listed.
    pub fn additions_refused(&self) -> Option<String> {
        self.added.refused()
    }
}

impl Held {
    fn hear(&mut self, event: Result<watcher::Event<ConfigMap>, watcher::Error>) -> bool {
        match event {
            Ok(watcher::Event::Init) => {
                self.arriving.clear();
                false
            }
            Ok(watcher::Event::InitApply(map)) => {
                self.arriving.insert(name(&map));
                self.take(&map)
            }
            Ok(watcher::Event::InitDone) => {
                let before = self.maps.len();
                let arrived = std::mem::take(&mut self.arriving);
                self.maps.retain(|name, _| arrived.contains(name));
                let is_first = !std::mem::replace(&mut self.heard, true) || self.refused.take().is_some();
                is_first || before != self.maps.len()
            }
            Ok(watcher::Event::Apply(map)) => self.take(&map),
            Ok(watcher::Event::Delete(map)) => self.maps.remove(&name(&map)).is_some(),
            Err(error) => {
                tracing::warn!(%error, "ConfigMaps of the catalogue can't be watched");
                // What else goes wrong is tried again, and passes wait: without what was added, releases would lose what they have from it.
                let is_first = is_refusal(&error) && !self.heard;
                if is_first {
                    (self.heard, self.refused) = (true, Some(error.to_string()));
                }
                is_first
            }
        }
    }

    fn take(&mut self, map: &ConfigMap) -> bool {
        let addition = addition(map);
        self.maps.insert(name(map), addition.clone()) != Some(addition)
    }
}

fn selector() -> String {
    format!("{LABEL}=true")
}

fn name(map: &ConfigMap) -> Name {
    (map.namespace().unwrap_or_default(), map.name_any())
}

/// What a `ConfigMap` adds.
pub fn addition(map: &ConfigMap) -> Addition {
    let (namespace, name) = name(map);
    Addition { source: format!("ConfigMap {namespace}/{name}"), data: map.data.clone().unwrap_or_default() }
}

/// Those of a namespace as they are now, for who looks once.
///
/// # Errors
/// When the API server refuses.
pub async fn additions(client: &Client, namespace: &str) -> Result<Vec<Addition>, kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let maps = api.list(&ListParams::default().labels(&selector())).await?;
    Ok(maps.items.iter().map(addition).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(name: &str, text: &str) -> ConfigMap {
        let map = serde_json::json!({"metadata": {"namespace": "openstack", "name": name}, "data": {"presets.edge.yaml": text}});
        serde_json::from_value(map).unwrap()
    }

    fn names(held: &Held) -> Vec<&str> {
        held.maps.keys().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn what_is_told_again_is_no_news_and_what_a_new_list_leaves_out_is_gone() {
        let mut held = Held::default();
        assert!(!held.hear(Ok(watcher::Event::Init)));
        assert!(held.hear(Ok(watcher::Event::InitApply(map("a", "1")))));
        assert!(held.hear(Ok(watcher::Event::InitDone)), "now everything was heard");
        assert!(!held.hear(Ok(watcher::Event::Apply(map("a", "1")))), "labels and the like are no business of ours");
        assert!(held.hear(Ok(watcher::Event::Apply(map("a", "2")))));
        assert!(held.hear(Ok(watcher::Event::Apply(map("b", "1")))));
        for event in [watcher::Event::Init, watcher::Event::InitApply(map("b", "1"))] {
            assert!(!held.hear(Ok(event)));
        }
        assert!(held.hear(Ok(watcher::Event::InitDone)));
        assert_eq!(names(&held), ["b"]);
        assert!(held.hear(Ok(watcher::Event::Delete(map("b", "1")))));
        assert!(names(&held).is_empty());
    }

    fn refused() -> Result<watcher::Event<ConfigMap>, watcher::Error> {
        let status = kube::core::Status::failure("configmaps is forbidden", "Forbidden").with_code(403);
        Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn a_watch_that_breaks_is_waited_for_and_takes_nothing_away() {
        let mut held = Held::default();
        assert!(!held.hear(Err(watcher::Error::NoResourceVersion)));
        assert!(!held.heard, "it is tried again");
        held.hear(Ok(watcher::Event::Init));
        held.hear(Ok(watcher::Event::InitApply(map("a", "1"))));
        held.hear(Ok(watcher::Event::InitDone));
        for broken in [Err(watcher::Error::NoResourceVersion), refused()] {
            assert!(!held.hear(broken));
            assert!(held.refused.is_none(), "what was told stands");
            assert_eq!(names(&held), ["a"]);
        }
    }

    #[test]
    fn a_watch_that_is_refused_says_so_until_it_is_not() {
        let mut held = Held::default();
        assert!(held.hear(refused()) && held.heard);
        assert!(held.refused.as_ref().is_some_and(|why| why.contains("configmaps is forbidden")), "{:?}", held.refused);
        assert!(!held.hear(refused()), "it is told once");
        held.hear(Ok(watcher::Event::Init));
        assert!(
            held.hear(Ok(watcher::Event::InitDone)) && held.refused.is_none(),
            "nothing was added, and that is news"
        );
    }
}
