//! Plans the changes of CRDs that must precede the install or upgrade of a release.
//!
//! osdpl applies the CRDs of a chart itself: helm would install them once and never upgrade them
//! (<https://helm.sh/docs/chart_best_practices/custom_resource_definitions>). A CRD affects the whole cluster. So osdpl
//! asks for approval before it changes an existing CRD, or transfers a CRD from a release that was uninstalled to a new
//! release. osdpl changes no CRD that another installed release or another field manager owns, and no CRD that is newer
//! than the CRD in the chart.
//!
//! helm itself installs and upgrades the CRDs in the *templates* of a chart, and overwrites fields that other field
//! managers own. So before osdpl runs helm for such a chart, it renders the chart and applies the same rules to the
//! rendered CRDs. helm can't leave out a single object, so if helm must not change one of the CRDs, the whole release
//! waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use kube::ResourceExt;
use serde_json::Value;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{AbandonedCrd, Read, Received, Response};
use osdpl_core::api::{MANAGER, reason};
use osdpl_core::catalog::Level;
use osdpl_core::ceph;
use osdpl_core::desired::{DesiredRelease, Finding};
use osdpl_core::drift::HELM_MANAGER;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::Wait;
use osdpl_core::release::helm_owner;

/// The actions on CRDs that the operator must execute before it installs or upgrades a release, and the names of the
/// CRDs that change.
#[derive(Default)]
pub(crate) struct Definitions {
    /// The actions, in the order in which the operator must execute them.
    pub(crate) actions: Vec<Planned>,
    /// The names of the existing CRDs that `actions` or helm change, or that `actions` transfer to the release. Changes
    /// and transfers need approval.
    pub(crate) changed: Vec<String>,
}

/// The part of a chart that contains a CRD. It decides whether osdpl or helm applies the CRD.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The CRD is in the chart's folder `crds/`, so osdpl applies it.
    Folder,
    /// The chart's templates render the CRD, so helm applies it.
    Templates,
}

/// Returns the actions on CRDs that must precede the install or upgrade of the release `name`.
///
/// # Errors
/// Returns the [`Wait`] of the release, with the reason, in three cases:
///
/// * osdpl can't read the CRDs in the cluster or in the chart.
/// * Someone else owns a CRD in the cluster that differs from the chart's CRD.
/// * helm would replace a newer CRD in the cluster with the chart's CRD.
pub(crate) fn plan(
    draft: &mut Draft<'_>,
    name: &str,
    key: &ReleaseKey,
    observed: &Observed,
) -> Result<Definitions, Wait> {
    let is_new = !observed.releases.contains_key(key);
    let left = if is_new { left_behind(draft, key)? } else { &[] };
    let mut definitions = transfers(left, key);
    let folder = draft.snapshot.charts.crds.get(name);
    let folder = folder.map_or(Ok(&[][..]), |crds| crds.as_ref().map(|crds| &crds[..]));
    let folder = folder.map_err(|why| Wait::Blocked { reason: reason::CHART.into(), message: why.clone() })?;
    add_changes(draft, name, key, folder, Origin::Folder, &mut definitions)?;
    // When helm installs a new release, it can change an existing CRD only if the CRD's annotations name this release
    // (helm: `action.checkOwnership`). Only an earlier release of the same name, which was uninstalled, leaves a CRD
    // with such annotations behind. If there is none, do not render the chart of a new release.
    if !is_new || !left.is_empty() {
        let rendered = rendered(draft, name, !is_new)?;
        add_changes(draft, name, key, rendered, Origin::Templates, &mut definitions)?;
    }
    Ok(definitions)
}

/// Returns the CRDs that uninstalled releases with the name of the new release `key` have left behind.
fn left_behind<'a>(draft: &mut Draft<'a>, key: &ReleaseKey) -> Result<&'a [AbandonedCrd], Wait> {
    match draft.read(Read::AbandonedCrds(key.clone())) {
        Some(Received { response: Response::AbandonedCrds(Ok(found)), .. }) => Ok(found),
        Some(received @ Received { response: Response::AbandonedCrds(Err(why)), .. }) => {
            Err(blocked(draft, received, why))
        }
        _ => Ok(&[]),
    }
}

