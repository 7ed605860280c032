//! Plans the changes of CRDs that must precede the install or upgrade of a release.
//!
//! osdpl applies the CRDs of a chart itself: helm would install them once and never upgrade them
//! (<https://helm.sh/docs/chart_best_practices/custom_resource_definitions>). A CRD affects the whole cluster. So osdpl
//! asks for approval before it changes an existing CRD, or transfers a CRD from a release that was uninstalled to a
//! new release. osdpl changes no CRD that another installed release or another field manager owns, and no CRD that is
//! newer than the CRD in the chart.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use kube::ResourceExt;
use serde_json::Value;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Read, Received, Response};
use osdpl_core::api::{MANAGER, reason};
use osdpl_core::catalog::Level;
use osdpl_core::desired::Finding;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::Wait;
use osdpl_core::release::helm_owner;

/// The actions on CRDs that must precede the install or upgrade of a release.
#[derive(Default)]
pub(crate) struct Definitions {
    /// The actions, in the order in which the operator must execute them.
    pub(crate) actions: Vec<Planned>,
    /// The names of the existing CRDs that `actions` changes, or transfers to the release. Changes and transfers need
    /// approval.
    pub(crate) changed: Vec<String>,
}

/// Returns the actions on CRDs that must precede the install or upgrade of the release `name`.
///
/// # Errors
/// Returns the [`Wait`] of the release, with the reason, if osdpl can't read the CRDs in the cluster or in the chart,
/// or if someone else owns a CRD that differs from the CRD in the chart.
pub(crate) fn plan(
    draft: &mut Draft<'_>,
    name: &str,
    key: &ReleaseKey,
    observed: &Observed,
) -> Result<Definitions, Wait> {
    let is_new = !observed.releases.contains_key(key);
    let mut definitions = if is_new { transfers(draft, key)? } else { Definitions::default() };
    add_outdated(draft, name, key, &mut definitions)?;
    Ok(definitions)
}

/// Returns the actions that transfer CRDs to the new release `key` from a release that was uninstalled.
///
/// The uninstalled release had the same name in another namespace. osdpl regards it as uninstalled because helm has no
/// record of it in that namespace. But helm can store records elsewhere, for example in `ConfigMap`s, so the release
/// may still run. Therefore the transfer needs approval.
///
/// helm refuses to install a release if another release owns one of its objects (helm: `action.checkOwnership`). So
/// upstream's mariadb chart needs the transfer: its templates contain CRDs, and an uninstall leaves these CRDs behind.
fn transfers(draft: &mut Draft<'_>, key: &ReleaseKey) -> Result<Definitions, Wait> {
    let found = match draft.read(Read::AbandonedCrds(key.clone())) {
        Some(Received { response: Response::AbandonedCrds(Ok(found)), .. }) => found,
        Some(received @ Received { response: Response::AbandonedCrds(Err(why)), .. }) => {
            return Err(blocked(draft, received, why));
        }
        _ => return Ok(Definitions::default()),
    };
    let transfer = |definition| {
        let action = Action::TransferCrd { definition, release: key.clone() };
        Planned::new(
            action,
            "the release that owns the CRD was uninstalled, and helm does not install over objects of \
             another release",
        )
    };
    let changed = found.iter().map(|definition| definition.name.clone()).collect();
    Ok(Definitions { actions: found.iter().cloned().map(transfer).collect(), changed })
}

/// Adds an action for each CRD in the chart of a release, if the cluster lacks the CRD, or if its CRD differs from the
/// CRD in the chart.
///
/// Skips a CRD if the CRD in the cluster is newer ([`is_older`]): with the older CRD of the chart, objects would lose
/// fields.
fn add_outdated(
    draft: &mut Draft<'_>,
    name: &str,
    key: &ReleaseKey,
    definitions: &mut Definitions,
) -> Result<(), Wait> {
    let Some(chart) = draft.snapshot.charts.crds.get(name) else { return Ok(()) };
    let chart = chart.as_ref().map_err(|why| Wait::Blocked { reason: reason::CHART.into(), message: why.clone() })?;
    for definition in chart.iter() {
        let crd = definition.name_any();
        let Some(received) = draft.read(Read::Crd(crd.clone())) else { continue };
        let stored = match &received.response {
            Response::Crd(Ok(stored)) => stored,
            Response::Crd(Err(why)) => return Err(blocked(draft, received, why)),
            _ => continue,
        };
        let why = match stored {
            Some(stored) if stored.spec == with_defaults(definition.spec.clone()) => continue,
            Some(stored) if is_older(&definition.spec, &stored.spec) => {
                draft.findings.push(newer_crd_warning(name, &crd));
                continue;
            }
            Some(stored) => {
                let is_transferred = definitions.changed.contains(&crd);
                if let Some(owner) = other_owner(stored, key).filter(|_| !is_transferred) {
                    // A later pass must read the CRD again: the owner may update the CRD, and no watch reports the
                    // update.
                    draft.requeue(received.until());
                    return Err(foreign(name, &crd, &owner));
                }
                if !is_transferred {
                    definitions.changed.push(crd);
                }
                format!("the chart of {name} has another version of this CRD, and helm does not upgrade CRDs")
            }
            None => format!("the chart of {name} needs this CRD"),
        };
        let action = Action::ApplyCrd { release: key.clone(), definition: Arc::new(definition.clone()) };
        definitions.actions.push(Planned::new(action, why));
    }
    Ok(())
}

