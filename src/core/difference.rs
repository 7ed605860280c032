//! Compares the manifests of a release before and after an upgrade.
//!
//! The result lists added, removed and changed objects with their changed fields, whether pods are recreated, and
//! whether an object must be recreated because Kubernetes refuses to change a field.
//!
//! Pure module (no I/O). Both manifests are rendered by helm, so neither contains the API server's defaults; only the
//! check of immutable fields adds them. Secrets never leave this module: a changed Secret is reported without its
//! values, and a scrubber redacts known secrets in all other objects.
//!
//! ```text
//! object   one object of a manifest               fields   the fields in which two objects differ
//! fixed    immutable fields                       lines    line-based comparison of texts
//! ```

mod fields;
mod fixed;
mod lines;
mod object;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub use fields::{FieldChange, shown};
pub use object::{Id, Object, parse_objects};

use crate::scrub::Scrubber;

/// What an upgrade does to an object of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum Effect {
    /// helm creates the object.
    Added,
    /// helm deletes the object.
    Removed,
    /// The object is no longer in the manifest, but helm keeps it in the cluster: `helm.sh/resource-policy: keep`.
    Kept,
    /// helm changes the object in place, and no pod is recreated.
    Changed,
    /// helm changes the object, and the object's update strategy then recreates its pods.
    RestartsPods,
    /// helm changes the object, but its pods stay until someone deletes them: `updateStrategy: OnDelete`.
    RestartsPodsOnDelete,
    /// The object is a hook that changed, and that helm runs again at each upgrade.
    #[serde(rename = "runsAnew")]
    RunsAgain,
    /// Kubernetes refuses to change some fields of the object, so the upgrade fails unless someone deletes the object
    /// first.
    Recreated {
        /// The paths of the immutable fields that change, such as `spec.selector`.
        fields: Vec<String>,
        /// Whether the object has pods, which Kubernetes deletes with it.
        pods: bool,
    },
}

impl Effect {
    /// Whether the upgrade ends running pods, either at once or when someone deletes them.
    pub fn ends_pods(&self) -> bool {
        matches!(self, Self::RestartsPods | Self::RestartsPodsOnDelete | Self::Recreated { pods: true, .. })
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added => formatter.write_str("is added"),
            Self::Removed => formatter.write_str("is removed"),
            Self::Kept => {
                formatter.write_str("leaves the release and stays in the cluster (helm.sh/resource-policy: keep)")
            }
            Self::Changed => formatter.write_str("changes"),
            Self::RestartsPods => formatter.write_str("changes, and its pods restart"),
            Self::RestartsPodsOnDelete => {
                formatter.write_str("changes, and its pods restart when someone deletes them (updateStrategy OnDelete)")
            }
            Self::RunsAgain => formatter.write_str("runs again, changed"),
            Self::Recreated { fields, pods: _ } => {
                write!(formatter, "must be recreated: {} can't be changed", fields.join(", "))
            }
        }
    }
}

/// An object that differs between the manifests before and after an upgrade.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The identity of the object.
    #[serde(flatten)]
    pub id: Id,
    /// What the upgrade does to the object.
    pub effect: Effect,
    /// The changed fields; empty unless the object is in both manifests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.id, self.effect)
    }
}

/// Returns the objects that change in an upgrade from the manifest `before` to `after`; `scrubber` must know the
/// secrets in both.
pub fn diff_manifests(before: &[Object], after: &[Object], scrubber: &Scrubber) -> Vec<Difference> {
    let (before, after) = (by_id(before), by_id(after));
    let mut found = Vec::new();
    for (id, old) in &before {
        let (effect, fields) = match after.get(id) {
            // helm leaves a hook that is missing in the new manifest in the cluster, so nothing changes.
            None if old.is_hook() => continue,
            None if old.is_kept() => (Effect::Kept, Vec::new()),
            None => (Effect::Removed, Vec::new()),
            Some(new) => {
                let fields = fields::diff_fields(old, new, scrubber);
                if fields.is_empty() {
                    continue;
                }
                (effect(old, new), fields)
            }
        };
        found.push(Difference { id: (*id).clone(), effect, fields });
    }
    let added = after.keys().filter(|id| !before.contains_key(*id));
    found.extend(added.map(|id| Difference { id: (*id).clone(), effect: Effect::Added, fields: Vec::new() }));
    found.sort_by(|left, right| left.id.cmp(&right.id));
    found
}

/// Returns the objects of a manifest that an upgrade touches, by identity.
///
/// Hooks that helm runs only at other events, such as a deletion, are left out. If several objects have the same
/// identity, the last one counts, as in helm.
fn by_id(objects: &[Object]) -> BTreeMap<&Id, &Object> {
    let taking_part = objects.iter().filter(|object| !object.is_hook() || object.is_hook_of_upgrades());
    taking_part.map(|object| (object.id(), object)).collect()
}

/// Returns what an upgrade does to an object that differs between the manifests.
fn effect(old: &Object, new: &Object) -> Effect {
    let kind = new.id().kind.as_str();
    if old.is_hook() && new.is_hook() {
        // helm recreates hooks at each upgrade. A recreated Job or pod runs again; an object of another kind, such as a
        // ConfigMap, only changes.
        return if matches!(kind, "Job" | "Pod") { Effect::RunsAgain } else { Effect::Changed };
    }
    let keeps_pods = matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet");
    let fields = fixed::refused(old, new);
    if !fields.is_empty() {
        return Effect::Recreated { fields, pods: keeps_pods || kind == "Job" };
    }
    let template = |object: &Object| object.at(&["spec", "template"]).cloned();
    if !keeps_pods || template(old) == template(new) {
        return Effect::Changed;
    }
    match new.at(&["spec", "updateStrategy", "type"]).and_then(Value::as_str) {
        Some("OnDelete") => Effect::RestartsPodsOnDelete,
        Some(_) | None => Effect::RestartsPods,
    }
}

#[cfg(test)]
mod tests;
