//! Everything that `OpenStack` has, from upstream's own charts: volumes, images and shares on Ceph, three of each, under the operator's own rights.

mod others;

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use osdpl::api::{ChildStatus, OpenStackDeployment, OpenStackDeploymentStatus};
use serde_json::{Map, Value, json};

use crate::ceph::{NEWER, SECRET, SHARES};
use crate::cloud::Told;
use crate::world::{World, patience, story};

/// Every service that a cloud can do without, beside monitoring, logging and the store of objects, of which a cloud has one.
const OPTIONAL: [&str; 24] = [
    "aodh",
    "barbican",
    "blazar",
    "ceilometer",
    "cloudkitty",
    "cyborg",
    "designate",
    "freezer",
    "gnocchi",
    "ironic",
    "magnum",
    "manila",
    "masakari",
    "mistral",
    "octavia",
    "powerdns",
    "rally",
    "redis",
    "skyline",
    "tacker",
    "tempest",
    "trove",
    "watcher",
    "zaqar",
];

/// Of these, the ones that are Jobs alone: what is looked at when they are done is the release.
const JOBS: [&str; 3] = ["rally", "tempest", CEPHS];

/// Ceph's own store of objects, which excludes swift; its gateways run elsewhere, so that all of it here are Jobs that register it.
const CEPHS: &str = "ceph_rgw";

/// What is said to run a whole cloud.
struct Whole {
    /// Helm's major version.
    helm: u8,
    /// The release of `OpenStack`.
    openstack: &'static str,
    /// The service that stores objects.
    objects: &'static str,
}

const ROUTES: &str = "httproutes.gateway.networking.k8s.io";

/// Where upstream's charts lie.
fn charts() -> PathBuf {
    let named = std::env::var_os("CHARTS").filter(|folder| !folder.is_empty());
    PathBuf::from(named.expect("CHARTS is not set: this story needs OpenStack-Helm's charts; name their folder"))
}

impl Whole {
    /// Every optional service.
    fn services(&self) -> impl Iterator<Item = &'static str> {
        OPTIONAL.into_iter().chain([self.objects])
    }

    /// The presets together, and every optional service.
    fn spec(&self) -> Value {
        let services: Map<_, _> = self.services().map(|name| (name.to_owned(), json!({"enabled": true}))).collect();
        let mut ceph = json!({"mode": "external", "secret": {"name": SECRET}});
        if self.objects == CEPHS {
            ceph["objectStore"] = json!({});
        }
        json!({
            "openstackRelease": self.openstack, "presets": ["compute", "storage", "ha"], "publicDomain": "cloud.example.org", "services": services,
            "features": {
                "storage": {"backend": "ceph", "ceph": ceph},
                "publicEndpoints": {"enabled": true, "gateway": {"name": "public", "namespace": "gateways"}},
            },
        })
    }
}

/// How far a release is: a step for each thing that helm and its workloads have behind them.
fn steps(child: &ChildStatus) -> usize {
    let helm = match child.status.as_str() {
        "deployed" => 2,
        "absent" | "waiting" => 0,
        _ => 1,
    };
    helm + usize::from(child.ready)
}

impl World {
    /// Kubernetes learns of routes, as a gateway's installation teaches it; nothing looks at them.
    async fn learns_of_routes(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "metadata": {"name": ROUTES, "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/4"}},
            "spec": {
                "group": "gateway.networking.k8s.io", "scope": "Namespaced",
                "names": {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute", "listKind": "HTTPRouteList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
        let served = await_condition(api, ROUTES, conditions::is_crd_established());
        patience("routes are known", served).await.unwrap();
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
    let charts = charts();
    story(name, async |world| {
        world.learns_of_routes().await;
        let keys = json!({
            "manila.key": SHARES, "manila.pool": "shares", "nova.key": NEWER, "nova.pool": "vms", "gnocchi.key": SHARES, "gnocchi.pool": "metrics",
            "rgw_internal": "http://rgw.example.org:7480",
        });
        world.describe_ceph(keys).await;
        // Behind the Services stand simulated pods, which answer nobody.
        let setup = world.operator().helm(whole.helm).charts(&charts);
        let operator = setup.arguments(&["--probes", "false"]).start().await;
        world.apply(&whole.spec()).await;
        let status = world.until_ready_by_and_by().await.status();

        world.was_made_at_once(&status);
        for service in whole.services() {
            let release = service.replace('_', "-");
            assert!(status.children.contains_key(&release), "{release} is no release: {:?}", status.children.keys());
            let has_components = status.health.get(service).is_some_and(|components| !components.is_empty());
            assert!(
                has_components || JOBS.contains(&service),
                "{service} has no component: {:?}",
                status.health.keys()
            );
        }

        assert!(operator.stop().await.success());
        let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        drop(definitions.delete(ROUTES, &DeleteParams::default()).await.unwrap());
    });
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
fn the_whole_cloud_with_every_optional_service_comes_up_from_upstreams_charts() {
    comes_up("whole", &Whole { helm: 4, openstack: "2026.1", objects: "swift" });
}

#[test]
#[ignore = "needs OpenStack-Helm's charts: CHARTS=DIR cargo test --test operator whole -- --ignored"]
fn the_whole_cloud_of_the_oldest_openstack_with_cephs_object_store_comes_up_by_helm_3() {
    comes_up("oldest", &Whole { helm: 3, openstack: "2025.1", objects: CEPHS });
}
