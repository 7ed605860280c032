//! Back to Ceph: its object store is told where Keystone is before anybody waits for its URLs, which come back as the cloud's object store.

use std::collections::BTreeMap;

use super::Context;
use super::ceph::rook;
use crate::cluster::{Error, Inputs, STORE};
use osdpl_core::ceph::{DeclaredCeph, Gateway, Keystone, NotReady, Object, ObjectStore, RookSettings};
use osdpl_core::desired::{Facts, Selection};

/// The release that registers the object store, and runs the gateways where nobody else does.
const RELEASE: &str = "ceph-rgw";
/// The service that it belongs to, and its credential: the password of the gateways' user.
const CREDENTIAL: (&str, &str) = ("ceph_rgw", "identity");

/// The object store that the features ask for, where its release is part of the cloud.
pub fn wanted(selection: &Selection) -> Option<ObjectStore> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    ObjectStore::from_feature(&storage["ceph"]).filter(|_| selection.releases.contains_key(RELEASE))
}

/// Who runs the gateways of a Rook, or why that is not known; none where no object store is asked for.
pub fn of_rook(inputs: &Inputs, rook: &RookSettings, selection: &Selection) -> Option<Result<Gateway, NotReady>> {
    let store = wanted(selection)?;
    let place = format!("{}/{}", rook.namespace, store.name());
    let missing = || {
        NotReady::Rook(format!(
            "{STORE} {place} does not exist; make it, or correct spec.features.storage.ceph.objectStore.name"
        ))
    };
    let seen = inputs.rooks(STORE).map_err(NotReady::Rook);
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

/// What is written for the gateways: what they ask Keystone with, and what the chart mounts where it runs them.
fn objects(store: &ObjectStore, keystone: &Keystone, declared: &DeclaredCeph, selection: &Selection) -> Vec<Object> {
    let rook = rook(selection);
    let namespace = rook.as_ref().map_or(&selection.namespace, |rook| &rook.namespace);
    let secret = store.secret(namespace, &selection.name, keystone);
    let gateway = declared.gateway.iter().flatten().zip(selection.releases.get(RELEASE));
    let mounted = gateway.flat_map(|(gateway, key)| gateway.objects(&key.namespace));
    [secret].into_iter().chain(mounted).collect()
}

/// What stays while this is wanted: the objects, of which only the names count, and the object store that was told, as (namespace, name).
pub fn kept(declared: Option<&DeclaredCeph>, selection: &Selection) -> (Vec<Object>, Option<(String, String)>) {
    let Some((declared, store)) = declared.zip(wanted(selection)) else { return (Vec::new(), None) };
    let nobody = Keystone { url: String::new(), password: String::new() };
    let told = rook(selection).map(|rook| (rook.namespace, store.name().to_owned()));
    (objects(&store, &nobody, declared, selection), told)
}

/// What of that a release that stays may mount, and what its gateways ask Keystone with: by name.
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

impl Context {
    /// Writes what the gateways need, whether or not they run yet: they can't before they know Keystone.
    pub(super) async fn hand_back(
        &self,
        declared: &mut DeclaredCeph,
        selection: &Selection,
        facts: &Facts,
    ) -> Result<(), Error> {
        let Some(store) = wanted(selection) else { return Ok(()) };
        let Some(keystone) = keystone(&store, selection, facts) else { return Ok(()) };
        let rook = rook(selection);
        let live = self.inputs.rooks(STORE).ok().and_then(|mut all| all.remove(store.name()));
        if rook.is_some() && live.is_none() {
            return Ok(());
        }
        let objects = objects(&store, &keystone, declared, selection);
        let mut problem = self.cluster.write_ceph(&selection.name, &objects, &self.inputs).await?;
        if let (None, Some(rook), Some(live)) = (&problem, rook, live) {
            let place = (rook.namespace.as_str(), store.name());
            let settings = store.settings(&selection.name, &keystone.url);
            problem = self.cluster.tell_store(&selection.name, place, &live, &settings).await?;
        }
        if let Some(problem) = problem {
            declared.gateway = Some(Err(problem));
        }
        Ok(())
    }
}
