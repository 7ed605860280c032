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
    /// Helm creates the object.
    Added,
    /// Helm deletes the object.
    Removed,
    /// The object is no longer in the manifest, but helm keeps it in the cluster: `helm.sh/resource-policy: keep`.
    Kept,
    /// Helm changes the object in place, and no pod is recreated.
    Changed,
    /// Helm changes the object, and its update strategy recreates its pods.
    RestartsPods,
    /// Helm changes the object, but its pods stay until someone deletes them: `updateStrategy: OnDelete`.
    RestartsPodsOnDelete,
    /// The object is a changed hook, which helm runs again at each upgrade.
    #[serde(rename = "runsAnew")]
    RunsAgain,
    /// Kubernetes refuses to change fields of the object, so it must be deleted before the upgrade.
    Recreated {
        /// The paths of the immutable fields that change, such as `spec.selector`.
        fields: Vec<String>,
        /// Whether the object's kind has pods, which Kubernetes deletes with the object.
        pods: bool,
    },
}

impl Effect {
    /// Whether running pods end: at the upgrade, or later when someone deletes them.
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
                formatter.write_str("changes, and its pods restart when they are deleted (updateStrategy OnDelete)")
            }
            Self::RunsAgain => formatter.write_str("runs again, changed"),
            Self::Recreated { fields, pods: _ } => {
                write!(formatter, "must be recreated: {} can't be changed", fields.join(", "))
            }
        }
    }
}

/// An object that differs between the two manifests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The identity of the object.
    #[serde(flatten)]
    pub id: Id,
    /// What the upgrade does to the object.
    pub effect: Effect,
    /// The changed fields, if the object is in both manifests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.id, self.effect)
    }
}

/// Returns the objects that an upgrade from one manifest to another affects; `scrubber` must know the secrets in both.
pub fn diff_manifests(before: &[Object], after: &[Object], scrubber: &Scrubber) -> Vec<Difference> {
    let (before, after) = (by_id(before), by_id(after));
    let mut found = Vec::new();
    for (id, old) in &before {
        let (effect, fields) = match after.get(id) {
            // helm leaves a hook in the cluster when the new manifest no longer has it, so nothing changes.
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

/// Returns the objects that an upgrade touches, without hooks that helm runs only at other events, such as a deletion.
/// If several objects have the same identity, the last one counts, as in helm.
fn by_id(objects: &[Object]) -> BTreeMap<&Id, &Object> {
    let taking_part = objects.iter().filter(|object| !object.is_hook() || object.is_hook_of_upgrades());
    taking_part.map(|object| (object.id(), object)).collect()
}

/// Returns what an upgrade does to an object that differs between the manifests.
fn effect(old: &Object, new: &Object) -> Effect {
    let kind = new.id().kind.as_str();
    if old.is_hook() && new.is_hook() {
        // At each upgrade helm recreates hooks. Only Jobs and pods run again; other kinds, such as a ConfigMap, just
        // change.
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
