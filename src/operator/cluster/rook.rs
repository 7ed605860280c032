//! Writes and watches Rook's objects.
//!
//! osdpl writes Ceph's pools, file systems and clients, and the Keystone settings of object stores. It never deletes an
//! object of Rook, because the cloud's data and Ceph's keys depend on these objects.
//!
//! osdpl runs two groups of watches in Rook's namespace. The first group watches the objects that osdpl created, and
//! caches nothing: after a change, the next pass reads Rook's objects again. The second group watches all objects of the
//! kinds that a plan requests, and caches the fields that decisions use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta, Status};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use osdpl_values::CollectSorted;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::watch::spawn_watch;
use super::{Cluster, Error, ErrorContext, MANAGER};
use osdpl_client::refusal;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::Manifest;
use osdpl_core::observed::ReleaseKey;
use osdpl_decide::OBJECT_STORE;

pub(super) fn rook_resource(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind), &plural)
}

/// Describes why the API server refused a request for an object of Rook. Names the remedy if Rook is not installed or
/// the operator lacks the permission.
pub(super) fn describe_refusal(object: &str, status: &Status) -> String {
    if status.code == 404 {
        return format!(
            "{object} can't be created: the namespace or ceph.rook.io/v1 does not exist; install Rook, or correct \
             spec.features.storage.ceph.rook.namespace"
        );
    }
    if status.is_forbidden() {
        return format!("{object}: {}; set `rbac.rook` in the values of the operator's chart", refusal(status));
    }
    format!("{object}: {}", refusal(status))
}

impl Cluster {
    /// Applies a `CephBlockPool`, `CephFilesystem` or `CephClient`.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn apply_rook(&self, owner: &str, namespace: &str, manifest: &Manifest) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &rook_resource(manifest.kind));
        let object = format!("{} {namespace}/{}", manifest.kind, manifest.name);
        let labels = json!({DEPLOYMENT_LABEL: owner, "app.kubernetes.io/managed-by": MANAGER});
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": manifest.kind, "spec": manifest.spec,
            "metadata": {"name": manifest.name, "namespace": namespace, "labels": labels},
        });
        match api.patch(&manifest.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) => Err(Error::Object(describe_refusal(&object, &status))),
            other => other.map(drop).with_context(|| format!("applying {object}")),
        }
    }

    /// Applies the Keystone settings in `settings` to the spec of a `CephObjectStore` that someone else created.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn configure_store(
        &self,
        owner: &str,
        store: &ReleaseKey,
        uid: &Value,
        settings: &Value,
    ) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &store.namespace, &rook_resource(OBJECT_STORE));
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": OBJECT_STORE, "spec": settings,
            // With the uid, the API server refuses the request if someone has deleted the store since osdpl read it.
            // Without the uid, the API server would create a new store.
            "metadata": {"name": store.name, "uid": uid, "labels": {DEPLOYMENT_LABEL: owner}},
        });
        match api.patch(&store.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) => {
                Err(Error::Object(format!("{OBJECT_STORE} {store}: {}", refusal(&status))))
            }
            other => other.map(drop).with_context(|| format!("writing {OBJECT_STORE} {store}")),
        }
    }

    /// Removes from a `CephObjectStore` the Keystone settings that osdpl has applied to it.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn release_store(&self, store: &ReleaseKey, uid: &str) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &store.namespace, &rook_resource(OBJECT_STORE));
        let metadata = json!({"name": store.name, "uid": uid});
        let body = json!({"apiVersion": "ceph.rook.io/v1", "kind": OBJECT_STORE, "metadata": metadata});
        let patched = api.patch(&store.name, &PatchParams::apply(MANAGER), &Patch::Apply(body)).await;
        patched.map(drop).with_context(|| format!("removing Keystone's settings from {OBJECT_STORE} {store}"))
    }
}

/// The kinds of Rook's objects that osdpl creates.
const CREATED_KINDS: [&str; 3] = ["CephBlockPool", "CephClient", "CephFilesystem"];

/// For each watched kind of Rook's objects: the objects by name, or the reason why osdpl can't list them.
pub(super) type RookObjects = BTreeMap<&'static str, Result<BTreeMap<String, Value>, String>>;

/// The result of a watch on the objects of one kind: none yet (`Unknown`), the reason why the API server does not list
/// the objects (`Failed`), or the objects (`Listed`).
#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Failed(String),
    Listed(BTreeMap<String, Value>),
}

/// The watches on Rook's objects in a namespace.
///
/// Kept so that a pass reads Rook's objects only after a change. A restart loses only the caches: the new watches list
/// the objects again.
pub(super) struct RookWatch {
    namespace: String,
    kinds: Vec<&'static str>,
    /// Whether an object that osdpl created has changed since the last call of [`RookWatch::take_changed`]. Kept until
    /// the next call. After a restart, it is `true`, so that the first pass reads the objects.
    is_changed: Arc<AtomicBool>,
    /// The cached objects of the kinds that a plan requests, by kind. Kept so that no pass has to list them. After a
    /// restart, the new watches list them again.
    states: BTreeMap<&'static str, Arc<Mutex<State>>>,
    _watches: Vec<AbortOnDropHandle<()>>,
}

