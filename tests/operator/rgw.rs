//! Tests Ceph's object store (RGW). osdpl configures Keystone's address in the gateways, and the release ceph-rgw
//! registers the URL of the gateways in Keystone.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::runtime::wait::await_condition;
use osdpl_core::api::{OpenStackDeployment, condition, reason};
use serde_json::{Value, json};

use crate::cloud::{BACKENDS, StatusAccess, services};
use crate::rook::Rook;
use crate::world::{World, run_test, with_timeout};

const FSID: &str = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";

/// Returns a spec with Keystone and an object store that Rook runs. The caller adds the [`BACKENDS`].
fn spec(rook: &Rook<'_>) -> Value {
    let mut spec = services(&["keystone", "ceph_rgw"]);
    let store = json!({"name": "objects", "publicUrl": "https://objects.example.org"});
    let ceph = json!({"mode": "rook", "rook": {"namespace": rook.namespace}, "objectStore": store});
    spec["features"] = json!({"storage": {"backend": "ceph", "ceph": ceph}});
    spec
}

/// Returns the message of the condition `CephReady` if its reason is that osdpl waits for Rook.
fn waiting_message(cloud: &OpenStackDeployment) -> Option<String> {
    let condition = cloud.condition(condition::CEPH_READY)?;
    (condition.reason == reason::CEPH_ROOK).then_some(condition.message)
}

impl World {
    /// Waits until a Secret exists, and returns the value of its key `key` as text.
    async fn secret_value(&self, namespace: &str, name: &str, key: &str) -> String {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let exists = await_condition(api.clone(), name, |found: Option<&Secret>| found.is_some());
        with_timeout("the Secret exists", exists).await.unwrap();
        String::from_utf8(api.get(name).await.unwrap().data.unwrap()[key].0.clone()).unwrap()
    }
}

#[test]
fn sets_keystone_in_rook_store_before_waiting_for_urls() {
    run_test("rgw-rook", async |world| {
        let rook = Rook::new(world).await;
        // Grant the operator rights in Rook's namespace. The object store is in this namespace, and the operator writes
        // a Secret next to it.
        world.permit(&rook.namespace).await;
        rook.create_crds().await;
        rook.set_cluster_state("Ready", "HEALTH_OK", FSID).await;
        rook.write_monitors("a=10.0.0.1:6789").await;
        let _operator = world.operator().start().await;
        world.apply(&world.with_external(spec(&rook), &BACKENDS).await).await;
        let missing = |cloud: &OpenStackDeployment| {
            waiting_message(cloud)?.contains("/objects does not exist; create it").then_some(())
        };
        world.until("the status reports the missing object store", missing).await;

        rook.create_store("objects").await;
        let api = rook.api("CephObjectStore");
        let has_auth =
            |found: Option<&DynamicObject>| found.is_some_and(|store| store.data["spec"]["auth"].is_object());
        with_timeout(
            "osdpl writes Keystone's settings into the spec of the object store",
            await_condition(api.clone(), "objects", has_auth),
        )
        .await
        .unwrap();
        let spec = api.get("objects").await.unwrap().data["spec"].clone();
        let keystone = &spec["auth"]["keystone"];
        assert_eq!(keystone["url"], format!("http://keystone-api.{}.svc.cluster.local:5000", world.namespace));
        assert_eq!(
            spec["protocols"]["swift"],
            json!({"accountInUrl": true, "urlPrefix": "swift", "versioningEnabled": true})
        );
        let name = keystone["serviceUserSecretName"].as_str().unwrap();
        let password = world.secret_value(&rook.namespace, name, "OS_PASSWORD").await;
        assert_eq!(world.secret_value(&rook.namespace, name, "OS_USERNAME").await, "swift");

        let is_waiting = |cloud: &OpenStackDeployment| {
            let is_next = cloud.child("keystone").ready && cloud.child("ceph-rgw").status == "absent";
            (is_next && waiting_message(cloud)?.contains("has no endpoints yet"))
                .then(|| cloud.child("ceph-rgw").message)
        };
        let message = world.until("ceph-rgw waits for the endpoints of the object store", is_waiting).await;
        assert!(message.contains("CephObjectStore") && message.contains("has no endpoints yet"), "{message}");

        rook.set_endpoint("objects", "http://rook-ceph-rgw-objects.rook.svc:80").await;
        world.until_ready().await;
        let values = world.helm_values("ceph-rgw");
        let store = &values["endpoints"]["object_store"];
        assert_eq!(store["host_fqdn_override"]["default"]["host"], "rook-ceph-rgw-objects.rook.svc");
        assert_eq!((&store["scheme"]["public"], &store["port"]["api"]["public"]), (&json!("https"), &json!(443)));
        assert_eq!(values["endpoints"]["identity"]["auth"]["swift"]["password"], password);

        world.delete().await;
        world.until_gone().await;
        let spec = api.get("objects").await.unwrap().data["spec"].clone();
        assert_eq!(spec, json!({"gateway": {"instances": 2}, "protocols": {"swift": {"versioningEnabled": true}}}));
        let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &rook.namespace);
        assert!(secrets.get_opt(name).await.unwrap().is_none());
    });
}

#[test]
fn registers_external_gateways_and_writes_their_settings() {
    run_test("rgw-external", async |world| {
        let secret = json!({
            "metadata": {"name": "openstack-ceph-keys"},
            "stringData": {
                "mon_endpoints": "10.0.0.1:6789",
                "glance": "client.glance;AQABAgMEBQYHCBAApqampqampqampqampqamgQ==\n;images-hdd:images:hdd",
                "rgw_internal": "http://10.0.0.1:8080/", "rgw_external": "https://objects.example.org/",
            },
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        let mut spec = services(&["keystone", "ceph_rgw"]);
        let ceph = json!({"mode": "external", "secret": {"name": "openstack-ceph-keys"}, "objectStore": {"acceptedRoles": ["member"]}});
        spec["features"] = json!({"storage": {"backend": "ceph", "ceph": ceph}});
        let _operator = world.operator().start().await;
        world.apply(&world.with_external(spec, &BACKENDS).await).await;
        world.until_ready().await;
        let store = world.helm_values("ceph-rgw")["endpoints"]["object_store"].clone();
        assert_eq!(store["host_fqdn_override"]["default"]["host"], "10.0.0.1");
        assert_eq!(store["port"]["api"], json!({"default": 8080, "public": 443}));
        let value = async |key| world.secret_value(&world.namespace, "nimbus-rgw-keystone", key).await;
        let service = format!("http://keystone-api.{}.svc.cluster.local:5000/v3", world.namespace);
        assert_eq!(value("OS_AUTH_URL").await, service);
        assert_eq!(value("rgw_keystone_accepted_roles").await, "member");
    });
}
