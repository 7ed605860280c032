//! Lets the gateways of Ceph's object store use Keystone, and finds the addresses of the gateways that Rook runs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::mounted;
use super::rook::{self, OBJECT_STORE};
use crate::action::{Action, Planned};
use crate::draft::Draft;
use crate::objects::Objects;
use crate::requests::Read;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::{DeclaredCeph, Gateway, Keystone, NotReady, Object, ObjectStore, RookSettings, contains};
use osdpl_core::desired::{Facts, Selection};
use osdpl_core::observed::ReleaseKey;

/// The helm release that registers Ceph's object store in Keystone.
///
/// The release also runs the gateways, unless Rook or an external Ceph cluster runs them.
pub(crate) const RELEASE: &str = "ceph-rgw";
/// The credential with which the gateways log in to Keystone: first its service, then its name in the catalogue.
const CREDENTIAL: (&str, &str) = ("ceph_rgw", "identity");

/// Returns the addresses of the gateways that Rook runs; `None` if the spec requests no object store.
///
/// Returns an error if osdpl does not know the addresses. The error says why.
pub(crate) fn rook_gateway(
    objects: &Objects,
    rook: &RookSettings,
    selection: &Selection,
) -> Option<Result<Gateway, NotReady>> {
    let store = selection.object_store()?;
    let name = format!("{}/{}", rook.namespace, store.name());
    let missing = || {
        NotReady::Rook(format!(
            "{OBJECT_STORE} {name} does not exist; create it, or correct spec.features.storage.ceph.objectStore.name"
        ))
    };
    let stores = objects.rook_objects(OBJECT_STORE).map_err(NotReady::Rook);
    let gateway = stores.and_then(|all| Gateway::rook(&name, &all.get(store.name()).ok_or_else(missing)?["status"]));
    Some(gateway.and_then(|gateway| gateway.published_by(&store)))
}

/// Returns the URL of Keystone for the gateways of Ceph's object store, and the password of the gateways' Keystone
/// user.
///
/// Returns `None` if the cloud has no Keystone, or if osdpl does not know the password yet.
///
/// Without a URL in the spec, gateways that Rook runs use Keystone's Service in the cluster. Other gateways use
/// Keystone's public URL, or Keystone's Service if the cloud publishes no URL.
fn keystone(store: &ObjectStore, selection: &Selection, facts: &Facts) -> Option<Keystone> {
    let password = facts.credentials.get(CREDENTIAL.0)?.get(CREDENTIAL.1)?.clone();
    let namespace = &selection.releases.get("keystone")?.namespace;
    let service = format!("http://keystone-api.{namespace}.svc.cluster.local:5000");
    let endpoints = selection.features.get("publicEndpoints").filter(|feature| feature["enabled"] == true);
    let domain = selection.scope.variable("spec").and_then(|spec| spec["publicDomain"].as_str());
    let public = endpoints.zip(domain).filter(|(_, domain)| !domain.is_empty()).map(|(feature, domain)| {
        let scheme = feature["scheme"].as_str().unwrap_or("https");
        format!("{scheme}://keystone.{domain}")
    });
    let public = public.filter(|_| rook::settings(selection).is_none());
    let url = store.keystone_url().map(|url| url.trim_end_matches('/').to_owned()).or(public).unwrap_or(service);
    Some(Keystone { url, password })
}

/// Returns the objects that osdpl writes for the gateways: the Secret with their login for Keystone, and the objects
/// that the pods of the release `ceph-rgw` mount.
fn objects(store: &ObjectStore, keystone: &Keystone, declared: &DeclaredCeph, selection: &Selection) -> Vec<Object> {
    let secret = access_secret(store, keystone, selection);
    let gateway = declared.gateway.iter().flatten().zip(selection.releases.get(RELEASE));
    let mounted = gateway.flat_map(|(gateway, key)| gateway.objects(&key.namespace));
    [secret].into_iter().chain(mounted).collect()
}

/// Returns the Secret with which the gateways log in to Keystone.
fn access_secret(store: &ObjectStore, keystone: &Keystone, selection: &Selection) -> Object {
    let rook = rook::settings(selection);
    let namespace = rook.as_ref().map_or(&selection.namespace, |rook| &rook.namespace);
    store.secret(namespace, &selection.name, keystone)
}

