//! The watches on Rook's objects: those that were asked for, of which any change is looked at anew, and those that say what there is, of which
//! the part that matters is kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::super::Inputs;
use super::super::follow::follow;
use super::resource;
use osdpl_core::api::DEPLOYMENT_LABEL;

/// What is asked for.
const ASKED: [&str; 3] = ["CephBlockPool", "CephClient", "CephFilesystem"];

/// What is known of the objects of a kind in Rook's namespace, by name.
#[derive(Default)]
enum Heard {
    #[default]
    Nothing,
    Refused(String),
    Objects(BTreeMap<String, Value>),
}

/// The watch on Rook's objects in a namespace.
pub struct RookWatch {
    namespace: String,
    kinds: Vec<&'static str>,
    changed: Arc<AtomicBool>,
    heard: BTreeMap<&'static str, Arc<Mutex<Heard>>>,
    _watches: Vec<AbortOnDropHandle<()>>,
}

impl RookWatch {
    /// Watches in this namespace what is asked for, and keeps objects of `kinds`; `poke` is told of every change.
    pub fn new(client: &Client, namespace: &str, kinds: &[&'static str], poke: &Arc<Notify>) -> Self {
        let changed = Arc::new(AtomicBool::new(true));
        let asked = ASKED.iter().map(|kind| asked(client, namespace, kind, (&changed, poke)));
        let heard: BTreeMap<_, _> = kinds.iter().map(|kind| (*kind, Arc::<Mutex<Heard>>::default())).collect();
        let kept = heard.iter().map(|(kind, heard)| kept(client, namespace, kind, (heard, poke)));
        let watches = asked.chain(kept).collect();
        Self { namespace: namespace.to_owned(), kinds: kinds.to_vec(), changed, heard, _watches: watches }
    }

    /// Whether it watches there, and keeps these.
    pub fn is(&self, namespace: &str, kinds: &[&'static str]) -> bool {
        self.namespace == namespace && self.kinds == kinds
    }

    /// Whether something that was asked for changed since this was asked last.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// The objects of each kind that was listed, by name, or why they can't be: the part of each that matters.
    pub fn objects(&self) -> BTreeMap<&'static str, Result<BTreeMap<String, Value>, String>> {
        let known = self.heard.iter().filter_map(|(kind, heard)| {
            let objects = match &*lock(heard) {
                Heard::Nothing => return None,
                Heard::Refused(problem) => {
                    Err(format!("{kind}s in namespace {} can't be read: {problem}; install Rook", self.namespace))
                }
                Heard::Objects(objects) => Ok(objects.clone()),
            };
            Some((*kind, objects))
        });
        known.collect()
    }
}

impl Inputs {
    /// Watches what Rook is asked for in this namespace and keeps its objects of these kinds, or nothing.
    pub fn watch_rook(&self, wanted: Option<(&str, &[&'static str])>) {
        let mut watch = self.rook.lock().unwrap_or_else(PoisonError::into_inner);
        if !wanted.is_some_and(|(namespace, kinds)| watch.as_ref().is_some_and(|watch| watch.is(namespace, kinds))) {
            *watch = wanted.map(|(namespace, kinds)| RookWatch::new(&self.client, namespace, kinds, &self.poke));
        }
    }

    /// The objects of Rook that are watched, by kind and name.
    pub(in super::super) fn rook_objects(&self) -> BTreeMap<&'static str, Result<BTreeMap<String, Value>, String>> {
        let watch = self.rook.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().map(RookWatch::objects).unwrap_or_default()
    }

    /// Whether something that Rook was asked for changed since this was asked last.
    pub fn is_rook_changed(&self) -> bool {
        let watch = self.rook.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().is_none_or(RookWatch::take_changed)
    }
}

fn lock(heard: &Mutex<Heard>) -> std::sync::MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn asked(
    client: &Client,
    namespace: &str,
    kind: &str,
    (changed, poke): (&Arc<AtomicBool>, &Arc<Notify>),
) -> AbortOnDropHandle<()> {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(client.clone(), namespace, &resource(kind));
    let changed = Arc::clone(changed);
    follow(watcher(api, watcher::Config::default().labels(DEPLOYMENT_LABEL)), Arc::clone(poke), move |event| {
        // What is refused, or not known to the API server yet, is tried again.
        if event.is_ok() {
            changed.store(true, Ordering::Release);
        }
        event.is_ok()
    })
}

fn kept(
    client: &Client,
    namespace: &str,
    kind: &str,
    (heard, poke): (&Arc<Mutex<Heard>>, &Arc<Notify>),
) -> AbortOnDropHandle<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(kind));
    let heard = Arc::clone(heard);
    let mut listed = BTreeMap::new();
    let hear = move |event| lock(&heard).hear(event, &mut listed);
    follow(watcher(api, watcher::Config::default()), Arc::clone(poke), hear)
}

