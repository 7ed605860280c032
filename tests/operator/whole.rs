//! Everything that `OpenStack` has, from upstream's own charts: volumes, images and shares on Ceph, three of each, under the operator's own rights.

mod apart;
mod others;

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
use crate::cloud::Told;
use crate::world::{World, patience, story};

/// What is said to run a whole cloud.
struct Whole {
    /// Helm's major version.
    helm: u8,
    /// The release of `OpenStack`.
    openstack: &'static str,
    /// The service that stores objects: a cloud has one.
    objects: &'static str,
    /// The backend of networks.
    network: &'static str,
    /// The services that have a broker of their own.
    dedicated: &'static [&'static str],
}

/// One for each release of `OpenStack`, each of another making.
const WHOLE: [Whole; 3] = [
    Whole { helm: 3, openstack: "2025.1", objects: CEPHS, network: "ovs", dedicated: &[] },
    Whole { helm: 4, openstack: "2025.2", objects: CEPHS, network: "ovn", dedicated: &["cinder", "neutron", "nova"] },
    Whole { helm: 4, openstack: "2026.1", objects: SWIFT, network: "ovs", dedicated: &[] },
];

const SWIFT: &str = "swift";

/// Ceph's own store of objects; its gateways run elsewhere, so that all of it here are Jobs that register it.
const CEPHS: &str = "ceph_rgw";

/// Kinds of others that charts have objects of, as their installation teaches Kubernetes: group, plural, kind, and whether they lie in namespaces.
const KINDS: [(&str, &str, &str, bool); 3] = [
    ("gateway.networking.k8s.io", "httproutes", "HTTPRoute", true),
    ("cert-manager.io", "issuers", "Issuer", true),
    ("cert-manager.io", "clusterissuers", "ClusterIssuer", false),
];

/// Where upstream's charts lie.
fn charts() -> PathBuf {
    let named = std::env::var_os("CHARTS").filter(|folder| !folder.is_empty());
    PathBuf::from(named.expect("CHARTS is not set: this story needs OpenStack-Helm's charts; name their folder"))
}

/// The shipped catalogue.
fn shipped() -> Catalog {
    osdpl_core::files::load_catalog(None).unwrap()
}

