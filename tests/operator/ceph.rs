//! Tests an external Ceph cluster, which a Secret describes. From this Secret, osdpl writes `ceph.conf` and the Ceph
//! keys for the charts. After a change of the Secret, osdpl upgrades only the releases that use the changed keys.

mod foreign_objects;
mod helpers;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use osdpl_core::api::{OpenStackDeployment, condition, reason};
use serde_json::{Value, json};

use crate::cloud::{BACKENDS, StatusAccess, services};
use crate::world::run_test;

pub const SECRET: &str = "external-ceph";
const FSID: &str = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";
/// Glance's key, in the format of `ceph auth print-key`. This key and the keys below belong to no real Ceph cluster.
const GLANCE: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";
const CINDER: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgg==";
const BACKUP: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgw==";
pub const SHARES: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamhQ==";
/// The key that a Ceph user gets in a key rotation.
pub const NEWER: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamhA==";

/// Returns a spec with images and volumes on Ceph. The caller adds the [`BACKENDS`], for which Keystone waits.
pub fn spec() -> Value {
    let mut spec = services(&["keystone", "glance", "cinder"]);
    spec["features"] =
        json!({"storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": SECRET}}}});
    spec
}

/// Returns a spec with all services of the preset `storage`.
fn storage() -> Value {
    let ceph = json!({"mode": "external", "secret": {"name": SECRET}});
    json!({"openstackRelease": "2026.1", "presets": ["storage"], "features": {"storage": {"ceph": ceph}}})
}

/// Returns the status and reason of the condition `CephReady` as `STATUS REASON`, and the condition's message.
fn ceph(cloud: &OpenStackDeployment) -> (String, String) {
    let condition = cloud.condition(condition::CEPH_READY);
    condition
        .map(|condition| (format!("{} {}", condition.status, condition.reason), condition.message))
        .unwrap_or_default()
}

#[test]
fn external_ceph_is_mounted_by_each_chart() {
    run_test("ceph-external", async |world| {
        world.describe_ceph(json!({"manila.key": SHARES, "manila.pool": "shares"})).await;
        let _operator = world.operator().start().await;
        world.apply(&world.with_external(storage(), &BACKENDS).await).await;
        let cloud = world.until_ready().await;
        let message = format!(
            "Secret {}/{SECRET}: users for glance, cinder, cinder-backup, manila; osdpl writes ceph.conf and the keys of these users for the charts",
            world.namespace
        );
        assert_eq!(ceph(&cloud), ("True Ready".to_owned(), message));
        let conf = world.api::<ConfigMap>().get("ceph-etc").await.unwrap().data.unwrap();
        let text = format!("[global]\nfsid = {FSID}\nmon_host = 10.0.0.1:6789,10.0.0.2:6789\n");
        assert_eq!(conf, BTreeMap::from([("ceph.conf".to_owned(), text)]));
        for (name, user, key) in [
            ("images-rbd-keyring", "glance", GLANCE),
            ("cinder-volume-rbd-keyring", "volumes", CINDER),
            ("cinder-backup-rbd-keyring", "cinderbackup", BACKUP),
            ("manila-keyring", "manila", SHARES),
        ] {
            let file = format!("[client.{user}]\n    key = {key}\n");
            assert_eq!(world.keyring(name).await, (key.to_owned(), file), "{name}");
        }
        let values = world.helm_values("cinder");
        assert_eq!(values["conf"]["backends"]["rbd1"]["rbd_pool"], "volumes");
        assert_eq!(values["conf"]["cinder"]["DEFAULT"]["backup_ceph_user"], "cinderbackup");
        assert_eq!(world.helm_values("manila")["conf"]["manila"]["cephfs"]["cephfs_filesystem_name"], "shares");
        assert_eq!(cloud.status().health["manila"]["share"].ready, "1/1");
        world.check_no_leaked_keys(&["glance", "cinder", "manila"]).await;
    });
}

