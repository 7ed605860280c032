//! Finds the objects that remain after all releases of a deleted cloud are uninstalled.
//!
//! osdpl deletes these objects, unless a release that osdpl does not manage may need them. It deletes volume claims and
//! other data only with `deletionPolicy: Purge`. If a cloud that is not being deleted no longer uses an object that
//! osdpl wrote, osdpl follows the same rule for this object.

use std::collections::{BTreeMap, BTreeSet};

use super::needed::Needed;
use super::requests::Reference;
use super::selection::release_names;
use osdpl_core::api::ValuesKind;
use osdpl_core::catalog::{Catalog, Release};
use osdpl_core::ceph;
use osdpl_core::credentials::secret_name;
use osdpl_core::desired::Selection;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::release::Status;
use osdpl_values::CollectSorted;

/// The objects that remain in the cluster after all releases of a cloud are uninstalled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers {
    /// The releases of the cloud whose remaining objects osdpl deletes.
    pub(crate) releases: BTreeSet<ReleaseKey>,
    /// The releases that osdpl does not manage, but that have the namespace and name that the cloud's spec gives a
    /// release of the catalogue.
    pub(crate) foreign: BTreeSet<ReleaseKey>,
    /// The names of the credential Secrets that osdpl keeps: the Secret of a service stays if the field `foreign`
    /// contains at least one release of the service.
    pub(crate) credentials: BTreeSet<String>,
    /// The Secrets and ConfigMaps that remain after helm has uninstalled `releases`.
    pub(crate) kept: BTreeSet<Reference>,
    /// The objects that osdpl does not delete, because pods of releases that osdpl does not manage may need them.
    pub(crate) needed: Needed,
}

/// Returns the objects that remain when osdpl has uninstalled the releases that it manages.
///
/// A release of the catalogue can be installed although osdpl does not manage it: either a person made osdpl stop
/// managing the release, or another tool installed it. The release records do not show which of these two cases
/// applies. In both cases, the release continues to run, so osdpl deletes none of its objects, and keeps the objects
/// that its pods may need.
///
/// osdpl also keeps all objects of a release that the status of the OpenStackDeployment does not list. Such a release
/// never belonged to the cloud; it only has the namespace and name of a release in the catalogue.
pub(crate) fn leftovers(selection: &Selection, observed: &Observed, catalog: &Catalog) -> Leftovers {
    let mut left = Leftovers::default();
    let mut foreign = BTreeMap::new();
    let names = release_names(selection);
    for (key, name) in names.clone() {
        let found = catalog.release(&name);
        if let Some(existing) = observed.releases.get(&key).filter(|existing| !existing.is_ours()) {
            left.credentials.extend(found.map(|(service, _)| secret_name(&selection.name, service)));
            foreign.extend(found.filter(|(_, release)| may_use_cloud(release, existing)).map(|_| (name, key.clone())));
            left.foreign.insert(key);
            continue;
        }
        if !observed.owned.contains(&key) {
            continue;
        }
        left.kept.extend(found.into_iter().flat_map(|(_, release)| kept(release, &key)));
        left.releases.insert(key);
    }
    if !foreign.is_empty() {
        left.needed = needed(selection, &foreign, &names, catalog);
    }
    left
}

/// Returns the Secrets and ConfigMaps that remain after helm has uninstalled a release. `key` contains the namespace
/// and name of the release.
fn kept<'a>(release: &'a Release, key: &'a ReleaseKey) -> impl Iterator<Item = Reference> + use<'a> {
    let secrets = release.kept_secrets.iter().map(|name| Reference::secret(&key.namespace, name));
    let maps = release.kept_config_maps.iter().map(|name| Reference {
        kind: ValuesKind::ConfigMap,
        namespace: key.namespace.clone(),
        name: name.replace("${release.name}", &key.name),
    });
    secrets.chain(maps)
}

/// Returns whether the pods of a release that osdpl does not manage possibly use objects of the cloud.
///
/// In three cases, the pods certainly use no objects of the cloud:
///
/// * The catalogue gives the release a namespace of its own, as for cert-manager and Rook, which serve the whole
///   cluster.
/// * The chart of the release differs from the chart that the catalogue names for a release of this name.
/// * The release is uninstalled and has no pods.
fn may_use_cloud(release: &Release, existing: &ObservedRelease) -> bool {
    let is_another = existing.body.as_ref().is_some_and(|body| !body.chart.is_empty() && body.chart != release.chart);
    release.namespace.is_none() && existing.status != Status::Uninstalled && !is_another
}