impl RookWatch {
    /// Starts two groups of watches: on the objects that osdpl created, without a cache, and on all objects of `kinds`,
    /// with a cache. Changes notify `trigger`.
    pub(super) fn new(client: &Client, namespace: &str, kinds: &[&'static str], trigger: &Arc<Notify>) -> Self {
        let is_changed = Arc::new(AtomicBool::new(true));
        let created = CREATED_KINDS.iter().map(|kind| {
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::namespaced_with(client.clone(), namespace, &rook_resource(kind));
            let is_changed = Arc::clone(&is_changed);
            let events = watcher(api, watcher::Config::default().labels(DEPLOYMENT_LABEL));
            spawn_watch(events, Arc::clone(trigger), move |event| {
                // An error is not a change, so it triggers no pass. The watch retries, for example until the API server
                // serves the kind.
                if event.is_ok() {
                    is_changed.store(true, Ordering::Release);
                }
                event.is_ok()
            })
        });
        let states: BTreeMap<_, _> = kinds.iter().map(|kind| (*kind, Arc::<Mutex<State>>::default())).collect_map();
        let cached = states.iter().map(|(kind, state)| {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &rook_resource(kind));
            let state = Arc::clone(state);
            let mut listed = BTreeMap::new();
            let apply = move |event| lock(&state).apply(event, &mut listed);
            spawn_watch(watcher(api, watcher::Config::default()), Arc::clone(trigger), apply)
        });
        let watches = created.chain(cached).collect();
        Self { namespace: namespace.to_owned(), kinds: kinds.to_vec(), is_changed, states, _watches: watches }
    }

    /// Whether these watches are for all of `kinds` in `namespace`.
    pub(super) fn is_for(&self, namespace: &str, kinds: &[&'static str]) -> bool {
        self.namespace == namespace && self.kinds == kinds
    }

    /// Returns whether an object that osdpl created could have changed since the last call of this function; `true` at
    /// the first call.
    pub(super) fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::AcqRel)
    }

    /// Returns the cached objects of each kind, or why the kind can't be listed. The result leaves out each kind that
    /// the API server has not listed yet.
    pub(super) fn objects(&self) -> RookObjects {
        let known = self.states.iter().filter_map(|(kind, state)| {
            let objects = match &*lock(state) {
                State::Unknown => return None,
                State::Failed(problem) => Err(format!(
                    "{kind}s in namespace {} can't be read: {problem}; install Rook, or set `rbac.rook` in the values \
                     of the operator's chart",
                    self.namespace
                )),
                State::Listed(objects) => Ok(objects.clone()),
            };
            Some((*kind, objects))
        });
        known.collect_map()
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Updates the state with an event of the watch; returns whether the state changed, which triggers a pass.
    ///
    /// `listed` collects the objects of a list until the list is complete. After the first complete list, errors do not
    /// change the state.
    fn apply(
        &mut self,
        event: Result<watcher::Event<DynamicObject>, watcher::Error>,
        listed: &mut BTreeMap<String, Value>,
    ) -> bool {
        let before = match self {
            Self::Listed(objects) => Some(objects),
            Self::Unknown | Self::Failed(_) => None,
        };
        let after = match (event, before) {
            (Ok(watcher::Event::Init), _) => {
                listed.clear();
                return false;
            }
            (Ok(watcher::Event::InitApply(object)), _) => {
                listed.insert(object.name_any(), relevant_fields(&object));
                return false;
            }
            (Ok(watcher::Event::InitDone), Some(before)) if *before == *listed => return false,
            (Ok(watcher::Event::InitDone), _) => Self::Listed(std::mem::take(listed)),
            (Ok(watcher::Event::Apply(object)), Some(before)) => {
                let fields = relevant_fields(&object);
                return before.insert(object.name_any(), fields.clone()) != Some(fields);
            }
            (Ok(watcher::Event::Delete(object)), Some(before)) => return before.remove(&object.name_any()).is_some(),
            (Ok(_), None) | (Err(_), Some(_)) => return false,
            (Err(error), None) => {
                let problem = error.to_string();
                if matches!(self, Self::Failed(known) if *known == problem) {
                    return false;
                }
                Self::Failed(problem)
            }
        };
        *self = after;
        true
    }
}

/// Returns those fields of a Rook object that osdpl's decisions use.
///
/// The result leaves out all other fields, because they change often and would trigger passes. For example, Rook writes
/// the time of its last check to the status of a `CephCluster` every minute.
fn relevant_fields(object: &DynamicObject) -> Value {
    let at = |pointer: &str| object.data.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "metadata": {"uid": object.metadata.uid, "labels": object.metadata.labels},
        "spec": {
            "auth": at("/spec/auth"), "protocols": at("/spec/protocols"),
            "gateway": {"caBundleRef": at("/spec/gateway/caBundleRef")},
        },
        "status": {
            "phase": at("/status/phase"), "message": at("/status/message"), "endpoints": at("/status/endpoints"),
            "ceph": {"health": at("/status/ceph/health"), "fsid": at("/status/ceph/fsid")},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_new_errors_until_objects_are_listed() {
        let refused = |why: &str| Err(watcher::Error::WatchError(Box::new(Status::failure(why, "Forbidden"))));
        let (mut state, mut listed) = (State::default(), BTreeMap::new());
        let mut apply = |event| state.apply(event, &mut listed);
        assert!(apply(refused("Rook is not installed")) && !apply(refused("Rook is not installed")));
        assert!(apply(refused("forbidden")), "another error triggers a pass");
        assert!(!apply(Ok(watcher::Event::Init)) && apply(Ok(watcher::Event::InitDone)));
        assert!(!apply(refused("forbidden")), "an error after the first list does not change the objects");
        assert!(matches!(state, State::Listed(objects) if objects.is_empty()));
    }
}
