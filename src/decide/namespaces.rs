//! Plans the creation of missing namespaces. helm could also create namespaces, but then no plan would list them.

use super::action::{Action, Approval, Planned};
use super::snapshot::Snapshot;
use osdpl_core::plan;

/// Returns the action that creates the namespace that `planned` needs; `None` if the namespace exists or `actions`
/// already creates it.
///
/// If osdpl may not list namespaces, it only knows the namespaces of existing releases. Then it may plan to create a
/// namespace that already exists, which has no effect.
pub(crate) fn missing_namespace(snapshot: &Snapshot, actions: &[Planned], planned: &Planned) -> Option<Planned> {
    if planned.approval == Approval::Missing {
        return None;
    }
    let (namespace, reason, is_known) = match &planned.action {
        Action::Release { name, key, action: plan::Action::Upgrade { .. } } => {
            let is_known = snapshot.observed.releases.contains_key(key);
            (&key.namespace, format!("{name} is installed there"), is_known)
        }
        Action::PublishService { external, service } => {
            (&external.namespace, format!("the Service of {service} is published there"), false)
        }
        Action::WriteObject(object) => (&object.namespace, format!("{object} is written there"), false),
        _ => return None,
    };
    let exists = snapshot.objects.namespaces.as_ref().map_or(is_known, |all| all.contains(namespace))
        || snapshot.deployment.metadata.namespace.as_ref() == Some(namespace);
    let is_planned =
        |planned: &Planned| matches!(&planned.action, Action::CreateNamespace(other) if other == namespace);
    if exists || actions.iter().any(is_planned) {
        return None;
    }
    Some(Planned::new(Action::CreateNamespace(namespace.clone()), reason))
}
