//! Plans the changes of CRDs that a release needs before helm installs or upgrades the release.
//!
//! osdpl applies the CRDs of a chart itself: helm would install them once and never upgrade them
//! (<https://helm.sh/docs/chart_best_practices/custom_resource_definitions>).

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinitionSpec,
};
use kube::ResourceExt;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Read, Received, Response};
use osdpl_core::api::reason;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::Wait;

/// Returns the actions on CRDs that must precede an upgrade of the release `name`.
///
/// # Errors
/// If osdpl can't read the CRDs in the cluster or in the chart. The error is the step that replaces the upgrade: a wait
/// with the reason.
pub(crate) fn plan(
    draft: &mut Draft<'_>,
    name: &str,
    key: &ReleaseKey,
    observed: &Observed,
) -> Result<Vec<Planned>, Wait> {
    let is_new = !observed.releases.contains_key(key);
    let mut actions = if is_new { transfers(draft, key)? } else { Vec::new() };
    actions.extend(outdated_crds(draft, name, key)?);
    Ok(actions)
}

/// Returns the actions that transfer CRDs from an uninstalled release of the same name in another namespace.
///
/// helm refuses to install over an object that another release owns (helm: `action.checkOwnership`). An uninstall of
/// upstream's mariadb chart leaves the CRDs in the chart's templates behind.
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

/// Returns the actions that apply CRDs from the chart of a release, if the cluster lacks a CRD or has another version.
fn outdated_crds(draft: &mut Draft<'_>, name: &str, key: &ReleaseKey) -> Result<Vec<Planned>, Wait> {
    let Some(definitions) = draft.snapshot.charts.crds.get(name) else { return Ok(Vec::new()) };
    let definitions =
        definitions.as_ref().map_err(|why| Wait::Blocked { reason: reason::CHART.into(), message: why.clone() })?;
    let mut outdated = Vec::new();
    for definition in definitions.iter() {
        let stored = match draft.read(Read::Crd(definition.name_any())) {
            Some(Received { response: Response::Crd(Ok(stored)), .. }) => stored,
            Some(received @ Received { response: Response::Crd(Err(why)), .. }) => {
                return Err(blocked(draft, received, why));
            }
            _ => continue,
        };
        let why = match stored {
            Some(stored) if stored.spec == with_defaults(definition.spec.clone()) => continue,
            Some(_) => format!("the chart of {name} has another version, and helm does not upgrade CRDs"),
            None => format!("the chart of {name} needs it"),
        };
        let action = Action::ApplyCrd { release: key.clone(), definition: Arc::new(definition.clone()) };
        outdated.push(Planned::new(action, why));
    }
    Ok(outdated)
}

/// Sets the fields of a CRD that the API server would set, so that a CRD in the cluster compares equal to the CRD in
/// the chart.
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
