//! Two manifests of a release, before and after an upgrade: which objects come and go, which change and in which fields, whose pods are made anew,
//! and what Kubernetes refuses to change, so that it must be recreated.
//!
//! Pure room. Both sides are what a chart rendered, so nothing is compared with what the API server fills in, but for fields that can't be changed:
//! there its defaults decide. What is secret never leaves this room: contents of Secrets are said to change and not how, and everything else goes
//! through a scrubber.
//!
//! ```text
//! object   one object, as a manifest has it       fields   the fields in which two values differ
//! fixed    fields that can't be changed           lines    texts of several lines, side by side
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
pub use object::{Id, Object, objects};

use crate::scrub::Scrubber;

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum Effect {
    /// It is made.
    Added,
    /// It is deleted.
    Removed,
    /// No manifest names it any more, and it stays: `helm.sh/resource-policy: keep`.
    Kept,
    /// It is changed in place, and no pod is made anew for that.
    Changed,
    /// It is changed, and its pods are made anew, as its strategy says.
    RestartsPods,
    /// It is changed, and its pods stay as they are until someone deletes them: `updateStrategy: OnDelete`.
    RestartsPodsOnDelete,
    /// A hook that runs anew at each upgrade does it in another way now.
    RunsAnew,
    /// Kubernetes refuses to change these fields: it must be deleted first.
    Recreated {
        /// `spec.selector` and the like.
        fields: Vec<String>,
        /// Whether it is of a kind that has pods, which go with it.
        pods: bool,
    },
}

impl Effect {
    /// Whether pods that run are ended by it, now or when someone deletes them.
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
            Self::RunsAnew => formatter.write_str("runs anew, changed"),
            Self::Recreated { fields, pods: _ } => {
                write!(formatter, "must be recreated: {} can't be changed", fields.join(", "))
            }
        }
    }
}

/// One object that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Which one.
    #[serde(flatten)]
    pub id: Id,
    /// What becomes of it.
    pub effect: Effect,
    /// The fields that change, of one that is on both sides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.id, self.effect)
    }
}

/// What an upgrade from one manifest to another does, by object; `scrubber` knows the secrets that either holds.
pub fn differences(before: &[Object], after: &[Object], scrubber: &Scrubber) -> Vec<Difference> {
    let (before, after) = (by_id(before), by_id(after));
    let mut found = Vec::new();
    for (id, old) in &before {
        let (effect, fields) = match after.get(id) {
            // A hook that a manifest no longer has stays behind, as helm leaves all of them.
            None if old.is_hook() => continue,
            None if old.is_kept() => (Effect::Kept, Vec::new()),
            None => (Effect::Removed, Vec::new()),
            Some(new) => {
                let fields = fields::changes(old, new, scrubber);
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

/// What takes part in an upgrade: helm leaves hooks of other moments alone. Of two with one identity the last counts, as for helm.
fn by_id(objects: &[Object]) -> BTreeMap<&Id, &Object> {
    let taking_part = objects.iter().filter(|object| !object.is_hook() || object.is_hook_of_upgrades());
    taking_part.map(|object| (object.id(), object)).collect()
}

/// What becomes of an object that differs.
fn effect(old: &Object, new: &Object) -> Effect {
    let kind = new.id().kind.as_str();
    if old.is_hook() && new.is_hook() {
        // helm makes hooks anew, whatever differs, and waits for those that end.
        return if matches!(kind, "Job" | "Pod") { Effect::RunsAnew } else { Effect::Changed };
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