impl Whole {
    /// The one of this release of `OpenStack`.
    fn of(openstack: &str) -> &'static Self {
        WHOLE.iter().find(|whole| whole.openstack == openstack).unwrap()
    }

    /// Every service of the catalogue but those that stand apart, and the other store of objects.
    fn services(&self, catalog: &Catalog) -> BTreeSet<String> {
        let other = if self.objects == CEPHS { SWIFT } else { CEPHS };
        let is_in = |name: &&String| *name != other && !apart::is_apart(catalog, name);
        catalog.services.keys().filter(is_in).cloned().collect()
    }

    /// The presets together, and every service.
    fn spec(&self, catalog: &Catalog) -> Value {
        let services = self.services(catalog).into_iter();
        let services: Map<_, _> = services.map(|name| (name, json!({"enabled": true}))).collect();
        let mut ceph = json!({"mode": "external", "secret": {"name": SECRET}});
        if self.objects == CEPHS {
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

/// How far a release is: a step for each thing that helm and its workloads have behind them.
fn steps(child: &HelmReleaseStatus) -> usize {
    let helm = match child.status.as_str() {
        "deployed" => 2,
        "absent" | "waiting" => 0,
        _ => 1,
    };
    helm + usize::from(child.ready)
}

impl World {
    /// Kubernetes learns of others' kinds; nothing looks at their objects.
    async fn learns_of_kinds(&self) {
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
            patience(&format!("{name} are known"), served).await.unwrap();
        }
    }

    /// It forgets them: no other story expects them.
    async fn forgets_kinds(&self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for (group, plural, _, _) in KINDS {
            drop(api.delete(&format!("{plural}.{group}"), &DeleteParams::default()).await.unwrap());
        }
    }

    /// Waits until the cloud is Ready for as long as releases come forward: slow is no failure, and stuck is one.
    async fn until_ready_by_and_by(&self) -> OpenStackDeployment {
        let mut behind = 0;
        loop {
            let further = |cloud: &OpenStackDeployment| {
                let steps = cloud.status().children.values().map(steps).sum();
                (cloud.is_ready() || steps > behind).then(|| (cloud.clone(), steps))
            };
            let (cloud, steps) = self.until(&format!("a release is further, after {behind} steps"), further).await;
            if cloud.is_ready() {
                return cloud;
            }
            behind = steps;
        }
    }
}

/// A whole cloud comes up, each release at once.
fn comes_up(name: &str, whole: &Whole) {
    let (charts, catalog) = (charts(), shipped());
    story(name, async |world| {
        world.learns_of_kinds().await;
        let granted = apart::granted(&whole.services(&catalog));
        world.is_granted(&granted.iter().map(String::as_str).collect::<Vec<_>>());
        let keys = json!({
            "manila.key": SHARES, "manila.pool": "shares", "nova.key": NEWER, "nova.pool": "vms", "gnocchi.key": SHARES, "gnocchi.pool": "metrics",
            "rgw_internal": "http://rgw.example.org:7480",
        });
        world.describe_ceph(keys).await;
        // Behind the Services stand simulated pods, which answer nobody.
        let setup = world.operator().helm(whole.helm).charts(&charts);
        let operator = setup.arguments(&["--probes", "false"]).start().await;
        world.apply(&whole.spec(&catalog)).await;
        let status = world.until_ready_by_and_by().await.status();

        world.was_made_at_once(&status);
        whole.is_in(&catalog, &status);

        assert!(operator.stop().await.success());
        world.is_granted(&[]);
        world.forgets_kinds().await;
    });
}

impl Whole {
    /// Every release that is wanted is there, and every service that has components has some.
    fn is_in(&self, catalog: &Catalog, status: &OpenStackDeploymentStatus) {
        let selection = apart::selection(self, catalog);
        let wanted: BTreeSet<&String> = selection.releases.keys().collect();
        assert_eq!(status.children.keys().collect::<BTreeSet<_>>(), wanted);
        for (_, release) in wanted.into_iter().filter_map(|name| catalog.release(name)) {
            let mut applications: Vec<_> = release.components.keys().map(|component| &component.application).collect();
            applications.dedup();
            let has_some = |application: &&String| status.health.get(*application).is_some_and(|some| !some.is_empty());
            assert!(
                applications.is_empty() || applications.iter().any(has_some),
                "{applications:?} have no component: {:?}",
                status.health.keys()
            );
        }
    }
}

impl World {
    /// Each release is there after one helm of its own, and as helm left it.
    fn was_made_at_once(&self, status: &OpenStackDeploymentStatus) {
        let count = status.children.len();
        assert_eq!(status.releases, format!("{count}/{count}"));
        for (release, child) in &status.children {
            assert!(child.ready && child.status == "deployed", "{release}: {child:?}");
            // Facts, which would bring a second one, are written by programs that run, and none does here.
            assert_eq!(child.revision, Some(1), "{release}: {child:?}");
            assert!(child.drift.is_empty(), "{release}: {child:?}");
        }
        assert_eq!(self.helm_runs().len(), count, "{:?}", self.helm_runs());
    }
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator whole -- --ignored"]
fn the_whole_cloud_with_every_service_comes_up_from_upstreams_charts() {
    comes_up("whole", Whole::of("2026.1"));
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator whole -- --ignored"]
fn the_whole_cloud_on_ovn_with_brokers_of_their_own_comes_up_on_the_openstack_between() {
    comes_up("between", Whole::of("2025.2"));
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator whole -- --ignored"]
fn the_whole_cloud_of_the_oldest_openstack_with_cephs_object_store_comes_up_by_helm_3() {
    comes_up("oldest", Whole::of("2025.1"));
}
