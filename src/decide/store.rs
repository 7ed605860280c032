//! The object store of Ceph: it is given Keystone before anybody waits for its URLs, which come back as the cloud's object store.

use std::collections::BTreeMap;

use super::action::{Action, Planned};
use super::ceph::{self, STORE, rook};
use super::draft::Draft;
use super::requests::Read;
use super::snapshot::Objects;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::{DeclaredCeph, Gateway, Keystone, NotReady, Object, ObjectStore, RookSettings, contains};
use osdpl_core::desired::{Facts, Selection};
use osdpl_core::observed::ReleaseKey;

/// The release that registers the object store, and runs the gateways where nobody else does.
const RELEASE: &str = "ceph-rgw";
/// The service that it belongs to, and its credential: the password of the gateways' user.
const CREDENTIAL: (&str, &str) = ("ceph_rgw", "identity");

/// The object store that the features ask for, where its release is part of the cloud.
fn wanted(selection: &Selection) -> Option<ObjectStore> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    ObjectStore::from_feature(&storage["ceph"]).filter(|_| selection.releases.contains_key(RELEASE))
}

/// Who runs the gateways of a Rook, or why that is not known; none where no object store is asked for.
pub fn of_rook(objects: &Objects, rook: &RookSettings, selection: &Selection) -> Option<Result<Gateway, NotReady>> {
    let store = wanted(selection)?;
    let place = format!("{}/{}", rook.namespace, store.name());
    let missing = || {
        NotReady::Rook(format!(
            "{STORE} {place} does not exist; make it, or correct spec.features.storage.ceph.objectStore.name"
        ))
    };
    let seen = objects.rooks(STORE).map_err(NotReady::Rook);
    let gateway = seen.and_then(|all| Gateway::rook(&place, &all.get(store.name()).ok_or_else(missing)?["status"]));
    Some(gateway.and_then(|gateway| public(gateway, &store)))
}

/// The same of a Secret that describes a Ceph.
pub fn of_secret(
    object: &str,
    data: &BTreeMap<String, Vec<u8>>,
    selection: &Selection,
) -> Option<Result<Gateway, NotReady>> {
    let store = wanted(selection)?;
    Some(Gateway::external(object, data).map_err(NotReady::from).and_then(|gateway| public(gateway, &store)))
}

fn public(gateway: Gateway, store: &ObjectStore) -> Result<Gateway, NotReady> {
    let wrong = |complaint| NotReady::Rook(format!("spec.features.storage.ceph.objectStore.publicUrl: {complaint}"));
    gateway.with_public(store.public_url()).map_err(wrong)
}

/// Keystone as the gateways see it: within the cluster by its Service, from outside by the name that users use, where there is one.
fn keystone(store: &ObjectStore, selection: &Selection, facts: &Facts) -> Option<Keystone> {
    let password = facts.credentials.get(CREDENTIAL.0)?.get(CREDENTIAL.1)?.clone();
    let namespace = &selection.releases.get("keystone")?.namespace;
    let service = format!("http://keystone-api.{namespace}.svc.cluster.local:5000");
    let endpoints = selection.features.get("publicEndpoints").filter(|feature| feature["enabled"] == true);
    let domain = selection.scope.variable("spec").and_then(|spec| spec["publicDomain"].as_str());
    let name = endpoints.zip(domain).filter(|(_, domain)| !domain.is_empty()).map(|(feature, domain)| {
        let scheme = feature["scheme"].as_str().unwrap_or("https");
        format!("{scheme}://keystone.{domain}")
    });
    let outside = name.filter(|_| rook(selection).is_none());
    let url = store.keystone_url().map(|url| url.trim_end_matches('/').to_owned()).or(outside).unwrap_or(service);
    Some(Keystone { url, password })
}

/// The objects that are written for the gateways: what they ask Keystone with, and what the chart mounts where it runs them.
fn objects(store: &ObjectStore, keystone: &Keystone, declared: &DeclaredCeph, selection: &Selection) -> Vec<Object> {
    let rook = rook(selection);
    let namespace = rook.as_ref().map_or(&selection.namespace, |rook| &rook.namespace);
    let secret = store.secret(namespace, &selection.name, keystone);
    let gateway = declared.gateway.iter().flatten().zip(selection.releases.get(RELEASE));
    let mounted = gateway.flat_map(|(gateway, key)| gateway.objects(&key.namespace));
    [secret].into_iter().chain(mounted).collect()
}

