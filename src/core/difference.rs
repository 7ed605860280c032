//! Compares two manifests of a release, before and after an upgrade: added, removed and changed objects, changed
//! fields, pods that are recreated, and fields that Kubernetes refuses to change, so that the object must be recreated.
//!
//! Pure module (no I/O). Both manifests are rendered by a chart, so the defaults of the API server do not matter,
//! except for immutable fields. Secrets never leave this module: changed contents of Secrets are reported
//! without values, and everything else passes a scrubber.
//!
//! ```text
//! object   one object of a manifest               fields   the fields in which two values differ
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

/// The effect of an upgrade on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum Effect {
    /// It is created.
    Added,
    /// It is deleted.
    Removed,
    /// It is no longer in the manifest but stays in the cluster: `helm.sh/resource-policy: keep`.
    Kept,
    /// It is changed in place without recreating pods.
    Changed,
    /// It is changed, and its pods are recreated by its update strategy.
    RestartsPods,
    /// It is changed, but its pods stay until someone deletes them: `updateStrategy: OnDelete`.
    RestartsPodsOnDelete,
    /// It is a hook that changed. Helm runs it again at each upgrade.
    #[serde(rename = "runsAnew")]
    RunsAgain,
    /// Kubernetes refuses to change these fields: it must be deleted first.
    Recreated {
        /// Such as `spec.selector`.
        fields: Vec<String>,
        /// Whether it is of a kind with pods, which are deleted with it.
        pods: bool,
    },
}

impl Effect {
    /// Whether running pods are terminated, now or when someone deletes them.
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

/// One object that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The object.
    #[serde(flatten)]
    pub id: Id,
    /// The effect of the upgrade.
    pub effect: Effect,
    /// The changed fields, if the object is on both sides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.id, self.effect)
    }
}

/// Returns the effect of an upgrade from one manifest to another by object; `scrubber` must know the secrets in both.
pub fn diff_manifests(before: &[Object], after: &[Object], scrubber: &Scrubber) -> Vec<Difference> {
    let (before, after) = (by_id(before), by_id(after));
    let mut found = Vec::new();
    for (id, old) in &before {
        let (effect, fields) = match after.get(id) {
            // helm leaves hooks in the cluster when they are removed from the manifest.
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

/// Returns the objects that take part in an upgrade, without hooks of other events. As in helm, the last of several
/// objects with one identity counts.
fn by_id(objects: &[Object]) -> BTreeMap<&Id, &Object> {
    let taking_part = objects.iter().filter(|object| !object.is_hook() || object.is_hook_of_upgrades());
    taking_part.map(|object| (object.id(), object)).collect()
}

/// Returns the effect on an object that differs.
fn effect(old: &Object, new: &Object) -> Effect {
    let kind = new.id().kind.as_str();
    if old.is_hook() && new.is_hook() {
        // helm always recreates hooks, and waits for those that complete.
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