impl Heard {
    /// Whether that is news. What was heard once counts until something else is heard: a watch that breaks says nothing about objects.
    fn hear(
        &mut self,
        event: Result<watcher::Event<DynamicObject>, watcher::Error>,
        listed: &mut BTreeMap<String, Value>,
    ) -> bool {
        let before = match self {
            Self::Objects(objects) => Some(objects),
            Self::Nothing | Self::Refused(_) => None,
        };
        let after = match (event, before) {
            (Ok(watcher::Event::Init), _) => {
                listed.clear();
                return false;
            }
            (Ok(watcher::Event::InitApply(object)), _) => {
                listed.insert(object.name_any(), part(&object));
                return false;
            }
            (Ok(watcher::Event::InitDone), Some(before)) if *before == *listed => return false,
            (Ok(watcher::Event::InitDone), _) => Self::Objects(std::mem::take(listed)),
            (Ok(watcher::Event::Apply(object)), Some(before)) => {
                let part = part(&object);
                return before.insert(object.name_any(), part.clone()) != Some(part);
            }
            (Ok(watcher::Event::Delete(object)), Some(before)) => return before.remove(&object.name_any()).is_some(),
            (Ok(_), None) | (Err(_), Some(_)) => return false,
            (Err(error), None) => {
                let problem = error.to_string();
                if matches!(self, Self::Refused(told) if *told == problem) {
                    return false;
                }
                Self::Refused(problem)
            }
        };
        *self = after;
        true
    }
}

/// What of an object is kept: Rook writes the time of its last look into the status of a `CephCluster` every minute.
fn part(object: &DynamicObject) -> Value {
    let at = |pointer: &str| object.data.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "metadata": {"uid": object.metadata.uid, "labels": object.metadata.labels},
        "spec": {
            "auth": at("/spec/auth"), "protocols": at("/spec/protocols"), "gateway": {"caBundleRef": at("/spec/gateway/caBundleRef")},
        },
        "status": {
            "phase": at("/status/phase"), "message": at("/status/message"), "endpoints": at("/status/endpoints"),
            "ceph": {"health": at("/status/ceph/health"), "fsid": at("/status/ceph/fsid")},
        },
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_is_refused_again_and_again_is_news_once_and_what_was_heard_counts_until_something_else_is() {
        let refused = |why: &str| Err(watcher::Error::WatchError(Box::new(Status::failure(why, "Forbidden"))));
        let (mut heard, mut listed) = (Heard::default(), BTreeMap::new());
        let mut hear = |event| heard.hear(event, &mut listed);
        assert!(hear(refused("Rook is not there")) && !hear(refused("Rook is not there")));
        assert!(hear(refused("that is forbidden")), "the words are others");
        assert!(!hear(Ok(watcher::Event::Init)) && hear(Ok(watcher::Event::InitDone)));
        assert!(!hear(refused("that is forbidden")), "a watch that breaks says nothing about objects");
        assert!(matches!(heard, Heard::Objects(objects) if objects.is_empty()));
    }
}