/// Returns the objects that osdpl wrote and that it must keep, because pods of the releases in `foreign` may need them.
/// osdpl does not manage these releases. `names` contains the catalogue name of each release, by namespace and name.
fn needed(
    selection: &Selection,
    foreign: &BTreeMap<String, ReleaseKey>,
    names: &BTreeMap<ReleaseKey, String>,
    catalog: &Catalog,
) -> Needed {
    let namespaces: BTreeMap<&str, &str> =
        foreign.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str())).collect_map();
    let releases = foreign.keys().filter_map(|name| Some(catalog.release(name)?.1));
    let needs = releases.flat_map(|release| release.needs.iter().chain(&release.waits_for));
    let services = needs.filter_map(|need| catalog.services.get(catalog.provider(&need.component)?.0));
    let external = services.filter_map(|service| {
        let release = service.releases.keys().next()?;
        // Skip a service whose release osdpl installs: the release's chart creates the Kubernetes Service. So osdpl has
        // created no Kubernetes Service for an external service in its place.
        if selection.releases.contains_key(release) {
            return None;
        }
        let (key, _) = names.iter().find(|(_, name)| *name == release)?;
        Some(ReleaseKey::new(&key.namespace, &service.external.as_ref()?.service))
    });
    let gateways = super::ceph::used_by_foreign(selection, &namespaces);
    Needed {
        releases: foreign.values().cloned().collect_set(),
        labels: true,
        external: external.collect_set(),
        store: !gateways.is_empty(),
        ceph: ceph::mountable_objects(&namespaces).into_iter().chain(gateways).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::sync::Arc;

    use super::*;
    use crate::action::{Action, Planned};
    use crate::requests::{Read, Received, Response};
    use crate::snapshot::Snapshot;
    use crate::tests::complete;
    use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeploymentSpec};
    use osdpl_core::desired::select;
    use osdpl_core::observed::RecordBody;
    use osdpl_core::testing::observed_release;

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey::new("openstack", name)
    }

    fn foreign(status: Status) -> ObservedRelease {
        ObservedRelease { attempt: None, own_inputs: None, ..observed_release(status) }
    }

    fn catalog(files: &[(&str, &str)]) -> Catalog {
        Catalog::load(&osdpl_core::testing::files(files)).unwrap()
    }

    fn left(spec: &serde_json::Value, releases: &[(ReleaseKey, ObservedRelease)], catalog: &Catalog) -> Leftovers {
        let spec: OpenStackDeploymentSpec = serde_json::from_value(spec.clone()).unwrap();
        let selection = select("nimbus", "openstack", &spec, catalog);
        let owned = selection.releases.values().cloned().collect();
        leftovers(
            &selection,
            &Observed { releases: releases.iter().cloned().collect(), owned, ..Observed::default() },
            catalog,
        )
    }

    #[test]
    fn keeps_data_of_foreign_releases() {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        let all = |releases: &[(ReleaseKey, ObservedRelease)]| left(&spec, releases, &catalog(&[]));
        assert_eq!(
            all(&[]).releases,
            [key("front"), key("store")].into(),
            "releases that the status names belong to the cloud, even without a record"
        );
        let found = all(&[(key("store"), foreign(Status::Deployed))]);
        assert_eq!((found.releases, found.foreign), ([key("front")].into(), [key("store")].into()));
        assert_eq!(found.credentials, ["nimbus-credentials-store".to_owned()].into());
        assert!(found.needed.labels && found.needed.releases == [key("store")].into(), "{:?}", found.needed);
    }

    #[test]
    fn keeps_data_of_releases_that_the_status_does_not_name() {
        let spec = serde_json::from_value(json!({"openstackRelease": "2026.1", "presets": ["small"]})).unwrap();
        let catalog = catalog(&[]);
        let selection = select("nimbus", "openstack", &spec, &catalog);
        let observed = Observed { owned: [key("front")].into(), ..Observed::default() };
        let found = leftovers(&selection, &observed, &catalog);
        assert_eq!(found.releases, [key("front")].into(), "the claims of store are not deleted");
    }

    #[test]
    fn purge_asks_only_for_claims_of_releases_that_the_status_names() {
        let mut snapshot = crate::tests::snapshot(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"deletionPolicy": "Purge"}, "status": {"ownedReleases": ["openstack/front"]},
        }));
        let reads = complete(&mut snapshot).requests.reads;
        let claims: Vec<Read> = reads.into_iter().filter(|read| matches!(read, Read::Claims(_))).collect();
        assert_eq!(claims, [Read::Claims(key("front"))]);
    }

    #[test]
    fn keeps_nothing_for_releases_that_use_no_cloud() {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        let certificates = "service: certificates\ndescription: x\ngroup: infra\nreleases:\n  cert-manager:\n    namespace: cert-manager\n    components: {}\n";
        let lock = "charts:\n  front: {version: 1.0.0}\n  store: {version: 1.0.0}\n  cert-manager: {version: 1.0.0}\n";
        let catalog = catalog(&[("values/services/certificates.yaml", certificates), ("values/lock.yaml", lock)]);
        let another = RecordBody { chart: "shop".into(), ..RecordBody::default() };
        for (key, existing) in [
            (ReleaseKey::new("cert-manager", "cert-manager"), foreign(Status::Deployed)),
            (key("store"), foreign(Status::Uninstalled)),
            (key("store"), ObservedRelease { body: Some(another), ..foreign(Status::Deployed) }),
        ] {
            let found = left(&spec, &[(key.clone(), existing)], &catalog);
            assert_eq!(
                (found.foreign, found.needed),
                ([key].into(), Needed::default()),
                "osdpl purges no data of the release, and keeps no object for it"
            );
        }
    }

    #[test]
    fn keeps_an_external_service_that_a_release_needs() {
        let spec = json!({
            "openstackRelease": "2026.1", "presets": ["small"],
            "services": {"store": {"external": {"host": "10.0.0.1"}}},
        });
        let catalog = catalog(&[]);
        assert_eq!(left(&spec, &[], &catalog).needed, Needed::default());
        let found = left(&spec, &[(key("front"), foreign(Status::Deployed))], &catalog);
        assert_eq!(found.needed.external, [key("store")].into());
        assert_eq!(found.needed.ceph, [], "front mounts no object for Ceph");
    }

    /// Returns the objects that a pass deletes. `observed` contains the name and state of the only release in the
    /// cluster; `None` if the cluster has no release.
    fn deleted(mut snapshot: Snapshot, observed: Option<(&str, ObservedRelease)>) -> Vec<String> {
        snapshot.observed.releases = observed.into_iter().map(|(name, release)| (key(name), release)).collect();
        let plan = complete(&mut snapshot);
        let is_delete = |planned: &&Planned| matches!(planned.action, Action::Delete { .. });
        plan.actions.iter().filter(is_delete).map(|planned| planned.action.to_string()).collect()
    }

    /// Returns the catalogue of the tests with one more service, glance.
    fn with_glance() -> Catalog {
        let glance = "service: glance\ndescription: x\ngroup: openstack\nreleases:\n  glance:\n    components: {}\n";
        let lock = "charts:\n  front: {version: 1.0.0}\n  store: {version: 1.0.0}\n  glance: {version: 1.0.0}\n";
        catalog(&[("values/services/glance.yaml", glance), ("values/lock.yaml", lock)])
    }

    #[test]
    fn a_pass_keeps_the_external_service_of_a_detached_release() {
        let snapshot_with = |store: bool| {
            let services = json!({
                "front": {"enabled": false}, "store": {"enabled": store}, "glance": {"enabled": true},
            });
            let mut snapshot = crate::tests::snapshot(json!({"spec": {"services": services}}));
            snapshot.catalog = Arc::new(with_glance());
            let response = Response::Objects(vec![(key("store"), "1".into())]);
            let received = Received { response, at: snapshot.now, fresh: true };
            snapshot.responses.insert(Read::OwnServices, received);
            snapshot
        };
        let snapshot = || snapshot_with(false);
        assert_eq!(deleted(snapshot(), None), ["delete Service openstack/store"]);
        assert_eq!(deleted(snapshot(), Some(("front", foreign(Status::Deployed)))), [""; 0]);
        assert_eq!(
            deleted(snapshot_with(true), Some(("front", foreign(Status::Deployed)))),
            ["delete Service openstack/store"],
            "the chart of store creates this Service"
        );
        assert_eq!(
            deleted(snapshot(), Some(("front", foreign(Status::Uninstalled)))),
            ["delete Service openstack/store"]
        );
    }

    /// The value of the label `osdpl.dev/deployment` on the objects of the tests' cloud.
    const OWNER: &str = "openstack.nimbus";

    /// The value of the label `osdpl.dev/deployment` on the objects of a second cloud. It has the same name as the
    /// cloud of [`OWNER`], but is in another namespace. Releases of both clouds can be in the same namespace.
    const OTHER_OWNER: &str = "other.nimbus";

    /// Adds a Secret of the cloud `owner` to the snapshot: a Secret for Ceph, or one in which osdpl stores credentials.
    fn insert_secret(snapshot: &mut Snapshot, name: &str, owner: &str, is_for_ceph: bool) {
        let mut labels = json!({DEPLOYMENT_LABEL: owner});
        if is_for_ceph {
            let (component, value) = crate::ceph::CEPH_COMPONENT;
            labels[component] = json!(value);
        }
        let secret = json!({"metadata": {"name": name, "namespace": "openstack", "labels": labels}});
        snapshot.objects.secrets.insert(key(name), Arc::new(serde_json::from_value(secret).unwrap()));
    }

    #[test]
    fn purge_deletes_only_secrets_of_the_cloud() {
        let mut snapshot = crate::tests::snapshot(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"deletionPolicy": "Purge"},
        }));
        insert_secret(&mut snapshot, "nimbus-credentials-front", OWNER, false);
        insert_secret(&mut snapshot, "nimbus-credentials-store", OTHER_OWNER, false);
        insert_secret(&mut snapshot, "images-rbd-keyring", OWNER, true);
        insert_secret(&mut snapshot, "nova-rbd-keyring", OTHER_OWNER, true);
        let ours = ["delete Secret openstack/images-rbd-keyring", "delete Secret openstack/nimbus-credentials-front"];
        assert_eq!(deleted(snapshot, None), ours);
    }

    #[test]
    fn a_pass_keeps_the_ceph_objects_of_a_detached_release() {
        let snapshot = || {
            let mut snapshot = crate::tests::snapshot(json!({"spec": {"services": {"front": {"enabled": false}}}}));
            snapshot.catalog = Arc::new(with_glance());
            insert_secret(&mut snapshot, "images-rbd-keyring", OWNER, true);
            insert_secret(&mut snapshot, "nova-rbd-keyring", OWNER, true);
            insert_secret(&mut snapshot, "volumes-rbd-keyring", OTHER_OWNER, true);
            snapshot
        };
        let all = ["delete Secret openstack/images-rbd-keyring", "delete Secret openstack/nova-rbd-keyring"];
        assert_eq!(deleted(snapshot(), None), all);
        assert_eq!(deleted(snapshot(), Some(("glance", foreign(Status::Deployed)))), all[1..]);
        assert_eq!(deleted(snapshot(), Some(("glance", foreign(Status::Uninstalled)))), all);
    }

    #[test]
    fn keeps_the_keystone_access_of_gateways() {
        let ceph =
            json!({"mode": "external", "secret": {"name": "ceph"}, "objectStore": {"acceptedRoles": ["member"]}});
        let storage = json!({"backend": "ceph", "ceph": ceph});
        let spec = json!({
            "openstackRelease": "2026.1", "presets": ["compute"], "features": {"storage": storage},
            "services": {"ceph_rgw": {"enabled": true}},
        });
        let catalog = osdpl_core::files::load_catalog(None).unwrap();
        let names = |release: &str| {
            let needed = left(&spec, &[(key(release), foreign(Status::Deployed))], &catalog).needed;
            (needed.store, needed.ceph.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (uses_store, objects) = names("ceph-rgw");
        assert!(uses_store && objects.len() == 2, "{objects:?}");
        let (uses_store, objects) = names("glance");
        assert!(!uses_store && objects.contains(&"Secret openstack/images-rbd-keyring".to_owned()), "{objects:?}");
        assert!(!objects.contains(&"Secret openstack/nova-rbd-keyring".to_owned()), "{objects:?}");
        assert_eq!(names("heat"), (false, Vec::new()));
    }
}
