//! The operator installs every OpenStack service from the charts of OpenStack-Helm. It has only the rights that osdpl's
//! own chart grants. Volumes, images and shares are on Ceph; services have three replicas.

mod other_projects;
mod selection;

use std::collections::BTreeSet;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use osdpl_core::api::{HelmReleaseStatus, OpenStackDeployment, OpenStackDeploymentStatus};
use osdpl_core::catalog::Catalog;
use serde_json::{Map, Value, json};

use crate::ceph::{NEWER, SECRET, SHARES};
use crate::cloud::StatusAccess;
use crate::world::{World, run_test, with_timeout};

/// The settings in which the test clouds differ.
struct CloudSettings {
    /// The major version of helm that the operator runs.
    helm: u8,
    /// The OpenStack release of the cloud, such as `2026.1`.
    openstack: &'static str,
    /// The service that provides the object store: `ceph_rgw` or `swift`. A cloud can have only one of the two.
    object_store: &'static str,
    /// The network backend: `ovs` or `ovn`.
    network: &'static str,
    /// The services that get a separate RabbitMQ from the feature `messaging`.
    dedicated: &'static [&'static str],
}

/// The test clouds: one for each OpenStack release, each with different settings.
const CLOUDS: [CloudSettings; 3] = [
    CloudSettings { helm: 3, openstack: "2025.1", object_store: CEPH_RGW, network: "ovs", dedicated: &[] },
    CloudSettings {
        helm: 4,
        openstack: "2025.2",
        object_store: CEPH_RGW,
        network: "ovn",
        dedicated: &["cinder", "neutron", "nova"],
    },
    CloudSettings { helm: 4, openstack: "2026.1", object_store: SWIFT, network: "ovs", dedicated: &[] },
];

const SWIFT: &str = "swift";

/// The service for Ceph's object store. The store's gateways run outside of the cluster, so the release of this service
/// has only Jobs that register the gateways' endpoints in Keystone.
const CEPH_RGW: &str = "ceph_rgw";

/// The custom resource kinds of other projects. OpenStack-Helm's charts create objects of these kinds. Each entry
/// contains the group, the plural, the kind, and whether the kind is namespaced.
const KINDS: [(&str, &str, &str, bool); 3] = [
    ("gateway.networking.k8s.io", "httproutes", "HTTPRoute", true),
    ("cert-manager.io", "issuers", "Issuer", true),
    ("cert-manager.io", "clusterissuers", "ClusterIssuer", false),
];

/// Returns the folder of upstream's charts, as set in the environment variable `CHARTS`.
fn charts() -> PathBuf {
    let folder = std::env::var_os("CHARTS").filter(|folder| !folder.is_empty());
    PathBuf::from(folder.expect("CHARTS is not set: this test needs OpenStack-Helm's charts; set it to their folder"))
}

/// Returns the shipped catalogue.
fn shipped() -> Catalog {
    osdpl_core::files::load_catalog(None).unwrap()
}

impl CloudSettings {
    /// Returns the settings of the test cloud with this OpenStack release.
    fn of(openstack: &str) -> &'static Self {
        CLOUDS.iter().find(|settings| settings.openstack == openstack).unwrap()
    }

    /// Returns the services of the cloud. These are all services of the catalogue except the services that no test
    /// cloud installs, and except the object store that this cloud does not use.
    fn services(&self, catalog: &Catalog) -> BTreeSet<String> {
        let other = if self.object_store == CEPH_RGW { SWIFT } else { CEPH_RGW };
        let is_in = |name: &&String| *name != other && !selection::is_excluded(catalog, name);
        catalog.services.keys().filter(is_in).cloned().collect()
    }

    /// Returns the spec of the cloud: three presets, all services, and the features that the settings choose.
    fn spec(&self, catalog: &Catalog) -> Value {
        let services = self.services(catalog).into_iter();
        let services: Map<_, _> = services.map(|name| (name, json!({"enabled": true}))).collect();
        let mut ceph = json!({"mode": "external", "secret": {"name": SECRET}});
        if self.object_store == CEPH_RGW {
            ceph["objectStore"] = json!({});
        }
        json!({
            "openstackRelease": self.openstack, "presets": ["compute", "storage", "ha"], "publicDomain": "cloud.example.org", "services": services,
            "features": {
                "storage": {"backend": "ceph", "ceph": ceph},
                "network": {"backend": self.network},
                "messaging": {"dedicated": self.dedicated},
                "publicEndpoints": {"enabled": true, "gateway": {"name": "public", "namespace": "gateways"}},
            },
        })
    }
}

/// Returns the number of steps that a release has completed, from 0 to 3: helm has started, helm has deployed the
/// release, and its workloads are ready.
fn steps(child: &HelmReleaseStatus) -> usize {
    let helm = match child.status.as_str() {
        "deployed" => 2,
        "absent" | "waiting" => 0,
        _ => 1,
    };
    helm + usize::from(child.ready)
}

