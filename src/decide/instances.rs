//! Decides whether the deletion of a cloud must wait, because the uninstall of Nova would destroy running instances.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::draft::Draft;
use super::requests::{Read, Response};
use osdpl_core::api::{DELETE_WITH_INSTANCES, DeletionPolicy, OpenStackDeployment};
use osdpl_core::catalog::Catalog;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::openstack::{Access, describe_instance, is_compute, recorded_access};
use osdpl_core::release::{Status, Verb};
use osdpl_values::Values;

/// The reason why osdpl can't query Nova if the release records lack the values with which osdpl logs in to Keystone.
pub const NO_PASSWORD: &str = "the release records don't contain the password of Keystone's administrator";

/// Returns why osdpl must not uninstall the cloud's releases yet; `None` if it knows no reason.
///
/// osdpl waits while Nova reports instances, and while osdpl can't query Nova. It does not wait if the user has allowed
/// the loss of the instances, or if the cloud has no deployed Nova. Each later pass requests the query again, until the
/// uninstall of Nova begins.
pub(crate) fn obstacle(draft: &mut Draft<'_>, observed: &Observed) -> Option<String> {
    let deployment = &draft.snapshot.deployment;
    if may_delete_instances(deployment) || !has_deployed_nova(draft.catalog(), observed) {
        return None;
    }
    let releases = access_releases(draft.catalog(), observed);
    let mut recorded: BTreeMap<&str, (&ReleaseKey, &Values)> = BTreeMap::new();
    let mut unreadable = None;
    for (name, key, existing) in releases {
        let read = Read::Values { release: key.clone(), revision: existing.revision, required: false };
        let Some(received) = draft.read(read) else { continue };
        match &received.response {
            Response::Values(Ok(values)) => {
                recorded.insert(name, (key, values));
            }
            Response::Values(Err(why)) => {
                unreadable = Some(why.as_str());
                draft.requeue(received.until());
            }
            _ => {}
        }
    }
    if draft.is_incomplete() {
        return None;
    }
    let access = recorded_access(draft.catalog(), &recorded);
    draft.requests.instances.clone_from(&access);
    let problem = problem(draft, access.as_ref(), unreadable)?;
    Some(advise(&problem, deployment))
}

/// Returns the releases of Keystone and Nova, each with its name in the catalogue. The values in their records contain
/// the URLs and the credentials with which osdpl queries Nova.
pub fn access_releases<'a>(
    catalog: &Catalog,
    observed: &'a Observed,
) -> Vec<(&'a str, &'a ReleaseKey, &'a ObservedRelease)> {
    let releases = installed(observed).filter(|(name, ..)| {
        let endpoint = catalog.release(name).and_then(|(_, release)| release.endpoint.as_ref());
        endpoint.is_some_and(|endpoint| endpoint.keystone || is_compute(endpoint))
    });
    releases.collect()
}

/// Returns why the deletion of the cloud must wait for Nova; `None` if Nova responded that it has no instances.
///
/// `unreadable` is the error about a release record that osdpl could not read.
fn problem(draft: &Draft<'_>, access: Option<&Access>, unreadable: Option<&str>) -> Option<String> {
    let Some(access) = access else {
        return Some(format!("osdpl can't query Nova for instances: {}", unreadable.unwrap_or(NO_PASSWORD)));
    };
    match draft.snapshot.instances.as_ref().filter(|last| last.access == *access).map(|last| &last.found) {
        Some(Ok(found)) => found.as_deref().map(describe_instance),
        Some(Err(why)) => Some(format!("osdpl can't query Nova for instances: {why}")),
        None => Some("Nova has not reported yet whether it has instances".to_owned()),
    }
}

/// Returns the message that the deletion waits because of `problem`. The message names the ways to continue.
pub fn advise(problem: &str, deployment: &OpenStackDeployment) -> String {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    format!(
        "{problem}, so nothing is uninstalled; delete the instances first, or set spec.deletionPolicy to Detach to \
         keep everything running, or delete the instances together with the cloud: kubectl -n {namespace} annotate \
         osdpl {name} {DELETE_WITH_INSTANCES}={name}"
    )
}

/// Whether the deletion of the cloud need not wait for running instances: a person allowed osdpl to destroy them, or
/// the deletion uninstalls no release.
///
/// A person allows this with the annotation `osdpl.dev/delete-with-instances`. Its value must be the name of the cloud,
/// so an annotation that a user copied from the resource of another cloud allows nothing.
pub fn may_delete_instances(deployment: &OpenStackDeployment) -> bool {
    let is_allowed = deployment.annotations().get(DELETE_WITH_INSTANCES) == Some(&deployment.name_any());
    is_allowed || deployment.spec.deletion_policy == Some(DeletionPolicy::Detach)
}

/// Whether the cloud has a release of Nova that helm deployed at least once and whose uninstall has not begun.
///
/// The function ignores a release whose namespace is being deleted: Kubernetes deletes its pods, whatever osdpl does.
fn has_deployed_nova(catalog: &Catalog, observed: &Observed) -> bool {
    installed(observed).any(|(name, key, existing)| {
        let is_nova =
            catalog.release(name).is_some_and(|(_, release)| release.endpoint.as_ref().is_some_and(is_compute));
        let is_running =
            existing.was_deployed && !matches!(existing.status, Status::Uninstalling | Status::Uninstalled);
        let is_uninstalling = observed.running.get(key).is_some_and(|helm| helm.verb == Verb::Uninstall);
        let is_terminating = observed.terminating.contains(&key.namespace);
        is_nova && is_running && !is_uninstalling && !is_terminating
    })
}

/// Returns the releases of the cloud that osdpl installed, with their names in the catalogue.
///
/// The names come from the release records and not from the spec. osdpl refuses to rename an installed release, so a
/// new name in the spec does not apply to the release.
fn installed(observed: &Observed) -> impl Iterator<Item = (&str, &ReleaseKey, &ObservedRelease)> {
    let is_own = |key: &ReleaseKey| observed.owned.contains(key);
    let ours = observed.releases.iter().filter(move |(key, existing)| existing.is_ours() && is_own(key));
    ours.filter_map(|(key, existing)| Some((existing.release.as_deref()?, key, existing)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{complete, deleting_nova};

    #[test]
    fn reports_an_unreadable_record() {
        let mut snapshot = deleting_nova(json!({}), Some(Ok(None)));
        for received in snapshot.responses.values_mut() {
            received.response = Response::Values(Err("the record can't be decoded".into()));
        }
        let plan = complete(&mut snapshot);
        let message = plan.deleting.unwrap_or_default();
        let expected = "osdpl can't query Nova for instances: the record can't be decoded, so nothing is uninstalled";
        assert!(message.starts_with(expected), "{message}");
        assert!(plan.requeue_at.is_some(), "no watch reports that the record can be read again");
    }
}
