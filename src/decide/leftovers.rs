//! What a cloud leaves when it goes: what was its own, and what releases may live on that stay.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::known;
use super::store;
use osdpl_core::catalog::{Catalog, Release};
use osdpl_core::ceph::{self, Object};
use osdpl_core::credentials::secret_name;
use osdpl_core::desired::Selection;
use osdpl_core::observed::{ObservedRelease, ReleaseKey};

/// What an uninstall of a cloud leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// The releases that were there, and were ours.
    pub releases: BTreeSet<ReleaseKey>,
    /// Those that are there and are not ours.
    pub stay: BTreeSet<ReleaseKey>,
    /// Our Secrets with the credentials of services of which a release stays.
    pub credentials: BTreeSet<String>,
    /// Secrets that upstream keeps, as (namespace, name).
    pub secrets: BTreeSet<(String, String)>,
    /// What the pods of releases that stay may live on.
    pub needed: Needed,
}

/// What the operator made beside helm and does not take away, because pods may live on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Whose pods.
    pub releases: BTreeSet<ReleaseKey>,
    /// Whether they may choose nodes by the labels of roles.
    pub labels: bool,
    /// Services that lead outside, as (namespace, name).
    pub external: BTreeSet<(String, String)>,
    /// What they may mount of Ceph's, by name.
    pub ceph: Vec<Object>,
    /// Whether Ceph's object store belongs to what stays.
    pub store: bool,
}

/// The cloud's own releases, and those of its names that are not its own: let go, or made by others and never taken over. Which of both no record
/// tells, so nothing of theirs is touched, and what their pods may live on stays with them.
pub fn leftovers(
    selection: &Selection,
    releases: &BTreeMap<ReleaseKey, ObservedRelease>,
    catalog: &Catalog,
) -> Leftovers {
    let mut left = Leftovers::default();
    let mut living = BTreeMap::new();
    for (key, name) in known(selection) {
        let found = catalog.release(&name);
        if let Some(seen) = releases.get(&key).filter(|seen| !seen.is_ours()) {
            left.credentials.extend(found.map(|(service, _)| secret_name(&selection.name, service)));
            living.extend(found.filter(|(_, release)| is_of_the_cloud(release, seen)).map(|_| (name, key.clone())));
            left.stay.insert(key);
            continue;
        }
        let secrets = found.map(|(_, release)| release.kept_secrets.as_slice()).unwrap_or_default();
        left.secrets.extend(secrets.iter().map(|secret| (key.namespace.clone(), secret.clone())));
        left.releases.insert(key);
    }
    left.needed = needed(selection, &living, catalog);
    left
}

/// Whether its pods may live on what the operator made: what has a namespace of its own, such as cert-manager or Rook, serves whole clusters and
/// knows nothing of a cloud; another chart under the same name neither, and what was uninstalled has no pods.
fn is_of_the_cloud(release: &Release, seen: &ObservedRelease) -> bool {
    let is_another = seen.body.as_ref().is_some_and(|body| !body.chart.is_empty() && body.chart != release.chart);
    release.namespace.is_none() && seen.status != "uninstalled" && !is_another
}

