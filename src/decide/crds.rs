//! Plans the changes of CRDs that a release needs before helm installs or upgrades the release.
//!
//! osdpl applies the CRDs of a chart itself: helm would install them once and never upgrade them
//! (<https://helm.sh/docs/chart_best_practices/custom_resource_definitions>). A CRD affects the whole cluster. So osdpl
//! changes an existing CRD only after approval. It never changes a CRD that has another owner or that is newer than the
//! chart's.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionSpec,
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

/// The writes of CRDs that must precede an upgrade of a release.
#[derive(Default)]
pub(crate) struct Definitions {
    /// The writes, in their order.
    pub(crate) actions: Vec<Planned>,
    /// The names of the CRDs that the cluster already has and that the writes change.
    pub(crate) changed: Vec<String>,
}

/// Returns the writes of CRDs that must precede an upgrade of the release `name`.
///
/// # Errors
/// If osdpl can't read the CRDs in the cluster or in the chart, or if someone else owns a CRD that the chart changes.
/// The error is the [`Wait`] that replaces the upgrade, with the reason.
pub(crate) fn plan(
    draft: &mut Draft<'_>,
    name: &str,
    key: &ReleaseKey,
    observed: &Observed,
) -> Result<Definitions, Wait> {
    let is_new = !observed.releases.contains_key(key);
    let actions = if is_new { transfers(draft, key)? } else { Vec::new() };
    let mut definitions = Definitions { actions, changed: Vec::new() };
    add_outdated(draft, name, key, &mut definitions)?;
    Ok(definitions)
}

/// Returns the actions that transfer CRDs to the release `key`.
///
/// The CRDs belong to an uninstalled release of the same name in another namespace.
///
/// helm refuses to install a release if another release owns one of its objects (helm: `action.checkOwnership`).
/// Upstream's mariadb chart has CRDs in its templates, and an uninstall leaves these CRDs behind.
fn transfers(draft: &mut Draft<'_>, key: &ReleaseKey) -> Result<Vec<Planned>, Wait> {
    let found = match draft.read(Read::AbandonedCrds(key.clone())) {
        Some(Received { response: Response::AbandonedCrds(Ok(found)), .. }) => found,
        Some(received @ Received { response: Response::AbandonedCrds(Err(why)), .. }) => {
            return Err(blocked(draft, received, why));
        }
        _ => return Ok(Vec::new()),
    };
    let transfer = |definition| {
        let action = Action::TransferCrd { definition, release: key.clone() };
        Planned::new(
            action,
            "the release that owns the CRD was uninstalled, and helm does not install over objects of \
             another release",
        )
    };
    Ok(found.iter().cloned().map(transfer).collect())
}

/// Adds the actions that apply CRDs from the chart of a release, if the cluster lacks a CRD or has another version.
///
/// Skips a CRD of the chart if it only lacks versions or fields that the CRD in the cluster has. Then the CRD in the
/// cluster is newer, and objects would lose these fields.
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
                let is_transferred = definitions.actions.iter().any(|planned| {
                    matches!(&planned.action, Action::TransferCrd { definition, .. } if definition.name == crd)
                });
                if let Some(owner) = other_owner(stored, key).filter(|_| !is_transferred) {
                    // The owner may change the CRD, and no watch reports the change.
                    draft.requeue(received.until());
                    return Err(foreign(name, &crd, &owner));
                }
                definitions.changed.push(crd);
                format!("the chart of {name} has another version, and helm does not upgrade CRDs")
            }
            None => format!("the chart of {name} needs this CRD"),
        };
        let action = Action::ApplyCrd { release: key.clone(), definition: Arc::new(definition.clone()) };
        definitions.actions.push(Planned::new(action, why));
    }
    Ok(())
}

/// Whether `other` has all versions and fields of `one`, and also more.
fn is_older(one: &CustomResourceDefinitionSpec, other: &CustomResourceDefinitionSpec) -> bool {
    let (one, other) = (fields(one), fields(other));
    one.len() < other.len() && one.is_subset(&other)
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

/// Returns the other owner of a CRD; `None` if there is none.
///
/// This is a helm release other than `key`, or a field manager other than osdpl that set the versions of the CRD.
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

/// Sets the defaults that the API server would set, so that a CRD in the cluster equals the CRD in the chart.
///
/// Kubernetes: `apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go`.
fn with_defaults(mut spec: CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    spec.names.singular.get_or_insert_with(|| spec.names.kind.to_lowercase());
    spec.names.list_kind.get_or_insert_with(|| format!("{}List", spec.names.kind));
    spec.conversion
        .get_or_insert_with(|| CustomResourceConversion { strategy: "None".to_owned(), ..Default::default() });
    // The API server does not store this field if it is `false`, so the copy to compare must not contain it either.
    spec.preserve_unknown_fields = spec.preserve_unknown_fields.filter(|preserve| *preserve);
    spec
}

/// Makes a release wait because osdpl could not read the release's CRDs from the API server.
///
/// A later pass reads the CRDs again, after the failed response `received` has expired.
fn blocked(draft: &mut Draft<'_>, received: &Received, why: &str) -> Wait {
    draft.requeue(received.until());
    Wait::Blocked { reason: reason::FAILED.into(), message: why.to_owned() }
}
