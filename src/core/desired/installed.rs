//! Recognizes installed releases, and refuses changes of their names and namespaces in the spec.
//!
//! helm can't rename or move a release. Under another name or namespace, helm would install a second release with empty
//! databases, and osdpl would treat the first release as no longer desired. The API server can't refuse such a change,
//! because it does not know which releases are installed. So osdpl refuses the change, and does not run helm for the
//! changed release. It reconciles all other releases as if the spec did not request the change.

use std::collections::BTreeMap;

use super::{Blocked, Selection};
use crate::api::{OpenStackDeploymentSpec, reason};
use crate::catalog::Catalog;
use crate::observed::{Observed, ObservedRelease, ReleaseKey};
use crate::release::Status;

/// The changes of release names and namespaces that osdpl refuses, with the reasons, and the spec without these
/// changes.
#[derive(Debug)]
pub struct RejectedMoves {
    /// The spec without the refused changes: the releases have the names and namespaces under which they are installed.
    pub spec: OpenStackDeploymentSpec,
    /// The releases for which osdpl refuses the name or namespace in the spec, by catalogue name, each with the reason.
    pub refused: BTreeMap<String, Blocked>,
}

/// Returns the catalogue name of an installed release; `None` if none of the sources below contains the name.
///
/// osdpl tries these sources in this order:
/// 1. osdpl's label on helm's record of the release
/// 2. the chart in helm's record, if only one release in the catalogue has this chart
/// 3. the spec: `names` contains the namespace and name of each release in the spec, with the release's catalogue name
/// 4. the helm release's own name, if the catalogue has a release with this name
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

/// Returns the changes of names and namespaces that osdpl refuses; `None` if there are none.
///
/// osdpl refuses to rename or move an installed release, and to install a release under the name of another installed
/// release.
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
        // helm's records are Secrets, so whoever may write Secrets in a namespace can create a record with osdpl's
        // label. With such a record, an attacker could redirect the endpoints in the values of other releases. So
        // ignore records that do not belong to the cloud.
        let mut owned = observed.releases.iter().filter(|(key, _)| observed.owned.contains(key));
        let installed = owned.find(|(_, record)| is_ours(record) && is_same(record));
        let other = here.and_then(|record| record.release.as_ref());
        let field = format!("spec.services.{service}.releases.{name}");
        let message = match (installed, other) {
            (Some((actual, _)), _) => {
                keep_identity(&mut rejected.spec, service, name, actual);
                let home = super::variables::home_namespace(&selection.namespace, catalog, service, name);
                move_message(&field, name, actual, key, home)
            }
            (None, Some(other)) => format!(
                "{field}: {name} can't become helm release {key}, because {other} is already installed as this helm release; give {name} another name"
            ),
            (None, None) => continue,
        };
        rejected.refused.insert(name.clone(), Blocked { reason: reason::INVALID.into(), message });
    }
    (!rejected.refused.is_empty()).then_some(rejected)
}