/// Returns the actions that transfer CRDs to the new release `key`. The CRDs belong to a release that was uninstalled.
///
/// The uninstalled release had the same name in another namespace. osdpl regards it as uninstalled because helm has no
/// record of it in that namespace. But helm can store records elsewhere, for example in `ConfigMap`s, so the release
/// could still be running. Therefore the transfer needs approval.
///
/// helm refuses to install a release if another release owns one of its objects (helm: `action.checkOwnership`). So
/// upstream's mariadb chart needs the transfer: its templates contain CRDs, and an uninstall leaves these CRDs behind.
fn transfers(left: &[AbandonedCrd], key: &ReleaseKey) -> Definitions {
    let transfer = |definition| {
        let action = Action::TransferCrd { definition, release: key.clone() };
        Planned::new(
            action,
            "the release that owns the CRD was uninstalled, and helm refuses to install a chart whose objects belong \
             to another release",
        )
    };
    let others = left.iter().filter(|definition| definition.owner != *key);
    let changed = others.clone().map(|definition| definition.name.clone()).collect();
    Definitions { actions: others.cloned().map(transfer).collect(), changed }
}

/// Returns the CRDs that helm would apply for a release, because the chart's templates or the values contain them.
///
/// The result is empty if neither the templates nor the values can contain a CRD. It is also empty for `osdpl plan`,
/// which does not run helm.
fn rendered<'a>(draft: &mut Draft<'a>, name: &str, is_upgrade: bool) -> Result<&'a [CustomResourceDefinition], Wait> {
    let desired = draft.kept.resolved.as_ref().map(|resolved| Arc::clone(&resolved.desired)).unwrap_or_default();
    let has_templates = draft.snapshot.charts.crd_templates.contains(name);
    let may_have_crds = |release: &&DesiredRelease| has_templates || release.values.values().any(mentions_crd);
    let Some(release) = desired.releases.get(name).filter(may_have_crds) else { return Ok(&[]) };
    if draft.snapshot.assumed.is_some() {
        return Ok(&[]);
    }
    let inputs = release.inputs.clone();
    draft.requests.desired = Some(desired);
    match draft.read(Read::RenderedCrds { release: name.to_owned(), inputs, is_upgrade }) {
        Some(Received { response: Response::RenderedCrds(Ok(found)), .. }) => Ok(found),
        Some(received @ Received { response: Response::RenderedCrds(Err(why)) | Response::SlowRender(why), .. }) => {
            let why = format!("osdpl can't find out which CRDs helm would change: {why}");
            Err(blocked(draft, received, &why))
        }
        Some(received @ Received { response: Response::PostponedRender, .. }) => {
            draft.requeue(received.until());
            let message = "the operator has not rendered the chart yet, because it had other work; it tries again soon";
            Err(Wait::Blocked { reason: reason::CHART_PENDING.into(), message: message.into() })
        }
        _ => Ok(&[]),
    }
}

/// Whether a value may contain the manifest of a CRD. Many charts render manifests that users write into the values,
/// for example under the key `extraObjects` of OpenStack-Helm's charts.
fn mentions_crd(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("CustomResourceDefinition"),
        Value::Array(items) => items.iter().any(mentions_crd),
        Value::Object(map) => map.values().any(mentions_crd),
        _ => false,
    }
}

/// Adds the changes of CRDs to `definitions`: of those CRDs of a chart that the cluster lacks, or that have another
/// spec in the cluster. If helm applies the CRDs, `definitions` gets only the names of the changed CRDs, and no
/// actions.
///
/// A newer CRD ([`is_older`]) may have fields that the chart's CRD lacks, and objects would lose these fields. So osdpl
/// does not replace a newer CRD in the cluster. If helm would replace it, the release waits.
fn add_changes(
    draft: &mut Draft<'_>,
    name: &str,
    key: &ReleaseKey,
    crds: &[CustomResourceDefinition],
    origin: Origin,
    definitions: &mut Definitions,
) -> Result<(), Wait> {
    for definition in crds {
        let crd = definition.name_any();
        let Some(received) = draft.read(Read::Crd(crd.clone())) else { continue };
        let stored = match &received.response {
            Response::Crd(Ok(stored)) => stored,
            Response::Crd(Err(why)) => return Err(blocked(draft, received, why)),
            _ => continue,
        };
        let why = match stored {
            Some(stored) if has_spec(stored, definition) => continue,
            Some(stored) if is_older(&definition.spec, &stored.spec) => {
                if origin == Origin::Templates {
                    draft.requeue(received.until());
                    return Err(newer(name, &crd));
                }
                draft.findings.push(newer_crd_warning(name, &crd));
                continue;
            }
            Some(stored) => {
                let is_transferred = definitions.changed.contains(&crd);
                if let Some(owner) = other_owner(stored, key, origin).filter(|_| !is_transferred) {
                    // A later pass must read the CRD again, because the owner may update it, and no watch reports the
                    // update.
                    draft.requeue(received.until());
                    return Err(foreign(name, &crd, &owner, origin));
                }
                if !is_transferred {
                    definitions.changed.push(crd);
                }
                format!("the chart of {name} has another version of this CRD, and helm does not upgrade CRDs")
            }
            None => format!("the chart of {name} needs this CRD"),
        };
        if origin == Origin::Folder {
            let action = Action::ApplyCrd { release: key.clone(), definition: Arc::new(definition.clone()) };
            definitions.actions.push(Planned::new(action, why));
        }
    }
    Ok(())
}

