//! Tests Secrets and `ConfigMap`s for Ceph's clients that osdpl did not create, as in adopted clouds. If such an object
//! has the desired content, osdpl does not change it. If it is deleted, osdpl creates it again.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{FSID, GLANCE};
use crate::cloud::{BACKENDS, NAME, services};
use crate::world::{now, run_test};

#[test]
fn watches_equal_foreign_objects_and_replaces_deleted_ones() {
    run_test("ceph-adopted", async |world| {
        world.describe_ceph(json!({})).await;
        let conf = format!("[global]\nfsid = {FSID}\nmon_host = 10.0.0.1:6789,10.0.0.2:6789\n");
        let map = json!({"metadata": {"name": "ceph-etc"}, "data": {"ceph.conf": conf}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        world.api().create(&PostParams::default(), &map).await.unwrap();
        let keyring = "images-rbd-keyring";
        let secret = json!({"metadata": {"name": keyring}, "stringData": {"key": GLANCE}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        let mut spec = world.with_external(services(&["keystone", "glance"]), &BACKENDS).await;
        spec["features"] = super::spec()["features"].clone();
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let secret = world.api::<Secret>().get(keyring).await.unwrap();
        assert!(secret.labels().is_empty(), "osdpl must not label an object of another owner: {:?}", secret.labels());

        let since = now();
        spec["deletionPolicy"] = json!("Purge");
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(
            world.secrets_read_since(since),
            [""; 0],
            "the operator must use the content that its watch reports, instead of reading single Secrets"
        );

        world.api::<Secret>().delete(keyring, &DeleteParams::default()).await.unwrap();
        let owner = format!("{}.{NAME}", world.namespace);
        let is_ours = |found: Option<&Secret>| {
            found.is_some_and(|found| found.labels().get("osdpl.dev/deployment").is_some_and(|label| *label == owner))
        };
        world.until_object("the operator creates the Secret", keyring, is_ours).await;
        assert_eq!(world.keyring(keyring).await.0, GLANCE);
    });
}
