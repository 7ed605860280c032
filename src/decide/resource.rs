//! Reads an `OpenStackDeployment`: the releases that its spec selects, and the policy of its spec and annotations.
//! Decides which `OpenStackDeployment` takes precedence if the cluster has several.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::draft::Draft;
use super::ownership::claim;
use super::selection::{Selected, paused_releases, release_names, selection};
use super::snapshot::Snapshot;
use osdpl_core::api::{ADOPT, APPROVE, FINALIZER, OpenStackDeployment, OpenStackDeploymentSpec, REPAIR, SKIP_HOOKS};
use osdpl_core::catalog::Catalog;
use osdpl_core::cause::group_by_root_cause;
use osdpl_core::desired::{RejectedMoves, Selection, identify_release, reject_moves};
use osdpl_core::endpoint;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::Policy;
use osdpl_values::CollectSorted;

/// Returns the services and releases that the spec of the `OpenStackDeployment` selects.
///
/// The function reuses the selection of the last pass if the data from which osdpl made it has not changed.
pub(crate) fn select(draft: &mut Draft<'_>) -> Arc<Selection> {
    let (deployment, catalog) = (&draft.snapshot.deployment, &draft.snapshot.catalog);
    let known = draft.kept.selected.take().filter(|known| known.is_of(deployment, catalog));
    let selected = known.unwrap_or_else(|| Arc::new(Selected::new(deployment, catalog)));
    let selection = Arc::clone(&selected.selection);
    // osdpl limits how much work one pass spends on expressions. `selection` counts this work. The count of a reused
    // selection includes the work of earlier passes. So reset the count to its value after osdpl made the selection.
    selection.scope.reset_used(selected.used);
    draft.kept.selected = Some(selected);
    selection
}

/// Returns the spec that osdpl follows, and the releases that this spec selects.
///
/// If the user changed the name or namespace of an existing release, osdpl rejects this change: it follows the
/// corrected spec in `rejected`, which contains the old name and namespace. Without `rejected`, osdpl follows the
/// user's spec, which selects the releases in `requested`.
pub(crate) fn corrected<'a>(
    deployment: &'a OpenStackDeployment,
    rejected: Option<&'a RejectedMoves>,
    requested: Arc<Selection>,
    catalog: &Catalog,
) -> (&'a OpenStackDeploymentSpec, Arc<Selection>) {
    match rejected {
        Some(rejected) => (&rejected.spec, Arc::new(selection(deployment, &rejected.spec, catalog))),
        None => (&deployment.spec, requested),
    }
}

/// The spec that osdpl follows, the releases that this spec selects, and the observed state.
pub struct Target {
    /// The spec that osdpl follows. It equals the user's spec, but existing releases keep their name and namespace.
    pub spec: OpenStackDeploymentSpec,
    /// The releases that `spec` selects.
    pub selection: Arc<Selection>,
    /// The observed state of the cloud.
    pub observed: Observed,
}

/// Returns the spec that osdpl follows, the releases that this spec selects, and the observed state.
pub fn target(snapshot: &Snapshot) -> Target {
    let (deployment, catalog) = (&snapshot.deployment, &*snapshot.catalog);
    let requested = Arc::new(selection(deployment, &deployment.spec, catalog));
    let observed = observe(snapshot, &requested, &release_names(&requested));
    let rejected = reject_moves(&requested, &deployment.spec, catalog, &observed);
    let (spec, selection) = corrected(deployment, rejected.as_ref(), requested, catalog);
    Target { spec: spec.clone(), selection, observed }
}

/// Returns the observed state of the cloud.
///
/// The function takes the observed state from the snapshot, and adds three things: which releases belong to the cloud,
/// the catalogue names of releases, and the root causes of problems.
pub(crate) fn observe(snapshot: &Snapshot, selection: &Selection, names: &BTreeMap<ReleaseKey, String>) -> Observed {
    let mut observed = snapshot.observed.clone();
    claim(&mut observed, &snapshot.deployment, selection);
    for (key, release) in &mut observed.releases {
        release.release = identify_release(key, release, names, &snapshot.catalog);
    }
    // Keep only the affected objects that belong to a release of this cloud. A release is of this cloud if the
    // catalogue has a release with the same namespace and name, or if osdpl made the release.
    let is_own =
        |key: &ReleaseKey| names.contains_key(key) || observed.releases.get(key).is_some_and(ObservedRelease::is_ours);
    let affected = snapshot.affected.iter().filter(|affected| is_own(&affected.release));
    observed.causes = group_by_root_cause(affected);
    observed.causes.extend(endpoint::causes(&observed.endpoints));
    observed
}