impl World {
    /// Creates the CRDs of other projects, but installs none of their controllers.
    async fn create_crds(&self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        for (group, plural, kind, is_namespaced) in KINDS {
            let name = format!("{plural}.{group}");
            let approval =
                json!({"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/4"});
            let singular = kind.to_lowercase();
            let definition = json!({
                "metadata": {"name": name, "annotations": approval},
                "spec": {
                    "group": group, "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
                    "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List")},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
                },
            });
            api.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
            let served = await_condition(api.clone(), &name, conditions::is_crd_established());
            with_timeout(&format!("{name} are served"), served).await.unwrap();
        }
    }

    /// Deletes the CRDs of other projects, because later tests on this control plane do not expect them.
    async fn delete_crds(&self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for (group, plural, _, _) in KINDS {
            drop(api.delete(&format!("{plural}.{group}"), &DeleteParams::default()).await.unwrap());
        }
    }

    /// Waits until the cloud is Ready. The timeout starts again whenever a release makes progress, so that the test
    /// does not fail on a slow machine.
    pub async fn until_ready_with_progress(&self) -> OpenStackDeployment {
        let mut steps_before = 0;
        loop {
            let has_progress = |cloud: &OpenStackDeployment| {
                let steps = cloud.status().children.values().map(steps).sum();
                (cloud.is_ready() || steps > steps_before).then(|| (cloud.clone(), steps))
            };
            let (cloud, steps) =
                self.until(&format!("the releases have completed more than {steps_before} steps"), has_progress).await;
            if cloud.is_ready() {
                return cloud;
            }
            steps_before = steps;
        }
    }
}

/// Installs a cloud and checks that the operator needs exactly one helm run for each release.
fn install_cloud(name: &str, settings: &CloudSettings) {
    let (charts, catalog) = (charts(), shipped());
    run_test(name, async |world| {
        world.create_crds().await;
        let granted = selection::granted(&settings.services(&catalog));
        world.grant_rights(&granted.iter().map(String::as_str).collect::<Vec<_>>(), false);
        let keys = json!({
            "manila.key": SHARES, "manila.pool": "shares", "nova.key": NEWER, "nova.pool": "vms", "gnocchi.key": SHARES, "gnocchi.pool": "metrics",
            "rgw_internal": "http://rgw.example.org:7480",
        });
        world.describe_ceph(keys).await;
        // Disable the operator's probes of service APIs, because no program listens in simulated pods.
        let setup = world.operator().helm(settings.helm).charts(&charts);
        let operator = setup.arguments(&["--probes", "false"]).start().await;
        world.apply(&settings.spec(&catalog)).await;
        let status = world.until_ready_with_progress().await.status();

        world.check_single_revision(&status);
        settings.check_complete(&catalog, &status);

        assert!(operator.stop().await.success());
        world.grant_rights(&[], false);
        world.delete_crds().await;
    });
}

impl CloudSettings {
    /// Checks that the status lists every desired release. If the catalogue defines components of a release, the status
    /// must also list at least one of them.
    fn check_complete(&self, catalog: &Catalog, status: &OpenStackDeploymentStatus) {
        let selection = selection::selection(self, catalog);
        let desired: BTreeSet<&String> = selection.releases.keys().collect();
        assert_eq!(status.children.keys().collect::<BTreeSet<_>>(), desired);
        for (_, release) in desired.into_iter().filter_map(|name| catalog.release(name)) {
            let mut applications: Vec<_> = release.components.keys().map(|component| &component.application).collect();
            applications.dedup();
            let has_components =
                |application: &&String| status.health.get(*application).is_some_and(|some| !some.is_empty());
            assert!(
                applications.is_empty() || applications.iter().any(has_components),
                "the status must list a component of {applications:?}, but lists only {:?}",
                status.health.keys()
            );
        }
    }
}

impl World {
    /// Checks that each release is ready, was deployed by one helm run and has no drift.
    fn check_single_revision(&self, status: &OpenStackDeploymentStatus) {
        let count = status.children.len();
        assert_eq!(status.releases, format!("{count}/{count}"));
        for (release, child) in &status.children {
            assert!(child.ready && child.status == "deployed", "{release}: {child:?}");
            // Octavia stays at revision 1 only because pods are simulated. On real nodes, the Job octavia-prerequisites
            // would write facts into a ConfigMap, and the operator would upgrade octavia with these facts.
            assert_eq!(child.revision, Some(1), "{release}: {child:?}");
            assert!(child.drift.is_empty(), "{release}: {child:?}");
        }
        assert_eq!(self.helm_runs().len(), count, "{:?}", self.helm_runs());
    }
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator all_services -- --ignored"]
fn installs_every_service_from_upstream_charts() {
    install_cloud("all-services", CloudSettings::of("2026.1"));
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator all_services -- --ignored"]
fn installs_ovn_with_dedicated_brokers() {
    install_cloud("all-services-ovn", CloudSettings::of("2025.2"));
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator all_services -- --ignored"]
fn installs_the_oldest_release_with_helm_3() {
    install_cloud("all-services-oldest", CloudSettings::of("2025.1"));
}