fn needed(selection: &Selection, living: &BTreeMap<String, ReleaseKey>, catalog: &Catalog) -> Needed {
    let namespaces: BTreeMap<&str, &str> =
        living.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str())).collect();
    let releases = living.keys().filter_map(|name| Some(catalog.release(name)?.1));
    let needs = releases.flat_map(|release| release.needs.iter().chain(&release.waits_for));
    let services = needs.filter_map(|need| Some(catalog.provider(&need.component)?.0));
    let external = services.filter_map(|service| selection.external.get(service));
    let gateways = store::held(selection, &namespaces);
    Needed {
        releases: living.values().cloned().collect(),
        labels: !living.is_empty(),
        external: external.map(|external| (external.namespace.clone(), external.service.clone())).collect(),
        store: !gateways.is_empty(),
        ceph: ceph::mountable_objects(&namespaces).into_iter().chain(gateways).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::api::OpenStackDeploymentSpec;
    use osdpl_core::desired::select;
    use osdpl_core::observed::RecordBody;
    use osdpl_core::testing::world::seen;

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey::new("openstack", name)
    }

    fn foreign(status: &str) -> ObservedRelease {
        ObservedRelease { attempt: None, own_inputs: None, ..seen(status) }
    }

    fn catalog(files: &[(&str, &str)]) -> Catalog {
        Catalog::load(&osdpl_core::testing::files(files)).unwrap()
    }

    fn left(spec: &serde_json::Value, releases: &[(ReleaseKey, ObservedRelease)], catalog: &Catalog) -> Leftovers {
        let spec: OpenStackDeploymentSpec = serde_json::from_value(spec.clone()).unwrap();
        let selection = select("nimbus", "openstack", &spec, catalog);
        leftovers(&selection, &releases.iter().cloned().collect(), catalog)
    }

    #[test]
    fn what_is_not_ours_stays_with_its_jobs_claims_and_credentials() {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        let all = |releases: &[(ReleaseKey, ObservedRelease)]| left(&spec, releases, &catalog(&[]));
        assert_eq!(all(&[]).releases, [key("front"), key("store")].into(), "what is gone was ours");
        let found = all(&[(key("store"), foreign("deployed"))]);
        assert_eq!((found.releases, found.stay), ([key("front")].into(), [key("store")].into()));
        assert_eq!(found.credentials, ["nimbus-credentials-store".to_owned()].into());
        assert!(found.needed.labels && found.needed.releases == [key("store")].into(), "{:?}", found.needed);
    }

    #[test]
    fn what_serves_a_whole_cluster_was_uninstalled_or_is_another_chart_holds_nothing_back() {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        let certificates = "service: certificates\ndescription: x\ngroup: infra\nreleases:\n  cert-manager:\n    namespace: cert-manager\n    components: {}\n";
        let lock = "charts:\n  front: {version: 1.0.0}\n  store: {version: 1.0.0}\n  cert-manager: {version: 1.0.0}\n";
        let catalog = catalog(&[("values/services/certificates.yaml", certificates), ("values/lock.yaml", lock)]);
        let another = RecordBody { chart: "shop".into(), ..RecordBody::default() };
        for (key, seen) in [
            (ReleaseKey::new("cert-manager", "cert-manager"), foreign("deployed")),
            (key("store"), foreign("uninstalled")),
            (key("store"), ObservedRelease { body: Some(another), ..foreign("deployed") }),
        ] {
            let found = left(&spec, &[(key.clone(), seen)], &catalog);
            assert_eq!((found.stay, found.needed), ([key].into(), Needed::default()), "and nothing of it is purged");
        }
    }

    #[test]
    fn a_service_outside_stays_while_what_needs_it_does() {
        let spec = json!({
            "openstackRelease": "2026.1", "presets": ["small"],
            "services": {"store": {"external": {"host": "10.0.0.1"}}},
        });
        let catalog = catalog(&[]);
        assert_eq!(left(&spec, &[], &catalog).needed, Needed::default());
        let found = left(&spec, &[(key("front"), foreign("deployed"))], &catalog);
        assert_eq!(found.needed.external, [("openstack".to_owned(), "store".to_owned())].into());
        assert_eq!(found.needed.ceph, [], "front mounts nothing of it");
    }

    #[test]
    fn gateways_that_stay_keep_what_they_ask_keystone_with() {
        let ceph =
            json!({"mode": "external", "secret": {"name": "ceph"}, "objectStore": {"acceptedRoles": ["member"]}});
        let storage = json!({"backend": "ceph", "ceph": ceph});
        let spec = json!({
            "openstackRelease": "2026.1", "presets": ["compute"], "features": {"storage": storage},
            "services": {"ceph_rgw": {"enabled": true}},
        });
        let catalog = osdpl_core::files::load_catalog(None).unwrap();
        let names = |release: &str| {
            let needed = left(&spec, &[(key(release), foreign("deployed"))], &catalog).needed;
            (needed.store, needed.ceph.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (stays, objects) = names("ceph-rgw");
        assert!(stays && objects.len() == 2, "{objects:?}");
        let (stays, objects) = names("glance");
        assert!(!stays && objects.contains(&"Secret openstack/images-rbd-keyring".to_owned()), "{objects:?}");
        assert!(!objects.contains(&"Secret openstack/nova-rbd-keyring".to_owned()), "{objects:?}");
        assert_eq!(names("heat"), (false, Vec::new()));
    }
}