/// Whether the CRD `other` is newer than the CRD `one`.
///
/// `other` is newer in two cases: it serves or stores a higher version than `one`, or it has all versions and fields of
/// `one` and an additional version or field.
fn is_older(one: &CustomResourceDefinitionSpec, other: &CustomResourceDefinitionSpec) -> bool {
    if highest_versions(one).iter().zip(highest_versions(other)).any(|(one, other)| *one < other) {
        return true;
    }
    let (one, other) = (fields(one), fields(other));
    one.len() < other.len() && one.is_subset(&other)
}

/// Returns the priority of the highest version that a CRD serves, and the priority of the version in which the CRD
/// stores objects.
fn highest_versions(spec: &CustomResourceDefinitionSpec) -> [Option<VersionPriority>; 2] {
    let highest = |is_relevant: fn(&CustomResourceDefinitionVersion) -> bool| {
        spec.versions.iter().filter(|version| is_relevant(version)).filter_map(|version| priority(&version.name)).max()
    };
    [highest(|version| version.served), highest(|version| version.storage)]
}

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

/// Returns the versions of a CRD, and the path of each field in the schema of each version.
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

/// Adds the paths of the fields that the schema of a version defines, including the fields of list items and map
/// values.
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

/// Returns the owner of a CRD, unless the owner is osdpl or the release `key`.
///
/// The owner is another helm release, or another field manager that set the versions of the CRD.
fn other_owner(stored: &CustomResourceDefinition, key: &ReleaseKey) -> Option<String> {
    if let Some(release) = helm_owner(&stored.metadata).filter(|owner| owner != key) {
        return Some(format!("helm release {release}"));
    }
    let sets_versions = |fields: &Value| fields.pointer("/f:spec/f:versions").is_some();
    let mut entries = stored.metadata.managed_fields.iter().flatten();
    let entry = entries.find(|entry| {
        let is_other = entry.manager.as_deref() != Some(MANAGER);
        is_other && entry.fields_v1.as_ref().is_some_and(|fields| sets_versions(&fields.0))
    })?;
    Some(format!("field manager {:?}", entry.manager.as_deref().unwrap_or_default()))
}

fn foreign(name: &str, crd: &str, owner: &str) -> Wait {
    let message = format!(
        "the chart of {name} has another version of CRD {crd}, which {owner} owns: osdpl does not overwrite it; update \
         it with that tool, or hand the CRDs of the chart over to osdpl: helm show crds <chart> | kubectl apply \
         --server-side --force-conflicts --field-manager={MANAGER} -f -"
    );
    Wait::Blocked { reason: reason::FOREIGN.into(), message }
}

fn newer_crd_warning(name: &str, crd: &str) -> Finding {
    let message = format!(
        "the cluster has a newer version of CRD {crd} than the chart of {name}: osdpl keeps it, because objects would \
         lose fields; nothing to do if the chart works with it"
    );
    Finding::new(Level::Warning, format!("releases.{name}"), message)
}

/// Returns the spec of a chart's CRD with the defaults of the API server, so that osdpl can compare it with the CRD in
/// the cluster.
///
/// Kubernetes: `apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go`.
fn with_defaults(mut spec: CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    spec.names.singular.get_or_insert_with(|| spec.names.kind.to_lowercase());
    spec.names.list_kind.get_or_insert_with(|| format!("{}List", spec.names.kind));
    spec.conversion
        .get_or_insert_with(|| CustomResourceConversion { strategy: "None".to_owned(), ..Default::default() });
    // The API server stores this field only if it is `true`. So remove `false` before the comparison.
    spec.preserve_unknown_fields = spec.preserve_unknown_fields.filter(|preserve| *preserve);
    spec
}

/// Returns the [`Wait`] of a release whose CRDs osdpl could not read from the API server.
///
/// A later pass reads the CRDs again, when the failed response `received` has expired.
fn blocked(draft: &mut Draft<'_>, received: &Received, why: &str) -> Wait {
    draft.requeue(received.until());
    Wait::Blocked { reason: reason::FAILED.into(), message: why.to_owned() }
}
