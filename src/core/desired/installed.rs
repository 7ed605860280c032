//! Identifies installed releases, and rejects changes of their names and namespaces.
//!
//! A release can't be moved: under another name or namespace helm would install a second one with empty
//! databases, and the first would look like a release that is no longer desired. The API server can't validate this,
//! because it does not know what is installed. So such a change is refused here for that one release, and the rest of
//! the cloud is reconciled as if the change had not been requested.

use std::collections::BTreeMap;

use super::{Blocked, Selection};
use crate::api::{OpenStackDeploymentSpec, reason};
use crate::catalog::Catalog;
use crate::observed::{Observed, ObservedRelease, ReleaseKey};
use crate::release::Status;

/// Changes of installed releases that a spec requests and that are impossible.
#[derive(Debug)]
pub struct RejectedMoves {
    /// The spec with the actual names and namespaces of those releases.
    pub spec: OpenStackDeploymentSpec,
    /// The reason for each refused release.
    pub refused: BTreeMap<String, Blocked>,
}

/// Returns the catalogue name of an installed release.
///
/// The first match wins: the label that osdpl writes, the chart if only one release has it, the name in the spec
/// (`names`), the release's own name.
pub fn identify_release(
    key: &ReleaseKey,
    record: &ObservedRelease,
    names: &BTreeMap<ReleaseKey, String>,
    catalog: &Catalog,
) -> Option<String> {
    let known = |name: &&String| catalog.release(name).is_some();
    let chart = record.body.as_ref().map(|body| body.chart.as_str()).unwrap_or_default();
    let releases = || catalog.services.values().flat_map(|service| &service.releases);
    let mut of_chart = releases().filter(|(_, release)| release.chart == chart).map(|(name, _)| name);
    let only = of_chart.next().filter(|_| of_chart.next().is_none());
    let label = record.release.as_ref().filter(known);
    label.or(only).or_else(|| names.get(key)).or(Some(&key.name).filter(known)).cloned()
}

/// Finds the releases that a spec would install a second time; `None` if there are none.
pub fn reject_moves(
    selection: &Selection,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    observed: &Observed,
) -> Option<RejectedMoves> {
    let is_ours = |record: &ObservedRelease| record.attempt.is_some() && record.status != Status::Uninstalled;
    let mut rejected = RejectedMoves { spec: spec.clone(), refused: BTreeMap::new() };
    for (name, key) in &selection.releases {
        let Some((service, _)) = catalog.release(name) else { continue };
        let here = observed.releases.get(key).filter(|record| is_ours(record));
        let is_same = |record: &ObservedRelease| record.release.as_ref() == Some(name);
        if here.is_some_and(is_same) {
            continue;
        }
        let installed = observed.releases.iter().find(|(_, record)| is_ours(record) && is_same(record));
        let other = here.and_then(|record| record.release.as_ref());
        let field = format!("spec.services.{service}.releases.{name}");
        let message = match (installed, other) {
            (Some((actual, _)), _) => {
                keep_identity(&mut rejected.spec, service, name, actual);
                let home = super::select::home_namespace(&selection.namespace, catalog, service, name);
                move_message(&field, name, actual, key, home)
            }
            (None, Some(other)) => format!(
                "{field}: helm release {key} is installed for {other}, so {name} can't be installed under that name; give {name} another name"
            ),
            (None, None) => continue,
        };
        rejected.refused.insert(name.clone(), Blocked { reason: reason::INVALID.into(), message });
    }
    (!rejected.refused.is_empty()).then_some(rejected)
}

/// Sets the actual name and namespace of a release in the spec.
fn keep_identity(spec: &mut OpenStackDeploymentSpec, service: &str, release: &str, actual: &ReleaseKey) {
    let overrides = spec.services.entry(service.to_owned()).or_default();
    let overrides = overrides.releases.entry(release.to_owned()).or_default();
    overrides.name = Some(actual.name.clone());
    overrides.namespace = Some(actual.namespace.clone());
}

fn move_message(field: &str, release: &str, actual: &ReleaseKey, wanted: &ReleaseKey, home: &str) -> String {
    let mut fields = Vec::new();
    let mut remedies = Vec::new();
    let mut add = |part: &str, actual: &str, wanted: &str, usual: &str| {
        if actual != wanted {
            fields.push(format!("{field}.{part}"));
            remedies.push(if actual == usual { format!("remove {part}") } else { format!("set {part} to {actual}") });
        }
    };
    add("namespace", &actual.namespace, &wanted.namespace, home);
    add("name", &actual.name, &wanted.name, release);
    let (fields, remedies) = (fields.join(", "), remedies.join(" and "));
    format!(
        "{fields}: {release} is installed as helm release {actual} and can't become {wanted}: it would keep running next to a new and empty \
         one, because volume claims do not move; {remedies}, or, to start over there, set the service's `enabled` to false first, wait \
         until the release is uninstalled, and enable it then"
    )
}

#[cfg(test)]
mod tests;
