//! Ceph: read out of the Secret that the spec names, or asked of Rook; handed on to the charts, withdrawn when no release mounts it any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::memory::Memory;
use super::{Context, store};
use crate::cluster::{Asked, Cluster, Error, Inputs, Reference, STORE};
use osdpl_core::api::{OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::ceph::{self, Ceph, Consumer, DeclaredCeph, NotReady, Object, ObjectStore, RookSettings};
use osdpl_core::desired::{Desired, Facts, Selection, Unavailable};
use osdpl_core::observed::Observed;

/// How soon an object that stands in the way is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The kind that says what the Ceph is, and how it is.
const CLUSTER: &str = "CephCluster";

/// The objects that say what the Ceph of a spec is: the Secret that describes it, or Rook's.
pub fn references(spec: &OpenStackDeploymentSpec, namespace: &str) -> Vec<Reference> {
    let Some(feature) = feature(spec) else { return Vec::new() };
    let secret =
        |namespace: &str, name: String| Reference { kind: ValuesKind::Secret, namespace: namespace.to_owned(), name };
    match RookSettings::from_feature(feature) {
        Some(rook) => {
            let secrets = rook.secrets().into_iter().map(|name| secret(&rook.namespace, name));
            secrets.chain([endpoints(&rook)]).collect()
        }
        None => feature["secret"]["name"].as_str().map(|name| secret(namespace, name.to_owned())).into_iter().collect(),
    }
}

fn endpoints(rook: &RookSettings) -> Reference {
    Reference { kind: ValuesKind::ConfigMap, namespace: rook.namespace.clone(), name: ceph::ENDPOINTS.into() }
}

/// The Rook that the features name, where Ceph is used.
pub fn rook(selection: &Selection) -> Option<RookSettings> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    RookSettings::from_feature(&storage["ceph"])
}

/// Watches Rook's objects, where the spec names a Rook.
pub fn watch(inputs: &Inputs, spec: &OpenStackDeploymentSpec) {
    let rook = feature(spec).and_then(RookSettings::from_feature);
    let kinds: &[_] =
        if feature(spec).and_then(ObjectStore::from_feature).is_some() { &[CLUSTER, STORE] } else { &[CLUSTER] };
    inputs.watch_rook(rook.as_ref().map(|rook| (rook.namespace.as_str(), kinds)));
}

fn feature(spec: &OpenStackDeploymentSpec) -> Option<&Value> {
    spec.features.get("storage").and_then(|storage| storage.get("ceph"))
}

fn consumers(selection: &Selection) -> BTreeSet<Consumer> {
    ceph::consumers(selection.releases.keys().map(String::as_str))
}

/// What those objects say; none where no Ceph is used.
pub fn declared(inputs: &Inputs, spec: &OpenStackDeploymentSpec, selection: &Selection) -> Option<DeclaredCeph> {
    if let Some(rook) = rook(selection) {
        let clusters = inputs.rooks(CLUSTER).map(|clusters| {
            clusters.iter().map(|(name, object)| ceph::Cluster::from_object(&rook.namespace, name, object)).collect()
        });
        let answer = rook.read(&consumers(selection), clusters, |name| rooks(inputs, &rook, name));
        return Some(DeclaredCeph::from_rook(answer).with_gateway(store::of_rook(inputs, &rook, selection)));
    }
    let is_used = selection.features.get("storage").is_some_and(|storage| storage["backend"] == "ceph");
    let reference = references(spec, &selection.namespace).into_iter().next().filter(|_| is_used)?;
    let data = inputs.all(&reference).map_err(|problem| problem.to_string());
    let object = format!("{}/{}", reference.namespace, reference.name);
    let gateway = data.as_ref().ok().and_then(|data| store::of_secret(&object, data, selection));
    Some(ceph::read_declared_ceph(&object, data, selection.releases.keys().map(String::as_str)).with_gateway(gateway))
}

/// An object of Rook's, which nobody is to make by hand.
fn rooks(inputs: &Inputs, rook: &RookSettings, name: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let reference = match name {
        ceph::ENDPOINTS => endpoints(rook),
        name => Reference { kind: ValuesKind::Secret, namespace: rook.namespace.clone(), name: name.to_owned() },
    };
    inputs.all(&reference).map_err(|problem| match problem {
        Unavailable::Missing(_) => format!("{reference} does not exist yet"),
        Unavailable::Unusable(problem) => problem,
    })
}

/// Writes what the charts mount, where the cluster may be written to; what stands in the way makes the Ceph unusable.
///
/// # Errors
/// When the API server refuses.
pub async fn write(
    cluster: &Cluster,
    declared: &mut DeclaredCeph,
    selection: &Selection,
    inputs: &Inputs,
) -> Result<(), Error> {
    if let Ok(ceph) = &declared.settings {
        let problem = cluster.write_ceph(&selection.name, &objects(ceph, selection), inputs).await?;
        declared.settings = problem.map_or_else(|| declared.settings.clone(), Err);
    }
    Ok(())
}

