//! A fake Rook without a controller: tests create Rook's CRDs and Secrets, and set the status of Rook's objects.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::pool::{DEFAULT_NAMESPACE, ROOK_RIGHTS};
use crate::world::{World, with_timeout};

/// The fake Rook of a test. Its objects are in a namespace of their own.
pub struct Rook<'a> {
    world: &'a World,
    pub namespace: String,
}

/// Returns a CRD of Rook. `spec` is the schema of the objects' `spec`, with the fields that osdpl writes.
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
    pub async fn new(world: &World) -> Rook<'_> {
        let namespace = format!("{}-rook", world.namespace);
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &object).await.unwrap();
        // By default, the operator has no rights for Rook. So the tests with Rook run with the opt-in rights of
        // `rbac.rook`: the chart creates the ClusterRole, and `grant` binds it in the namespace of this test's Rook.
        world.plane().grant_more(&[format!("rbac.rook=[\"{DEFAULT_NAMESPACE}\"]")]);
        world.plane().grant(ROOK_RIGHTS, &namespace).await;
        Rook { world, namespace }
    }

    pub async fn create_crds(&self) {
        let text = json!({"type": "string"});
        let replicated = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-preserve-unknown-fields": true});
        let quotas = json!({"type": "object", "properties": {"maxSize": text}});
        let pool = json!({"type": "object", "properties": {
            "failureDomain": text, "deviceClass": text, "replicated": replicated, "quotas": quotas,
        }});
        let caps = json!({"type": "object", "additionalProperties": text});
        let client = json!({"type": "object", "required": ["caps"], "properties": {"caps": caps, "secretName": text}});
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let filesystem = json!({"type": "object", "required": ["metadataPool", "dataPools", "metadataServer"], "properties": {
            "metadataPool": pool, "preserveFilesystemOnDelete": {"type": "boolean"}, "dataPools": {"type": "array", "items": {"type": "object", "properties": {
                "name": text, "failureDomain": text, "deviceClass": text, "replicated": replicated, "quotas": quotas,
            }}}, "metadataServer": {"type": "object", "required": ["activeCount"], "properties": {
                "activeCount": {"type": "integer"}, "activeStandby": {"type": "boolean"},
            }},
        }});
        let kinds = [
            ("CephBlockPool", &pool),
            ("CephClient", &client),
            ("CephFilesystem", &filesystem),
            ("CephCluster", &open),
            ("CephObjectStore", &open),
        ];
        for definition in kinds.map(|(kind, spec)| definition(kind, spec)) {
            let name = definition.name_any();
            let api: Api<CustomResourceDefinition> = Api::all(self.world.client.clone());
            api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(to_apply(&definition))).await.unwrap();
        }
        for (kind, _) in kinds {
            let mut events = pin!(watcher(self.api(kind), watcher::Config::default()).default_backoff());
            let served = async { while !matches!(events.next().await, Some(Ok(Event::InitDone))) {} };
            with_timeout("the kind is served", served).await;
        }
    }

    /// Deletes Rook's CRDs, which an earlier test on the same control plane may have created.
    pub async fn delete_crds(&self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.world.client.clone());
        for plural in ["cephblockpools", "cephclients", "cephfilesystems", "cephclusters", "cephobjectstores"] {
            let name = format!("{plural}.ceph.rook.io");
            if api.get_opt(&name).await.unwrap().is_some() {
                api.delete(&name, &DeleteParams::default()).await.unwrap();
            }
            let gone = await_condition(api.clone(), &name, |found: Option<&CustomResourceDefinition>| found.is_none());
            with_timeout("the CRD is deleted", gone).await.unwrap();
        }
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind), &plural);
        Api::namespaced_with(self.world.client.clone(), &self.namespace, &resource)
    }

    pub async fn until_requested(&self, kind: &str, name: &str) {
        let exists = await_condition(self.api(kind), name, |found: Option<&DynamicObject>| found.is_some());
        with_timeout("osdpl requests the object from Rook", exists).await.unwrap();
    }

    pub async fn spec(&self, kind: &str, name: &str) -> Value {
        self.api(kind).get(name).await.unwrap().data["spec"].clone()
    }

    /// Writes the status `Ready`, which Rook sets after it has created the pool, user or file system in Ceph.
    pub async fn set_ready(&self, kind: &str, name: &str) {
        let status = Patch::Merge(json!({"status": {"phase": "Ready"}}));
        self.api(kind).patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    /// Sets the status of the `CephCluster` named `main`, and creates the `CephCluster` if it does not exist.
    pub async fn set_cluster_state(&self, phase: &str, health: &str, fsid: &str) {
        let object =
            json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "metadata": {"name": "main"}, "spec": {}});
        let (api, params) = (self.api("CephCluster"), PatchParams::apply("rook").force());
        api.patch("main", &params, &Patch::Apply(object)).await.unwrap();
        let ceph = json!({"health": health, "fsid": fsid, "lastChecked": "2026-08-01T00:00:00Z"});
        let status =
            Patch::Merge(json!({"status": {"phase": phase, "message": "Configuring Ceph Mons", "ceph": ceph}}));
        api.patch_status("main", &PatchParams::default(), &status).await.unwrap();
    }

    /// Creates a `CephObjectStore` as an administrator does. osdpl must not change `gateway` and `protocols` in its
    /// spec.
    pub async fn create_store(&self, name: &str) {
        let object = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephObjectStore", "metadata": {"name": name},
            "spec": {"gateway": {"instances": 2}, "protocols": {"swift": {"versioningEnabled": true}}},
        });
        let params = PatchParams::apply("user").force();
        self.api("CephObjectStore").patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Writes the internal URL of the gateways into the status of a `CephObjectStore`, as Rook does when the gateways
    /// run.
    pub async fn set_endpoint(&self, name: &str, url: &str) {
        let status =
            Patch::Merge(json!({"status": {"phase": "Ready", "endpoints": {"insecure": [url], "secure": null}}}));
        self.api("CephObjectStore").patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    pub async fn write_user_key(&self, user: &str, key: &str) {
        let name = format!("rook-ceph-client-{user}");
        let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/rook", "stringData": {user: key}});
        self.write::<Secret>(secret).await;
    }

    pub async fn write_admin_key(&self, key: &str) {
        let data = json!({"ceph-username": "client.admin", "ceph-secret": key, "mon-secret": key, "fsid": "unread"});
        let secret = json!({"metadata": {"name": "rook-ceph-mon"}, "type": "kubernetes.io/rook", "stringData": data});
        self.write::<Secret>(secret).await;
    }

    pub async fn write_monitors(&self, data: &str) {
        self.write::<ConfigMap>(json!({"metadata": {"name": "rook-ceph-mon-endpoints"}, "data": {"data": data}})).await;
    }

    pub async fn write<K>(&self, object: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.world.client.clone(), &self.namespace);
        let object: K = serde_json::from_value(object).unwrap();
        let params = PatchParams::apply("rook").force();
        api.patch(&object.name_any(), &params, &Patch::Apply(to_apply(&object))).await.unwrap();
    }
}

/// Returns an object as JSON, for server-side apply.
fn to_apply<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap()
}