/// Returns the names that an annotation lists, separated by commas.
pub(crate) fn annotated_names(deployment: &OpenStackDeployment, annotation: &str) -> BTreeSet<String> {
    let names = deployment.annotations().get(annotation).into_iter().flat_map(|text| text.split(','));
    names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect_set()
}

/// Returns the policy of this pass, from the spec, the annotations and the status. The field `changed_additions` is
/// empty, because its content also depends on the catalogue; a caller that needs the field must set it.
pub fn policy(deployment: &OpenStackDeployment) -> Policy {
    Policy {
        approval: deployment.spec.approval.unwrap_or_default(),
        approved: deployment.annotations().get(APPROVE).cloned(),
        approved_target: deployment.status.as_ref().and_then(|status| status.approved_target.clone()),
        approved_objects: deployment.status.as_ref().and_then(|status| status.approved_objects.clone()),
        adopt: annotated_names(deployment, ADOPT),
        repair: annotated_names(deployment, REPAIR),
        skip_hooks: annotated_names(deployment, SKIP_HOOKS),
        hooks: deployment.spec.hooks.unwrap_or_default(),
        paused: deployment.spec.paused,
        paused_releases: paused_releases(&deployment.spec),
        deleting: deployment.metadata.deletion_timestamp.is_some(),
        changed_additions: BTreeSet::new(),
    }
}

/// Returns the `OpenStackDeployment` in `all` that takes precedence over `than`; `None` if there is none. Without
/// `than`, returns the one that takes precedence over all others.
///
/// The oldest resource takes precedence, by creation time and uid. The function ignores a resource from which osdpl has
/// removed its finalizer, even if the finalizer of another controller keeps the resource in the cluster.
pub fn find_older<'a, K: ResourceExt + 'a>(
    all: impl IntoIterator<Item = &'a K>,
    than: Option<&OpenStackDeployment>,
) -> Option<&'a K> {
    let age = |meta: &ObjectMeta| (meta.creation_timestamp.clone().map(|time| time.0), meta.uid.clone());
    let oldest = all.into_iter().filter(|other| !is_finalized(*other)).min_by_key(|other| age(other.meta()))?;
    than.is_none_or(|this| age(oldest.meta()) < age(&this.metadata)).then_some(oldest)
}