/// What is written for the charts.
fn objects(ceph: &Ceph, selection: &Selection) -> Vec<Object> {
    ceph::desired_objects(ceph, &selection.namespace, &namespaces(selection))
}

/// The namespace of each release, by the catalogue's name.
fn namespaces(selection: &Selection) -> BTreeMap<&str, &str> {
    selection.releases.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str())).collect()
}

impl Context {
    /// Asks Rook, where there is one, and hands Ceph on, before helm starts anything that mounts it. What is in the way, or not made yet, makes
    /// it unusable; no watch tells of everything, so the answer is when to look again.
    pub(super) async fn hand_on(
        &self,
        declared: &mut DeclaredCeph,
        selection: &Selection,
        facts: &Facts,
        memory: &mut Memory,
    ) -> Result<Option<Timestamp>, Error> {
        if let Some(rook) = rook(selection) {
            self.ask(&rook, declared, selection, memory).await?;
        }
        write(&self.cluster, declared, selection, &self.inputs).await?;
        self.hand_back(declared, selection, facts).await?;
        if let Ok(ceph) = &declared.settings {
            let (back, _) = store::kept(Some(declared), selection);
            self.inputs.keep_in_place_of(objects(ceph, selection).iter().chain(&back));
        }
        let is_looked_for = matches!(
            declared.not_ready_reason(),
            Some(NotReady::Occupied(_) | NotReady::Rook(_) | NotReady::OtherCeph { .. })
        );
        Ok(super::now().checked_add(LOOK_AGAIN).ok().filter(|_| is_looked_for))
    }

    /// Asks Rook again when the wish or its answer changed. Pools that are not ready hold back a cloud that was never there, not one that runs.
    async fn ask(
        &self,
        rook: &RookSettings,
        declared: &mut DeclaredCeph,
        selection: &Selection,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let wanted = rook.manifests(&consumers(selection));
        let changed = self.inputs.is_rook_changed();
        if !changed && memory.rook.as_ref() == Some(&wanted) {
            return Ok(());
        }
        memory.rook = None;
        match self.cluster.ask_rook(&selection.name, rook, &wanted).await? {
            Asked::Done => memory.rook = Some(wanted),
            Asked::Refused(problem) => declared.settings = Err(problem),
            // Nothing is made where there is no cluster; that is said already.
            Asked::Pending(_) if declared.cluster.is_none() => {}
            Asked::Pending(problem) => {
                let handed = |object: &Object| self.inputs.has_own(&object.namespace, &object.name);
                let runs = declared.settings.as_ref().is_ok_and(|ceph| objects(ceph, selection).iter().any(handed));
                let problem = NotReady::Rook(problem);
                if runs {
                    declared.warning.get_or_insert(problem);
                } else {
                    declared.settings = Err(problem);
                }
            }
        }
        Ok(())
    }

    /// Takes back what nothing mounts any more: only once every release runs with what is wanted, because until then pods that start anew
    /// look for it. What can't be read takes nothing back.
    pub(super) async fn withdraw_ceph(
        &self,
        declared: Option<&DeclaredCeph>,
        selection: &Selection,
        (desired, observed): (&Desired, &Observed),
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let ceph = match declared.map(|declared| &declared.settings) {
            Some(Err(_)) => return Ok(()),
            Some(Ok(ceph)) => Some(ceph),
            None => None,
        };
        let wanted = ceph.map(|ceph| objects(ceph, selection)).unwrap_or_default();
        let (back, told) = store::kept(declared, selection);
        let wanted: Vec<Object> = wanted.into_iter().chain(back).collect();
        let store = told.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        let names: Vec<String> =
            wanted.iter().map(Object::to_string).chain(store.map(|(space, name)| format!("{space}/{name}"))).collect();
        if memory.ceph.as_ref() != Some(&names) && is_settled(desired, observed) {
            self.cluster.leave_stores(&selection.name, store).await?;
            let taken = ceph.map(|ceph| ceph::chart_owned_secrets(ceph, &namespaces(selection))).unwrap_or_default();
            let kept: Vec<Object> = wanted.into_iter().chain(taken).collect();
            self.cluster.remove_ceph(&selection.name, &kept).await?;
            memory.ceph = Some(names);
        }
        Ok(())
    }
}

/// Whether every release of ours is wanted and runs with the wanted inputs.
fn is_settled(desired: &Desired, observed: &Observed) -> bool {
    let mut ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
    observed.running.is_empty()
        && ours.all(|(key, seen)| {
            let wanted = desired.releases.values().find(|release| release.key == *key);
            let same = wanted.is_some_and(|wanted| seen.inputs.as_deref() == Some(wanted.inputs.as_str()));
            same && seen.status == "deployed"
        })
}
