//! Ceph: read out of the Secret that the spec names, handed on to the charts, withdrawn when no release mounts it any more.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::memory::Memory;
use crate::api::{OpenStackDeploymentSpec, ValuesKind};
use crate::ceph::{self, Ceph, Declared, Object, Unready};
use crate::cluster::{Error, Inputs, Reference};
use crate::desired::{Desired, Selection};
use crate::observed::Observed;

/// How soon an object that stands in the way is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The Secret that describes the Ceph of a spec.
pub fn reference(spec: &OpenStackDeploymentSpec, namespace: &str) -> Option<Reference> {
    let name = spec.features.get("storage")?.get("ceph")?.get("secret")?.get("name")?.as_str()?;
    Some(Reference { kind: ValuesKind::Secret, namespace: namespace.to_owned(), name: name.to_owned() })
}

/// What that Secret says; none where no Ceph is used.
pub fn declared(inputs: &Inputs, spec: &OpenStackDeploymentSpec, selection: &Selection) -> Option<Declared> {
    let is_used = selection.features.get("storage").is_some_and(|storage| storage["backend"] == "ceph");
    let reference = reference(spec, &selection.namespace).filter(|_| is_used)?;
    let data = inputs.all(&reference).map_err(|problem| problem.to_string());
    let object = format!("{}/{}", reference.namespace, reference.name);
    Some(ceph::declared(&object, data, selection.releases.keys().map(String::as_str)))
}

fn objects(ceph: &Ceph, selection: &Selection) -> Vec<Object> {
    let namespaces = selection.releases.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str()));
    ceph::objects(ceph, &selection.namespace, &namespaces.collect())
}

impl Context {
    /// Hands Ceph on, before helm starts anything that mounts it. An object in the way makes it unusable; no watch tells when that is gone, so
    /// the answer is when to look again.
    pub(super) async fn hand_on(
        &self,
        declared: &mut Declared,
        selection: &Selection,
    ) -> Result<Option<Timestamp>, Error> {
        let Ok(ceph) = &declared.read else { return Ok(None) };
        let objects = objects(ceph, selection);
        let Some(object) = self.cluster.write_ceph(&selection.name, &objects, &self.inputs).await? else {
            return Ok(None);
        };
        declared.read = Err(Unready::Occupied(object));
        Ok(super::now().checked_add(LOOK_AGAIN).ok())
    }

    /// Takes back what nothing mounts any more: only once every release runs with what is wanted, because until then pods that start anew
    /// look for it. What can't be read takes nothing back.
    pub(super) async fn withdraw_ceph(
        &self,
        declared: Option<&Declared>,
        selection: &Selection,
        (desired, observed): (&Desired, &Observed),
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let ceph = match declared.map(|declared| &declared.read) {
            Some(Err(_)) => return Ok(()),
            Some(Ok(ceph)) => Some(ceph),
            None => None,
        };
        let wanted = ceph.map(|ceph| objects(ceph, selection)).unwrap_or_default();
        let names: Vec<String> = wanted.iter().map(Object::to_string).collect();
        if memory.ceph.as_ref() != Some(&names) && is_settled(desired, observed) {
            self.cluster.remove_ceph(&selection.name, &wanted).await?;
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