/// What stays while this is wanted: the objects, of which only the names count, and the object store that was given Keystone.
pub fn kept(declared: Option<&DeclaredCeph>, selection: &Selection) -> (Vec<Object>, Option<ReleaseKey>) {
    let Some((declared, store)) = declared.zip(wanted(selection)) else { return (Vec::new(), None) };
    let nobody = Keystone { url: String::new(), password: String::new() };
    let configured = rook(selection).map(|rook| ReleaseKey::new(rook.namespace, store.name()));
    (objects(&store, &nobody, declared, selection), configured)
}

/// The objects that a release which stays may mount, and what its gateways ask Keystone with: by name.
pub fn held(selection: &Selection, releases: &BTreeMap<&str, &str>) -> Vec<Object> {
    let Some(namespace) = releases.get(RELEASE) else { return Vec::new() };
    let nobody = Keystone { url: String::new(), password: String::new() };
    let rook = rook(selection);
    let secret = |store: ObjectStore| {
        let place = rook.as_ref().map_or(&selection.namespace, |rook| &rook.namespace);
        store.secret(place, &selection.name, &nobody)
    };
    let storage = selection.features.get("storage");
    let store = storage.and_then(|storage| ObjectStore::from_feature(&storage["ceph"])).map(secret);
    store.into_iter().chain([Gateway::keyring_object(namespace)]).collect()
}

/// Plans what the gateways need, whether or not they run yet: they can't before they know Keystone.
pub fn hand_back(draft: &mut Draft<'_>, declared: &mut DeclaredCeph, selection: &Selection, facts: &Facts) {
    let Some(store) = wanted(selection) else { return };
    let Some(keystone) = keystone(&store, selection, facts) else { return };
    let rook = rook(selection);
    let live = draft.snapshot.objects.rooks(STORE).ok().and_then(|all| all.get(store.name()));
    if rook.is_some() && live.is_none() {
        return;
    }
    let objects = objects(&store, &keystone, declared, selection);
    let mut problem = ceph::write(draft, &selection.name, &objects);
    if let (None, Some(rook), Some(live)) = (&problem, rook, live) {
        let key = ReleaseKey::new(rook.namespace, store.name());
        problem = configure(draft, &selection.name, key, (live, store.settings(&selection.name, &keystone.url)));
    }
    if let Some(problem) = problem {
        declared.gateway = Some(Err(problem));
    }
}

/// Plans the Keystone settings of an object store. It belongs to Rook's user: only these settings are touched.
fn configure(
    draft: &mut Draft<'_>,
    deployment: &str,
    store: ReleaseKey,
    (live, settings): (&serde_json::Value, serde_json::Value),
) -> Option<NotReady> {
    let owner = live["metadata"]["labels"][DEPLOYMENT_LABEL].as_str();
    if owner.is_some_and(|owner| owner != deployment) {
        return Some(NotReady::Occupied(format!("{STORE} {store}")));
    }
    if owner.is_some() && contains(&live["spec"], &settings) {
        return None;
    }
    let action = Action::ConfigureStore { store, uid: live["metadata"]["uid"].clone(), settings };
    let refusal = draft.attempt(Planned::new(action, "its gateways ask Keystone"));
    refusal.map(|refusal| NotReady::Rook(refusal.message.clone()))
}

/// Plans to take our settings out of every object store but the one that is kept.
pub fn release(draft: &mut Draft<'_>, kept: Option<&ReleaseKey>) {
    let Some(stores) = draft.list(Read::OwnStores) else { return };
    for (store, uid) in stores.iter().filter(|(store, _)| Some(store) != kept) {
        let action = Action::ReleaseStore { store: store.clone(), uid: uid.clone() };
        draft.add(Planned::new(action, "the cloud uses it no more"));
    }
}