/// Sets the name and namespace of a release in the spec to those under which the release is installed (`actual`).
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
        "{fields}: {release} is installed as helm release {actual} and can't become {wanted}, because helm can't \
         rename or move a release, and would install a second one with new, empty volume claims; {remedies}, or, to \
         start over with an empty {wanted}, first set the service's `enabled` to false, wait until the operator has uninstalled \
         {actual}, and then set `enabled` to true"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::desired::select;
    use crate::observed::{Attempt, Liveness, RecordBody};

    fn catalog() -> Catalog {
        Catalog::load(&crate::testing::files(&[])).unwrap()
    }

    /// Returns a release of the chart `chart` that osdpl installed. `label` is the release's catalogue name in the
    /// label of helm's record.
    fn installed_release(label: Option<&str>, chart: &str) -> ObservedRelease {
        ObservedRelease {
            status: Status::Deployed,
            revision: 1,
            release: label.map(Into::into),
            attempt: Some(Attempt { label: "me".into(), revision: 1, owner: Liveness::Us }),
            body: Some(RecordBody { chart: chart.into(), ..RecordBody::default() }),
            ..ObservedRelease::default()
        }
    }

    fn key(text: &str) -> ReleaseKey {
        let (namespace, name) = text.split_once('/').unwrap();
        ReleaseKey::new(namespace, name)
    }

    /// Calls `reject_moves` for a spec with these `services`. `installed` contains the `namespace/name` and the
    /// catalogue name of each installed helm release. Returns the message about each refused change, and each release's
    /// namespace and name without the refused changes.
    fn refusals(
        services: &Value,
        installed: &[(&str, &str)],
    ) -> (BTreeMap<String, String>, BTreeMap<String, ReleaseKey>) {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "services": services});
        let (spec, catalog) = (serde_json::from_value(spec).unwrap(), catalog());
        let selection = select("cloud", "openstack", &spec, &catalog);
        let releases = installed.iter().map(|(at, release)| (key(at), installed_release(Some(release), release)));
        let owned = installed.iter().map(|(at, _)| key(at)).collect();
        let observed = Observed { releases: releases.collect(), owned, ..Observed::default() };
        let Some(anchored) = reject_moves(&selection, &spec, &catalog, &observed) else {
            return (BTreeMap::new(), selection.releases);
        };
        let selection = select("cloud", "openstack", &anchored.spec, &catalog);
        (anchored.refused.into_iter().map(|(name, blocked)| (name, blocked.message)).collect(), selection.releases)
    }

    #[test]
    fn identifies_by_label_then_chart_then_spec_then_name() {
        let catalog = catalog();
        let names = BTreeMap::from([(key("openstack/one"), "front".to_owned())]);
        let identify = |text: &str, record: ObservedRelease| {
            identify_release(&key(text), &record, &names, &catalog).unwrap_or_default()
        };
        assert_eq!(identify("openstack/one", installed_release(Some("store"), "front")), "store");
        assert_eq!(identify("openstack/one", installed_release(Some("of-another-catalogue"), "store")), "store");
        assert_eq!(identify("openstack/one", installed_release(None, "unknown")), "front");
        assert_eq!(identify("edge/store", installed_release(None, "unknown")), "store");
        assert_eq!(identify("edge/three", installed_release(None, "unknown")), "");
    }

    #[test]
    fn refuses_to_rename_an_installed_release() {
        let installed = [("openstack/store", "store"), ("openstack/front", "front")];
        assert_eq!(refusals(&json!({}), &installed).0, BTreeMap::new());
        let (refused, releases) = refusals(&json!({"store": {"releases": {"store": {"name": "base"}}}}), &installed);
        assert_eq!(refused.keys().collect::<Vec<_>>(), ["store"]);
        assert_eq!(releases["store"], key("openstack/store"));
        let message = &refused["store"];
        assert!(message.starts_with("spec.services.store.releases.store.name: store is installed as"), "{message}");
        assert!(message.contains("openstack/store and can't become openstack/base"), "{message}");
        assert!(message.contains("remove name"), "{message}");
        let both = json!({"store": {"releases": {"store": {"name": "base", "namespace": "data"}}}});
        assert!(refusals(&both, &installed).0["store"].contains("remove namespace and remove name"));
    }

    #[test]
    fn refuses_to_drop_or_change_the_name_of_a_release() {
        let installed = [("data/base", "store")];
        let message = &refusals(&json!({}), &installed).0["store"];
        assert!(message.contains("set namespace to data and set name to base"), "{message}");
        let other = json!({"store": {"releases": {"store": {"name": "other", "namespace": "data"}}}});
        assert!(refusals(&other, &installed).0["store"].contains("set name to base"));
        let same = json!({"store": {"releases": {"store": {"name": "base", "namespace": "data"}}}});
        assert_eq!(refusals(&same, &installed).0, BTreeMap::new());
    }

    #[test]
    fn the_catalogue_namespace_applies_unless_the_spec_sets_one() {
        let store = crate::testing::files(&[])["values/services/store.yaml"].clone();
        let store = store.as_written().replace("  store:\n", "  store:\n    namespace: data\n");
        let catalog = Catalog::load(&crate::testing::files(&[("values/services/store.yaml", &store)])).unwrap();
        let selected = |services: Value| {
            let spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "services": services});
            let spec: OpenStackDeploymentSpec = serde_json::from_value(spec).unwrap();
            let selection = select("cloud", "openstack", &spec, &catalog);
            (selection, spec)
        };
        let (selection, _) = selected(json!({}));
        assert_eq!(selection.releases["store"], key("data/store"));
        assert_eq!(selection.releases["front"], key("openstack/front"));
        assert_eq!(selection.scope.variable("releases").unwrap()["store"]["namespace"], "data");
        let (selection, spec) = selected(json!({"store": {"releases": {"store": {"namespace": "mine"}}}}));
        assert_eq!(selection.releases["store"], key("mine/store"));
        let releases = [(key("data/store"), installed_release(Some("store"), "store"))].into();
        let owned = [key("data/store")].into();
        let mut observed = Observed { releases, owned, ..Observed::default() };
        let message = &reject_moves(&selection, &spec, &catalog, &observed).unwrap().refused["store"].message;
        assert!(message.contains("; remove namespace, or, to start over"), "{message}");
        observed.owned.clear();
        assert!(
            reject_moves(&selection, &spec, &catalog, &observed).is_none(),
            "osdpl ignores the record of a release that does not belong to the cloud"
        );
    }

    #[test]
    fn refuses_the_name_of_another_installed_release() {
        let base = json!({"store": {"releases": {"store": {"name": "base"}}}});
        assert_eq!(refusals(&base, &[("openstack/front", "front")]).0, BTreeMap::new());
        let over = json!({"store": {"enabled": false}, "front": {"releases": {"front": {"name": "store"}}}});
        let (refused, _) = refusals(&over, &[("openstack/store", "store")]);
        let expected = "front can't become helm release openstack/store, because store is already installed";
        assert!(refused["front"].contains(expected), "{refused:?}");
    }

    #[test]
    fn ignores_foreign_and_uninstalled_releases() {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        let (spec, catalog) = (serde_json::from_value(spec).unwrap(), catalog());
        let selection = select("cloud", "openstack", &spec, &catalog);
        let foreign = ObservedRelease { attempt: None, ..installed_release(Some("store"), "store") };
        let uninstalled = ObservedRelease { status: Status::Uninstalled, ..installed_release(Some("front"), "front") };
        let releases: BTreeMap<_, _> = [(key("data/store"), foreign), (key("data/front"), uninstalled)].into();
        let owned = releases.keys().cloned().collect();
        let observed = Observed { releases, owned, ..Observed::default() };
        assert!(reject_moves(&selection, &spec, &catalog, &observed).is_none());
    }
}