/// Empty Keystone settings, for callers that need only the names of the gateways' objects, not their contents.
const NO_KEYSTONE: Keystone = Keystone { url: String::new(), password: String::new() };

/// Returns the objects that osdpl writes for the gateways, and the `CephObjectStore` that osdpl configures (`None` if
/// Rook does not run the gateways).
///
/// Callers must use only the kinds, namespaces and names of the objects, because their contents are incomplete.
pub(crate) fn desired(declared: Option<&DeclaredCeph>, selection: &Selection) -> (Vec<Object>, Option<ReleaseKey>) {
    let Some((declared, store)) = declared.zip(selection.object_store()) else { return (Vec::new(), None) };
    let configured = rook::settings(selection).map(|rook| ReleaseKey::new(rook.namespace, store.name()));
    (objects(&store, &NO_KEYSTONE, declared, selection), configured)
}

/// Returns the objects of osdpl that the gateways can need although osdpl does not manage the release `ceph-rgw`. If
/// osdpl manages this release, the result is empty.
///
/// `namespaces` contains the namespace of each release that osdpl does not manage, by the release's name in the
/// catalogue. Callers must use only the kinds, namespaces and names of the objects, because their contents are
/// incomplete.
pub(crate) fn used_by_foreign(selection: &Selection, namespaces: &BTreeMap<&str, &str>) -> Vec<Object> {
    let Some(namespace) = namespaces.get(RELEASE) else { return Vec::new() };
    let storage = selection.features.get("storage");
    let store = storage.and_then(|storage| ObjectStore::from_feature(&storage["ceph"]));
    let secret = store.map(|store| access_secret(&store, &NO_KEYSTONE, selection));
    secret.into_iter().chain([Gateway::keyring_object(namespace)]).collect()
}

/// Plans to write the objects and settings that the gateways need.
///
/// If osdpl can't write an object or a setting, the function stores the reason in `declared.gateway`.
pub(crate) fn provide(draft: &mut Draft<'_>, declared: &mut DeclaredCeph, selection: &Selection, facts: &Facts) {
    let Some(store) = selection.object_store() else { return };
    let Some(keystone) = keystone(&store, selection, facts) else { return };
    let rook = rook::settings(selection);
    let live = draft.snapshot.objects.rook_objects(OBJECT_STORE).ok().and_then(|all| all.get(store.name()));
    if rook.is_some() && live.is_none() {
        return;
    }
    let objects = objects(&store, &keystone, declared, selection);
    let mut problem = mounted::write(draft, &selection.owner(), &objects);
    if let (None, Some(rook), Some(live)) = (&problem, rook, live) {
        let key = ReleaseKey::new(rook.namespace, store.name());
        problem = configure(draft, &selection.owner(), key, live, store.settings(&selection.name, &keystone.url));
    }
    if let Some(problem) = problem {
        declared.gateway = Some(Err(problem));
    }
}

/// Plans to set the Keystone settings of a `CephObjectStore`, so that its gateways authenticate users with Keystone.
///
/// The `CephObjectStore` belongs to the user who runs Rook, so osdpl changes only these settings. Returns the reason if
/// osdpl can't set them.
fn configure(draft: &mut Draft<'_>, owner: &str, store: ReleaseKey, live: &Value, settings: Value) -> Option<NotReady> {
    let label = live["metadata"]["labels"][DEPLOYMENT_LABEL].as_str();
    if label.is_some_and(|label| label != owner) {
        return Some(NotReady::Occupied(format!("{OBJECT_STORE} {store}")));
    }
    if label.is_some() && contains(&live["spec"], &settings) {
        return None;
    }
    let action = Action::ConfigureStore { store, uid: live["metadata"]["uid"].clone(), settings };
    let refusal = draft.attempt_for_spec(Planned::new(action, "the gateways authenticate users with Keystone"));
    refusal.map(|refusal| NotReady::Rook(refusal.message.clone()))
}

/// Plans to remove osdpl's Keystone settings from every `CephObjectStore` that has them, except from `kept`.
pub(crate) fn release(draft: &mut Draft<'_>, kept: Option<&ReleaseKey>) {
    let Some(stores) = draft.list(Read::OwnStores) else { return };
    for (store, uid) in stores.iter().filter(|(store, _)| Some(store) != kept) {
        let action = Action::ReleaseStore { store: store.clone(), uid: uid.clone() };
        draft.add(Planned::new(action, "the cloud no longer uses this object store"));
    }
}