/// Whether the spec of a CRD in the cluster equals the spec of the chart's CRD.
///
/// The comparison ignores the fields of `spec.conversion` that the chart does not set, because controllers write their
/// certificates there, and the API server adds defaults.
fn has_spec(stored: &CustomResourceDefinition, definition: &CustomResourceDefinition) -> bool {
    let mut expected = with_defaults(definition.spec.clone());
    let json = |conversion: &Option<CustomResourceConversion>| serde_json::to_value(conversion).unwrap_or_default();
    let (found, wanted) = (json(&stored.spec.conversion), json(&expected.conversion));
    if wanted.is_null() || ceph::contains(&found, &wanted) {
        expected.conversion.clone_from(&stored.spec.conversion);
    }
    stored.spec == expected
}

/// Whether the CRD `one` is older than the CRD `other`.
///
/// `one` is older in two cases: `other` serves or stores a higher version than `one`, or `other` has all versions and
/// fields of `one` and an additional version or field.
fn is_older(one: &CustomResourceDefinitionSpec, other: &CustomResourceDefinitionSpec) -> bool {
    if highest_versions(one).iter().zip(highest_versions(other)).any(|(one, other)| *one < other) {
        return true;
    }
    let (one, other) = (fields(one), fields(other));
    one.len() < other.len() && one.is_subset(&other)
}

/// Returns the priorities of two versions of a CRD: the highest version that the API server serves, and the version in
/// which the API server stores the CRD's objects.
fn highest_versions(spec: &CustomResourceDefinitionSpec) -> [Option<VersionPriority>; 2] {
    let highest = |is_relevant: fn(&CustomResourceDefinitionVersion) -> bool| {
        spec.versions.iter().filter(|version| is_relevant(version)).filter_map(|version| priority(&version.name)).max()
    };
    [highest(|version| version.served), highest(|version| version.storage)]
}

/// The remedy if a chart's templates contain a CRD that differs from the cluster's CRD, and osdpl does not let helm
/// change the cluster's CRD.
const APPLY_TEMPLATE: &str =
    "make the CRD equal to the chart's: print the manifests with osdpl render --manifests --charts, and apply the CRD";

/// The priority of a version: its stability (2 for `v1`, 1 for `v1beta1`, 0 for `v1alpha1`), its major number, and its
/// minor number.
type VersionPriority = (u8, u32, u32);

/// Returns the priority of a version of a CRD, by the rules of Kubernetes (Kubernetes' documentation of CRDs with
/// versions, section "Version priority").
///
/// Returns `None` for a name without a version number, such as `example`. Kubernetes gives such names the lowest
/// priority.
fn priority(name: &str) -> Option<VersionPriority> {
    let name = name.strip_prefix('v')?;
    let (stability, major, minor) = match (name.split_once("alpha"), name.split_once("beta")) {
        (Some((major, minor)), _) => (0, major, minor),
        (None, Some((major, minor))) => (1, major, minor),
        (None, None) => (2, name, "0"),
    };
    Some((stability, major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the names of a CRD's versions, and the path of each field in each version's schema.
fn fields(spec: &CustomResourceDefinitionSpec) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for version in &spec.versions {
        all.insert(version.name.clone());
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
        add_fields(&schema, &version.name, &mut all);
    }
    all
}

/// Adds the paths of all fields in `schema` to `all`, including the fields of list items and map values. `path` is the
/// path of `schema` itself.
fn add_fields(schema: &Value, path: &str, all: &mut BTreeSet<String>) {
    for (key, inner) in schema.as_object().into_iter().flatten() {
        match (key.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let path = format!("{path}.{name}");
                    add_fields(property, &path, all);
                    all.insert(path);
                }
            }
            ("items" | "additionalProperties", inner) => add_fields(inner, &format!("{path}[]"), all),
            _ => {}
        }
    }
}

/// Returns the owner of a CRD; `None` if the owner is osdpl or the release `key`.
///
/// The owner is another helm release, or a field manager that set the CRD's list of versions (`spec.versions`). If the
/// chart's templates contain the CRD, the field manager `helm` does not count as an owner, because helm applies this
/// CRD itself.
fn other_owner(stored: &CustomResourceDefinition, key: &ReleaseKey, origin: Origin) -> Option<String> {
    if let Some(release) = helm_owner(&stored.metadata).filter(|owner| owner != key) {
        return Some(format!("helm release {release}"));
    }
    let sets_versions = |fields: &Value| fields.pointer("/f:spec/f:versions").is_some();
    let mut entries = stored.metadata.managed_fields.iter().flatten();
    let entry = entries.find(|entry| {
        let manager = entry.manager.as_deref();
        let is_helm = origin == Origin::Templates && manager == Some(HELM_MANAGER);
        manager != Some(MANAGER) && !is_helm && entry.fields_v1.as_ref().is_some_and(|fields| sets_versions(&fields.0))
    })?;
    Some(format!("field manager {:?}", entry.manager.as_deref().unwrap_or_default()))
}

