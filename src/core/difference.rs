//! Compares the manifests of a release before and after an upgrade, so that osdpl can show what the upgrade changes.
//!
//! [`diff_manifests`] returns a [`Difference`] for each added, removed or changed object. A [`Difference`] contains the
//! changed fields, and says whether the object's pods restart. It also says whether a person must delete the object
//! before the upgrade, because Kubernetes refuses to change a field.
//!
//! Pure module (no I/O). helm renders both manifests, so neither of them contains the defaults that the API server
//! sets. Only the check of immutable fields adds these defaults. A [`Difference`] contains no secrets. osdpl never
//! copies the values of a Secret into it. In objects of other kinds, a scrubber redacts the secrets that the scrubber
//! knows.
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

use osdpl_values::CollectSorted;
use serde::Serialize;
use serde_json::Value;

pub use fields::{FieldChange, shown};
pub use object::{Id, Object, parse_objects};

use crate::scrub::Scrubber;

/// The effect of an upgrade on one object: what happens to the object in the cluster, and whether its pods restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum Effect {
    /// helm creates the object.
    Added,
    /// helm deletes the object.
    Removed,
    /// The new manifest does not contain the object, but helm keeps the object in the cluster because of the annotation
    /// `helm.sh/resource-policy: keep`.
    Kept,
    /// helm changes the object, and no pod restarts.
    Changed,
    /// helm changes the object's pod template, and Kubernetes then replaces the pods.
    RestartsPods,
    /// helm changes the object's pod template, but Kubernetes replaces a pod only after someone deletes the pod
    /// (`updateStrategy: OnDelete`).
    RestartsPodsOnDelete,
    /// The object is a hook (a Job or pod) whose manifest changed. helm deletes hooks at each upgrade and creates them
    /// again, so the changed Job or pod runs during the upgrade.
    RunsAgain,
    /// The object is a hook (a Job or pod) whose manifest changed, but the upgrade runs no hooks (`--no-hooks`). So the
    /// Job or pod that is in the cluster stays as it is.
    Skipped,
    /// Kubernetes refuses to change some fields of the object. The upgrade fails unless someone deletes the object
    /// first, so that helm creates it again.
    Recreated {
        /// The paths of the immutable fields that change, such as `spec.selector`.
        fields: Vec<String>,
        /// Whether the object has pods, which Kubernetes deletes together with the object.
        pods: bool,
    },
}

impl Effect {
    /// Whether the upgrade requires new pods for the object.
    ///
    /// Kubernetes replaces the pods at once ([`Self::RestartsPods`]) or after someone deletes them
    /// ([`Self::RestartsPodsOnDelete`]). For [`Self::Recreated`], someone must delete the object with its pods.
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
            Self::RunsAgain => formatter.write_str("changes and runs again"),
            Self::Skipped => formatter.write_str("changes, but helm does not run this hook (--no-hooks)"),
            Self::Recreated { fields, pods: _ } => {
                write!(formatter, "must be recreated: {} can't be changed", fields.join(", "))
            }
        }
    }
}

/// An object that differs between the manifests before and after an upgrade, or that only one of them contains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The kind, API group, namespace and name of the object.
    #[serde(flatten)]
    pub id: Id,
    /// The effect of the upgrade on the object.
    pub effect: Effect,
    /// The changed fields; empty if only one of the two manifests contains the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.id, self.effect)
    }
}

/// Returns the objects that an upgrade from the manifest `before` to the manifest `after` changes. `scrubber` must know
/// the secrets in both manifests, so that the result contains no secrets.
pub fn diff_manifests(before: &[Object], after: &[Object], scrubber: &Scrubber) -> Vec<Difference> {
    let (before, after) = (by_id(before), by_id(after));
    let mut found = Vec::new();
    for (id, old) in &before {
        let (effect, fields) = match after.get(id) {
            // If only the old manifest contains a hook, helm does not touch the hook's object in the cluster. So the
            // upgrade does not change the object.
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

/// Returns the objects of a manifest that take part in an upgrade, by identity.
///
/// Hooks that helm does not run in upgrades, such as `pre-delete` hooks, take no part. If several objects have the same
/// identity, the result contains only the last of them, because helm also uses only the last of them.
fn by_id(objects: &[Object]) -> BTreeMap<&Id, &Object> {
    let taking_part = objects.iter().filter(|object| !object.is_hook() || object.is_hook_of_upgrades());
    taking_part.map(|object| (object.id(), object)).collect_map()
}

/// Returns the effect of an upgrade on an object that both manifests contain, but with different fields.
fn effect(old: &Object, new: &Object) -> Effect {
    let kind = new.id().kind.as_str();
    if old.is_hook() && new.is_hook() {
        // helm deletes hooks and creates them again at each upgrade. If the hook is a Job or pod, Kubernetes then runs
        // it again. If it has another kind, such as ConfigMap, only its content changes.
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