#[test]
fn invalid_ceph_secret_blocks_only_its_consumers() {
    run_test("ceph-invalid", async |world| {
        let operator = world.operator().start().await;
        world.apply(&world.with_external(spec(), &BACKENDS).await).await;
        let missing = |cloud: &OpenStackDeployment| (ceph(cloud).0 == "False SecretUnavailable").then(|| ceph(cloud).1);
        let message = world.until("the status reports the missing Secret", missing).await;
        assert!(
            message.contains(&format!("Secret {}/{SECRET} does not exist; create it", world.namespace)),
            "{message}"
        );

        world.describe_ceph(json!({"glance.key": &GLANCE[..24]})).await;
        let cloud = world
            .until("all releases without Ceph are deployed", |cloud| {
                let malformed = ceph(cloud).0 == "False SecretInvalid";
                (malformed && cloud.child("keystone").ready).then(|| cloud.clone())
            })
            .await;
        let error = format!("Secret {}/{SECRET}, key glance.key: the cephx key has the wrong format", world.namespace);
        assert!(ceph(&cloud).1.starts_with(&error), "{:?}", ceph(&cloud));
        assert_eq!(cloud.reason(), reason::INPUTS);
        for release in ["glance", "cinder"] {
            let child = cloud.child(release);
            assert!(child.status == "absent" && child.message.contains(&error), "{child:?}");
        }

        // Remove Glance's key and pool from the Secret. Cinder's settings in the Secret are valid and complete, so the
        // operator must install cinder.
        world.describe_ceph(json!({"glance.key": null, "glance.pool": null})).await;
        let cloud = world
            .until("cinder is installed and ready", |cloud| cloud.child("cinder").ready.then(|| cloud.clone()))
            .await;
        let missing_key = format!("Secret {}/{SECRET}, key glance.key: the key is missing; add it", world.namespace);
        assert_eq!(ceph(&cloud), ("False SecretInvalid".to_owned(), missing_key.clone()));
        assert!(cloud.child("glance").message.contains(&missing_key), "{:?}", cloud.child("glance"));

        world.describe_ceph(json!({})).await;
        world.until_ready().await;
        for metric in [&GLANCE[..24], GLANCE, CINDER] {
            assert!(!operator.metrics().contains(metric) && !world.operator_log().contains(metric));
        }
    });
}

#[test]
fn changed_ceph_upgrades_only_its_consumers_once() {
    run_test("ceph-changed", async |world| {
        world.describe_ceph(json!({})).await;
        let _operator = world.operator().start().await;
        world.apply(&world.with_external(spec(), &BACKENDS).await).await;
        world.until_ready().await;
        let (before, runs) = (world.ceph_annotation("glance-api").await, world.helm_runs().len());

        world.describe_ceph(json!({"glance.key": NEWER})).await;
        let again = |release: &'static str, revision| {
            move |cloud: &OpenStackDeployment| {
                (cloud.is_ready() && cloud.child(release).revision == Some(revision)).then_some(())
            }
        };
        world.until("glance has the newer key", again("glance", 2)).await;
        assert_eq!(world.keyring("images-rbd-keyring").await.0, NEWER);
        assert_ne!(world.ceph_annotation("glance-api").await, before);
        assert_eq!(world.upgraded_since(runs), ["glance"]);

        // The second monitor in `mon_host` is a name instead of an address. So the operator refuses the whole Secret
        // and keeps the previous settings.
        world.describe_ceph(json!({"glance.key": NEWER, "mon_host": "10.0.0.9:6789,mon-b"})).await;
        let malformed = |cloud: &OpenStackDeployment| (ceph(cloud).0 == "False SecretInvalid").then_some(());
        world.until("the operator refuses the monitor's address", malformed).await;
        assert_eq!(world.keyring("images-rbd-keyring").await.0, NEWER);
        assert_eq!(world.upgraded_since(runs), ["glance"]);

        world.describe_ceph(json!({"glance.key": NEWER, "mon_host": "10.0.0.9:6789"})).await;
        world.until("the operator has upgraded cinder with the new monitor address", again("cinder", 2)).await;
        world.until("the operator has upgraded glance with the new monitor address", again("glance", 3)).await;
        let conf = world.api::<ConfigMap>().get("ceph-etc").await.unwrap().data.unwrap();
        assert!(conf["ceph.conf"].ends_with("mon_host = 10.0.0.9:6789\n"), "{conf:?}");
        assert_eq!(world.upgraded_since(runs), ["cinder", "glance", "glance"]);
        world.check_no_leaked_keys(&["glance", "cinder"]).await;
    });
}

/// Returns a spec with libvirt and memcached, but without Neutron. Helm deploys libvirt, but libvirt's pods never
/// become ready, because they wait for a Neutron agent.
fn libvirt() -> Value {
    let mut spec = services(&["libvirt", "memcached"]);
    spec["services"]["neutron"] = json!({"enabled": false});
    spec["features"] =
        json!({"storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": SECRET}}}});
    spec
}

