//! Plans the creation of missing namespaces. Finds releases and OpenStackDeployments in namespaces in which the
//! operator has no rights.
//!
//! osdpl creates namespaces itself, not through helm, because a plan lists osdpl's writes, but not helm's.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

use super::action::{Action, Approval, Planned};
use super::snapshot::Snapshot;
use osdpl_core::api::{FINALIZER, OpenStackDeployment, reason};
use osdpl_core::desired::{Blocked, Selection};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan;
use osdpl_core::status::Ignored;

/// Returns the action that creates the namespace that `planned` needs; `None` if no such action is needed.
///
/// No action is needed if the namespace exists, if `actions` already contains the action, or if `planned` waits for
/// approval. If the operator has rights only in some namespaces, it has no right to create namespaces, so the function
/// also returns `None`.
///
/// If the operator has no right to list namespaces, osdpl only knows the namespaces of existing releases. Then the plan
/// can contain the creation of a namespace that already exists, which has no effect.
pub(crate) fn missing_namespace(snapshot: &Snapshot, actions: &[Planned], planned: &Planned) -> Option<Planned> {
    if planned.approval == Approval::Missing {
        return None;
    }
    let (namespace, reason, is_known) = match &planned.action {
        Action::Release { name, key, action: plan::Action::Upgrade { .. } } => {
            let is_known = snapshot.observed.releases.contains_key(key);
            (&key.namespace, format!("osdpl installs {name} in this namespace"), is_known)
        }
        Action::PublishService { external, service } => {
            (&external.namespace, format!("osdpl publishes the Service of {service} in this namespace"), false)
        }
        Action::WriteObject(object) => (&object.namespace, format!("osdpl writes {object} in this namespace"), false),
        _ => return None,
    };
    if snapshot.permitted.is_some() {
        return None;
    }
    let exists = snapshot.objects.namespaces.as_ref().map_or(is_known, |all| all.contains(namespace))
        || snapshot.deployment.metadata.namespace.as_ref() == Some(namespace);
    let is_planned =
        |planned: &Planned| matches!(&planned.action, Action::CreateNamespace(other) if other == namespace);
    if exists || actions.iter().any(is_planned) {
        return None;
    }
    Some(Planned::new(Action::CreateNamespace(namespace.clone()), reason))
}

/// Returns why osdpl ignores an OpenStackDeployment whose namespace is not in `permitted`; `None` if the namespace is
/// in `permitted`.
pub fn find_outside(deployment: &OpenStackDeployment, permitted: Option<&BTreeSet<String>>) -> Option<Ignored> {
    let namespace = deployment.namespace().unwrap_or_default();
    let problem = no_rights(&namespace, permitted)?;
    let finalizer = if deployment.metadata.deletion_timestamp.is_some() {
        format!("; without these rights, osdpl keeps the finalizer {FINALIZER}, because the cloud may still run")
    } else {
        String::new()
    };
    Some(Ignored::Outside(format!("metadata.namespace: osdpl ignores this resource: {problem}{finalizer}")))
}

/// Returns the problem and the remedy if the operator has no rights in a namespace; otherwise `None`.
fn no_rights(namespace: &str, permitted: Option<&BTreeSet<String>>) -> Option<String> {
    let permitted = permitted.filter(|permitted| !permitted.contains(namespace))?;
    let names: Vec<&str> = permitted.iter().map(String::as_str).collect();
    Some(format!(
        "the operator has rights only in the namespaces {}; add {namespace} to `namespaces` in the values of the operator's chart",
        names.join(", ")
    ))
}

/// Returns why osdpl can't write objects in a namespace: the operator has no rights there, or the namespace does not
/// exist and the operator has no right to create it.
pub(crate) fn unusable(snapshot: &Snapshot, namespace: &str) -> Option<String> {
    let permitted = snapshot.permitted.as_ref()?;
    no_rights(namespace, Some(permitted)).or_else(|| {
        (!snapshot.namespace_exists(namespace)).then(|| {
            format!(
                "the namespace {namespace} does not exist, and the operator may not create namespaces; create it, then \
                 upgrade the operator's chart, which grants the rights there"
            )
        })
    })
}

/// Returns the releases that osdpl can't install in their namespaces, by catalogue name, each with the reason.
///
/// A release of the cloud may exist in a namespace in which the operator has no rights. The result contains this
/// release even if the spec moves it to another namespace. Otherwise osdpl would install the release a second time, in
/// the other namespace and with empty databases.
pub(crate) fn refused_releases(
    snapshot: &Snapshot,
    selection: &Selection,
    observed: &Observed,
) -> BTreeMap<String, Blocked> {
    let mut refused = BTreeMap::new();
    for (name, key) in &selection.releases {
        let Some((service, _)) = snapshot.catalog.release(name) else { continue };
        let installed = owned_outside(snapshot, observed).find(|owned| owned.name == key.name).unwrap_or(key);
        if let Some(problem) = unusable(snapshot, &installed.namespace) {
            let field = format!("spec.services.{service}.releases.{name}.namespace");
            let message = format!("{field}: osdpl can't manage helm release {installed}: {problem}");
            refused.insert(name.clone(), Blocked { reason: reason::INVALID.into(), message });
        }
    }
    refused
}

/// Returns the cloud's releases in namespaces that exist, but in which the operator has no rights.
///
/// osdpl can't observe these releases, so they seem not to be installed. The result contains no releases in deleted
/// namespaces, because Kubernetes deleted these releases too.
pub(crate) fn owned_outside<'a>(
    snapshot: &'a Snapshot,
    observed: &'a Observed,
) -> impl Iterator<Item = &'a ReleaseKey> + use<'a> {
    let is_hidden = |namespace: &str| !snapshot.is_permitted(namespace) && snapshot.namespace_exists(namespace);
    observed.owned.iter().filter(move |key| is_hidden(&key.namespace))
}

/// Returns the problem if osdpl must uninstall a release of the cloud, but the operator has no rights in the release's
/// namespace; otherwise `None`.
///
/// `wanted` contains the releases that must stay, because the spec selects them.
pub(crate) fn left_outside(snapshot: &Snapshot, observed: &Observed, wanted: &BTreeSet<&ReleaseKey>) -> Option<String> {
    let key = owned_outside(snapshot, observed).find(|key| !wanted.contains(key))?;
    let problem = no_rights(&key.namespace, snapshot.permitted.as_ref())?;
    Some(format!("helm release {key} of this cloud can't be uninstalled: {problem}"))
}