/// Returns whether an `OpenStackDeployment` is being deleted and osdpl has already removed its finalizer.
///
/// The finalizer of another controller may keep such a resource in the cluster for a long time.
pub fn is_finalized(deployment: &impl ResourceExt) -> bool {
    let is_ours = |finalizer: &String| finalizer == FINALIZER;
    deployment.meta().deletion_timestamp.is_some() && !deployment.finalizers().iter().any(is_ours)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kept::Kept;
    use crate::plan::Plan;
    use crate::tests::{complete, snapshot};

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn created(name: &str, year: u16, more: Value) -> OpenStackDeployment {
        let mut metadata = json!({"name": name, "namespace": "openstack", "uid": name});
        metadata["creationTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec = json!({"openstackRelease": "2026.1"});
        let api = ("osdpl.dev/v1alpha1", "OpenStackDeployment");
        let object = json!({"apiVersion": api.0, "kind": api.1, "metadata": metadata, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn finalized_without_our_finalizer() {
        let with = |metadata| is_finalized(&created("cloud", 2026, metadata));
        let (deleted, foreign) = ("2026-11-21T00:00:00Z", "foregroundDeletion");
        assert!(with(json!({"deletionTimestamp": deleted, "finalizers": [foreign]})));
        assert!(!with(json!({"deletionTimestamp": deleted, "finalizers": [foreign, FINALIZER]})));
        assert!(!with(json!({"finalizers": [foreign]})), "a resource that is not being deleted is not finalized");
    }

    #[test]
    fn the_oldest_takes_precedence_until_finalized() {
        let deleting = |finalizers: &[&str]| {
            let deleted = "2026-11-21T00:00:00Z";
            created("first", 2024, json!({"deletionTimestamp": deleted, "finalizers": finalizers}))
        };
        let second = created("second", 2026, json!({}));
        let older =
            |first: &OpenStackDeployment| find_older([first, &second], Some(&second)).map(ResourceExt::name_any);
        assert_eq!(older(&created("first", 2024, json!({}))).as_deref(), Some("first"));
        assert_eq!(older(&deleting(&["foregroundDeletion", FINALIZER])).as_deref(), Some("first"));
        let finalized = deleting(&["foregroundDeletion"]);
        assert_eq!(older(&finalized), None);
        assert_eq!(
            find_older([&finalized, &second], Some(&finalized)),
            None,
            "a younger resource does not take precedence"
        );
        assert_eq!(find_older([&finalized, &second], None), Some(&second));
    }

    /// Runs two passes, with `change` applied to the snapshot before the second pass. Returns whether the second pass
    /// uses the selection of the first pass again.
    ///
    /// Also checks that the second pass has the same selection and findings as a pass that makes a new selection.
    fn reuses_selection(change: fn(&mut Snapshot)) -> bool {
        let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
        let first = complete(&mut snapshot);
        snapshot.kept = first.kept;
        change(&mut snapshot);
        let second = complete(&mut snapshot);
        snapshot.kept = Kept::default();
        let new = complete(&mut snapshot);
        let texts = |plan: &Plan| plan.findings.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&second), texts(&new));
        let (first, second, new) = (first.selection.unwrap(), second.selection.unwrap(), new.selection.unwrap());
        assert_eq!((&second.name, &second.releases), (&new.name, &new.releases));
        assert_eq!(second.scope.variable("spec"), new.scope.variable("spec"));
        Arc::ptr_eq(&first, &second)
    }

    #[test]
    fn reuses_the_selection_until_its_inputs_change() {
        assert!(reuses_selection(|_| {}));
        assert!(reuses_selection(|snapshot| snapshot.helm.major = 3), "the selection does not depend on facts");
        let changes: [fn(&mut Snapshot); 6] = [
            |snapshot| snapshot.deployment.metadata.name = Some("cirrus".into()),
            |snapshot| snapshot.deployment.metadata.namespace = Some("clouds".into()),
            |snapshot| snapshot.deployment.spec.region = Some("north".into()),
            |snapshot| {
                let applied = json!({"spec": {"common": {"all": {"values": {"conf": null}}}}}).to_string();
                let annotations = snapshot.deployment.metadata.annotations.get_or_insert_default();
                annotations.insert("kubectl.kubernetes.io/last-applied-configuration".into(), applied);
            },
            |snapshot| {
                let status = json!({"openstackRelease": {"deployed": "2025.2"}});
                snapshot.deployment.status = Some(serde_json::from_value(status).unwrap());
            },
            |snapshot| snapshot.catalog = Arc::new(Catalog::load(&osdpl_core::testing::files(&[])).unwrap()),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            assert!(!reuses_selection(change), "change {index}");
        }
    }

    #[test]
    fn the_work_of_earlier_passes_does_not_count() {
        let mut snapshot = snapshot(json!({"spec": {"paused": true}}));
        // The facts include helm's version. So each call of `used` changes the version, and osdpl resolves the releases
        // again.
        let mut used = |major: u64| {
            snapshot.helm.major = major;
            let plan = complete(&mut snapshot);
            snapshot.kept = plan.kept;
            plan.selection.unwrap().scope.used()
        };
        let (first, second, third) = (used(4), used(3), used(4));
        assert!(first.steps > 0);
        assert_eq!(
            [second, third],
            [first, first],
            "the work of earlier passes does not count towards the limit of a pass"
        );
    }
}