#[test]
fn libvirt_key_restart_waits_for_approval() {
    run_test("libvirt-key", async |world| {
        world.describe_ceph(json!({"nova.pool": "vms"})).await;
        let _operator = world.operator().start().await;
        world.apply(&libvirt()).await;
        let deployed = |revision| {
            move |cloud: &OpenStackDeployment| {
                let child = cloud.child("libvirt");
                (child.status == "deployed" && child.revision == Some(revision)).then_some(())
            }
        };
        world.until("libvirt is deployed", deployed(1)).await;
        let external = world.helm_values("libvirt").pointer("/conf/ceph/cinder/external_ceph").cloned().unwrap();
        assert_eq!(external["user_secret_name"], "cinder-volume-rbd-keyring");

        world.describe_ceph(json!({"nova.pool": "vms", "cinder.key": NEWER})).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert!(
            cloud.child("libvirt").message.contains("running instances keep the old key"),
            "{:?}",
            cloud.child("libvirt")
        );
        assert_eq!(world.keyring("cinder-volume-rbd-keyring").await.0, NEWER);
        let hash = cloud.status().approval.unwrap();
        let plan = world.osdpl(&["plan"]);
        assert!(plan.contains(&hash) && plan.contains("Ceph's key for instances changed"), "{plan}");
        let source = format!("changes release_uuid, from Secret {}/{SECRET}", world.namespace);
        assert!(plan.contains(&source) && !plan.contains(NEWER), "{plan}");
        assert!(
            plan.contains("libvirt-libvirt-default on ") && plan.contains(" with openstack-compute-node=enabled; ")
        );
        world.osdpl(&["approve", &hash]);
        world.until("libvirt is upgraded", deployed(2)).await;
        world.until_allowed("libvirt/libvirt").await;
        world.check_no_leaked_keys(&["libvirt"]).await;
    });
}

#[test]
fn keeps_foreign_objects_and_deletes_own_ones() {
    run_test("ceph-foreign", async |world| {
        let mut foreign: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "ceph-etc"}, "data": {"ceph.conf": "mine"}})).unwrap();
        foreign = world.api().create(&PostParams::default(), &foreign).await.unwrap();
        // Use a Secret in the format of Mirantis' operator. This format has other keys than osdpl's format, and a
        // separate Ceph user for Nova.
        let secret = json!({
            "metadata": {"name": SECRET},
            "stringData": {
                "mon_endpoints": "10.0.0.1:6789", "client.admin": BACKUP,
                "cinder": format!("client.cinder;{CINDER}\n;volumes-hdd:volumes:hdd"),
                "nova": format!("client.nova;{NEWER}\n;vms-hdd:vms:hdd;volumes-hdd:volumes:hdd"),
            },
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&libvirt()).await;
        let blocked = |cloud: &OpenStackDeployment| {
            (ceph(cloud).0 == "False ObjectConflict" && cloud.child("memcached").ready).then(|| cloud.clone())
        };
        let cloud = world.until("the status reports the foreign ConfigMap", blocked).await;
        assert!(ceph(&cloud).1.starts_with(&format!("osdpl must write ConfigMap {}/ceph-etc", world.namespace)));
        assert_eq!(cloud.child("libvirt").status, "absent");
        let maps = world.api::<ConfigMap>();
        assert_eq!(maps.get("ceph-etc").await.unwrap().data, foreign.data);
        maps.delete("ceph-etc", &DeleteParams::default()).await.unwrap();

        let deployed = |cloud: &OpenStackDeployment| (cloud.child("libvirt").status == "deployed").then_some(());
        world.until("libvirt is deployed", deployed).await;
        let values = world.helm_values("libvirt");
        let uuid = |path: &str| values.pointer(path).and_then(Value::as_str).unwrap().to_owned();
        let (volumes, instances) =
            (uuid("/conf/ceph/cinder/external_ceph/secret_uuid"), uuid("/conf/ceph/cinder/secret_uuid"));
        assert_ne!(volumes, instances);
        assert_eq!(values["ceph_client"]["user_secret_name"], "nova-rbd-keyring");
        assert_eq!(world.keyring("nova-rbd-keyring").await.0, NEWER);
        world.check_no_leaked_keys(&["libvirt"]).await;

        world.delete().await;
        world.until_gone().await;
        let left = world.api::<Secret>().list(&ListParams::default()).await.unwrap();
        let left: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
        assert!(left.contains(&SECRET.to_owned()), "{left:?}");
        assert!(!left.iter().any(|name| name.ends_with("-keyring")), "{left:?}");
        assert!(maps.get_opt("ceph-etc").await.unwrap().is_none());
    });
}