fn foreign(name: &str, crd: &str, owner: &str, origin: Origin) -> Wait {
    let remedy = match origin {
        Origin::Folder => format!(
            "osdpl does not overwrite the CRD; let the owner update the CRD, or hand the CRDs of the chart over to \
             osdpl: helm show crds <chart> | \
             kubectl apply --server-side --force-conflicts --field-manager={MANAGER} -f -"
        ),
        Origin::Templates => format!(
            "osdpl does not start helm, which would overwrite the CRD; let the owner update the CRD, or \
             {APPLY_TEMPLATE}"
        ),
    };
    let message = format!("the chart of {name} has another version of CRD {crd}, which {owner} owns, so {remedy}");
    Wait::Blocked { reason: reason::FOREIGN.into(), message }
}

/// Returns the [`Wait`] of a release for which helm would replace a CRD by an older one.
fn newer(name: &str, crd: &str) -> Wait {
    let message = format!(
        "the cluster has a newer version of CRD {crd} than the chart of {name}: osdpl does not start helm, which would \
         replace it, and objects would lose fields; use a chart with the newer version; or, if no object needs these \
         fields, {APPLY_TEMPLATE}"
    );
    Wait::Blocked { reason: reason::FOREIGN.into(), message }
}

/// Returns a warning about the CRDs that helm itself changes in an upgrade, because no action of the plan shows these
/// changes; `None` if there are no such CRDs.
pub(crate) fn changes_by_helm(name: &str, definitions: &Definitions) -> Option<Finding> {
    let is_shown = |crd: &&String| {
        definitions.actions.iter().any(|planned| match &planned.action {
            Action::ApplyCrd { definition, .. } => definition.name_any() == **crd,
            Action::TransferCrd { definition, .. } => definition.name == **crd,
            _ => false,
        })
    };
    let hidden: Vec<&str> = definitions.changed.iter().filter(|crd| !is_shown(crd)).map(String::as_str).collect();
    let message = format!(
        "the upgrade of {name} also changes CRDs that the plan does not list, because helm itself applies them: {}; \
         check these changes before you approve the upgrade",
        hidden.join(", ")
    );
    (!hidden.is_empty()).then(|| Finding::new(Level::Warning, format!("releases.{name}"), message))
}

/// Returns a warning for the person who approves the upgrade of a release: osdpl could not plan the changes of CRDs,
/// and `wait` says why. Returns `None` if the operator will render the chart soon.
pub(crate) fn unknown_changes(name: &str, wait: &Wait) -> Option<Finding> {
    let is_pending = matches!(wait, Wait::Blocked { reason, .. } if reason == reason::CHART_PENDING);
    (!is_pending).then(|| Finding::new(Level::Warning, format!("releases.{name}"), wait.to_string()))
}

fn newer_crd_warning(name: &str, crd: &str) -> Finding {
    let message = format!(
        "the cluster has a newer version of CRD {crd} than the chart of {name}: osdpl keeps the newer version, because \
         with the chart's version, objects would lose fields; if the chart does not work with the newer version, use a \
         newer chart"
    );
    Finding::new(Level::Warning, format!("releases.{name}"), message)
}

/// Adds the API server's defaults to the spec of a chart's CRD. osdpl can then compare the spec with the CRD in the
/// cluster, which has these defaults.
///
/// The defaults are those that Kubernetes sets in
/// `apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go`.
fn with_defaults(mut spec: CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    spec.names.singular.get_or_insert_with(|| spec.names.kind.to_lowercase());
    spec.names.list_kind.get_or_insert_with(|| format!("{}List", spec.names.kind));
    // The API server stores this field only if it is `true`. So remove `false` before the comparison.
    spec.preserve_unknown_fields = spec.preserve_unknown_fields.filter(|preserve| *preserve);
    spec
}

/// Returns the [`Wait`] of a release whose CRDs the operator could not read from the API server or render.
///
/// The function requests a pass for the time at which the operator must repeat the failed read `received`.
fn blocked(draft: &mut Draft<'_>, received: &Received, why: &str) -> Wait {
    draft.requeue(received.until());
    Wait::Blocked { reason: reason::FAILED.into(), message: why.to_owned() }
}

#[cfg(test)]
mod tests;
