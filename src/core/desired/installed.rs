//! Releases that are installed already: what they are known by, and that they stay where they are.
//!
//! A release does not move: under another name or in another namespace helm would install a second one beside it, with empty databases,
//! and take the first for something that nobody wants any more. The API server can't judge this, because it does not know what is
//! installed; so a spec that asks for it is refused here, for that release alone, and everything else goes on as if it had not asked.

use std::collections::BTreeMap;

use super::{Blocked, Selection};
use crate::api::{OpenStackDeploymentSpec, reason};
use crate::catalog::Catalog;
use crate::observed::{Key, Observed, ReleaseSeen};

/// What a spec asks of installed releases that can't be done.
#[derive(Debug)]
pub struct Anchored {
    /// The spec with the name and namespace that those releases have.
    pub spec: OpenStackDeploymentSpec,
    /// Why each of them is refused, by release.
    pub refused: BTreeMap<String, Blocked>,
}

/// The catalogue's name of an installed release: by the label that we write, else by its chart where only one release has that, else by
/// what the spec calls it (`names`), else by its own name.
pub fn identify(key: &Key, seen: &ReleaseSeen, names: &BTreeMap<Key, String>, catalog: &Catalog) -> Option<String> {
    let known = |name: &&String| catalog.release(name).is_some();
    let chart = seen.body.as_ref().map(|body| body.chart.as_str()).unwrap_or_default();
    let releases = || catalog.services.values().flat_map(|service| &service.releases);
    let mut of_chart = releases().filter(|(_, release)| release.chart == chart).map(|(name, _)| name);
    let only = of_chart.next().filter(|_| of_chart.next().is_none());
    let label = seen.release.as_ref().filter(known);
    label.or(only).or_else(|| names.get(key)).or(Some(&key.name).filter(known)).cloned()
}

/// Finds the releases that a spec would install a second time; `None` where there are none.
pub fn anchored(
    selection: &Selection,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    observed: &Observed,
) -> Option<Anchored> {
    let ours = |seen: &ReleaseSeen| seen.attempt.is_some() && seen.status != "uninstalled";
    let mut anchored = Anchored { spec: spec.clone(), refused: BTreeMap::new() };
    for (name, key) in &selection.releases {
        let Some((service, _)) = catalog.release(name) else { continue };
        let here = observed.releases.get(key).filter(|seen| ours(seen));
        let is = |seen: &ReleaseSeen| seen.release.as_ref() == Some(name);
        if here.is_some_and(is) {
            continue;
        }
        let installed = observed.releases.iter().find(|(_, seen)| ours(seen) && is(seen));
        let other = here.and_then(|seen| seen.release.as_ref());
        let field = format!("spec.services.{service}.releases.{name}");
        let message = match (installed, other) {
            (Some((at, _)), _) => {
                anchor(&mut anchored.spec, service, name, at);
                let home = super::select::home(&selection.namespace, catalog, service, name);
                moved(&field, name, at, key, home)
            }
            (None, Some(other)) => format!(
                "{field}: helm release {key} is installed for {other}, and {name} can't be put over it; give {name} another name"
            ),
            (None, None) => continue,
        };
        anchored.refused.insert(name.clone(), Blocked { reason: reason::INVALID.into(), message });
    }
    (!anchored.refused.is_empty()).then_some(anchored)
}

fn anchor(spec: &mut OpenStackDeploymentSpec, service: &str, release: &str, at: &Key) {
    let overrides = spec.services.entry(service.to_owned()).or_default();
    let overrides = overrides.releases.entry(release.to_owned()).or_default();
    overrides.name = Some(at.name.clone());
    overrides.namespace = Some(at.namespace.clone());
}

fn moved(field: &str, release: &str, at: &Key, wanted: &Key, home: &str) -> String {
    let mut fields = Vec::new();
    let mut remedies = Vec::new();
    let mut say = |what: &str, is: &str, wanted: &str, usual: &str| {
        if is != wanted {
            fields.push(format!("{field}.{what}"));
            remedies.push(if is == usual { format!("remove {what}") } else { format!("set {what} to {is}") });
        }
    };
    say("namespace", &at.namespace, &wanted.namespace, home);
    say("name", &at.name, &wanted.name, release);
    let (fields, remedies) = (fields.join(", "), remedies.join(" and "));
    format!(
        "{fields}: {release} is installed as helm release {at} and can't become {wanted}: it would be left running beside a new and empty \
         one, because volume claims do not move; {remedies}, or, to begin anew there, set the service's `enabled` to false first, let the \
         release be uninstalled, and enable it then"
    )
}

#[cfg(test)]
mod tests;
