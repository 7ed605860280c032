//! A Ceph that Rook runs: asked for pools and users, waited for, and followed when it changes. The stand-in for Rook is this file: it makes
//! what Rook makes, late.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt};
use osdpl::api::{OpenStackDeployment, condition, reason};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cloud::Told;
use crate::world::{World, patience, story};

const GLANCE: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";
const CINDER: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgg==";
const NEWER: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamhA==";

/// Rook in a namespace.
struct Rook<'a> {
    world: &'a World,
    namespace: String,
}

/// A definition with the part of Rook's schema that osdpl writes; what else Rook serves is kept.
fn definition(kind: &str, spec: &Value) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": open}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
    });
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.ceph.rook.io")},
        "spec": {
            "group": "ceph.rook.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
        },
    }))
    .unwrap()
}

impl Rook<'_> {
    async fn in_namespace(world: &World) -> Rook<'_> {
        let namespace = format!("{}-rook", world.namespace);
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &object).await.unwrap();
        Rook { world, namespace }
    }

    async fn define(&self) {
        let text = json!({"type": "string"});
        let replicated = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-preserve-unknown-fields": true});
        let quotas = json!({"type": "object", "properties": {"maxSize": text}});
        let pool = json!({"type": "object", "properties": {
            "failureDomain": text, "deviceClass": text, "replicated": replicated, "quotas": quotas,
        }});
        let caps = json!({"type": "object", "additionalProperties": text});
        let client = json!({"type": "object", "required": ["caps"], "properties": {"caps": caps, "secretName": text}});
        for definition in [definition("CephBlockPool", &pool), definition("CephClient", &client)] {
            let name = definition.name_any();
            let api: Api<CustomResourceDefinition> = Api::all(self.world.client.clone());
            api.patch(&name, &PatchParams::apply("story").force(), &Patch::Apply(applied(&definition))).await.unwrap();
        }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind), &plural);
        Api::namespaced_with(self.world.client.clone(), &self.namespace, &resource)
    }

    async fn until_asked(&self, kind: &str, name: &str) {
        let there = await_condition(self.api(kind), name, |found: Option<&DynamicObject>| found.is_some());
        patience("Rook is asked", there).await.unwrap();
    }

    async fn spec(&self, kind: &str, name: &str) -> Value {
        self.api(kind).get(name).await.unwrap().data["spec"].clone()
    }

    /// What Rook writes about an object once it has made it.
    async fn makes(&self, kind: &str, name: &str) {
        let status = Patch::Merge(json!({"status": {"phase": "Ready"}}));
        self.api(kind).patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    async fn hands_out(&self, user: &str, key: &str) {
        let name = format!("rook-ceph-client-{user}");
        let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/rook", "stringData": {user: key}});
        self.write::<Secret>(secret).await;
    }

    async fn tells_monitors(&self, data: &str) {
        self.write::<ConfigMap>(json!({"metadata": {"name": "rook-ceph-mon-endpoints"}, "data": {"data": data}})).await;
    }

    async fn write<K>(&self, object: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.world.client.clone(), &self.namespace);
        let object: K = serde_json::from_value(object).unwrap();
        let params = PatchParams::apply("rook").force();
        api.patch(&object.name_any(), &params, &Patch::Apply(applied(&object))).await.unwrap();
    }
}

/// As server-side apply wants it.
fn applied<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap()
}

fn pending(cloud: &OpenStackDeployment) -> Option<String> {
    let said = cloud.condition(condition::CEPH_READY)?;
    (said.reason == reason::CEPH_ROOK).then_some(said.message)
}

fn waits_for(text: &'static str) -> impl FnMut(&OpenStackDeployment) -> Option<()> {
    move |cloud| pending(cloud)?.contains(text).then_some(())
}

#[test]
fn rook_is_asked_waited_for_and_followed_and_keeps_pools_when_the_cloud_goes() {
    story("deep", async |world| {
        let rook = Rook::in_namespace(world).await;
        let pools = json!({"images": {"replicas": 2, "deviceClass": "ssd"}});
        let ceph = json!({"mode": "rook", "rook": {"namespace": rook.namespace, "pools": pools}});
        let spec =
            json!({"openstackRelease": "2026.1", "presets": ["storage"], "features": {"storage": {"ceph": ceph}}});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until("Rook is missed", waits_for("is not there; install Rook")).await;
        rook.define().await;
        world.until("pools are asked for", waits_for("CephBlockPool")).await;
        rook.until_asked("CephClient", "cinderbackup").await;
        let images = json!({"failureDomain": "host", "deviceClass": "ssd", "replicated": {"size": 2}});
        assert_eq!(rook.spec("CephBlockPool", "images").await, images);
        let osd = "profile rbd pool=volumes, profile rbd-read-only pool=images";
        assert_eq!(rook.spec("CephClient", "cinder").await["caps"]["osd"], osd);

        rook.tells_monitors("a=10.0.0.1:6789,b=10.0.0.2:6789").await;
        for pool in ["images", "volumes", "backups"] {
            rook.makes("CephBlockPool", pool).await;
        }
        for (user, key) in [("glance", GLANCE), ("cinder", CINDER), ("cinderbackup", CINDER)] {
            rook.makes("CephClient", user).await;
            rook.hands_out(user, key).await;
        }
        world.until_ready().await;
        assert_eq!(world.keyring("images-rbd-keyring").await.0, GLANCE);
        let runs = world.helm_runs().len();

        rook.hands_out("glance", NEWER).await;
        let newer =
            |cloud: &OpenStackDeployment| (cloud.is_ready() && cloud.child("glance").revision == Some(2)).then_some(());
        world.until("glance has the newer key", newer).await;
        assert_eq!(world.keyring("images-rbd-keyring").await.0, NEWER);
        assert_eq!(world.upgraded_since(runs), ["glance"]);
        rook.tells_monitors("b=10.0.0.2:6789,c=10.0.0.3:6789").await;
        let moved = |cloud: &OpenStackDeployment| {
            let revisions = (cloud.child("glance").revision, cloud.child("cinder").revision);
            (cloud.is_ready() && revisions == (Some(3), Some(2))).then_some(())
        };
        world.until("the monitors moved", moved).await;
        let conf = world.api::<ConfigMap>().get("ceph-etc").await.unwrap().data.unwrap();
        assert_eq!(conf["ceph.conf"], "[global]\nmon_host = 10.0.0.2:6789,10.0.0.3:6789\n");

        world.delete().await;
        world.until_gone().await;
        for (kind, name) in [("CephBlockPool", "volumes"), ("CephClient", "cinder")] {
            assert!(rook.api(kind).get(name).await.unwrap().metadata.deletion_timestamp.is_none());
        }
    });
}
