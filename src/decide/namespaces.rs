//! Namespaces of releases and objects. osdpl creates them itself, so that the plan lists them.

use super::action::{Action, Approval, Planned};
use super::snapshot::Snapshot;
use osdpl_core::plan;

/// Returns the creation of the namespace that an action needs, unless it exists or is planned already.
///
/// If namespaces may not be listed, only those of existing releases count as existing. The creation of an existing
/// namespace has no effect.
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
