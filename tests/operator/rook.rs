//! Tests a Ceph cluster that Rook runs. osdpl creates Rook's objects for pools and users, and waits until Rook reports
//! that they are ready. When keys or monitors change, osdpl upgrades releases.

mod fake;
mod shares;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use osdpl_core::api::{OpenStackDeployment, condition, reason};
use serde_json::{Value, json};

use crate::cloud::{BACKENDS, StatusAccess, services};
use crate::world::{run_test, with_timeout};
pub use fake::Rook;

/// Glance's key, in the format of `ceph auth print-key`. This key and the keys below belong to no real Ceph.
const GLANCE: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";
const CINDER: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgg==";
const NEWER: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamhA==";
const FSID: &str = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";
const OTHER: &str = "7d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";

fn pending(cloud: &OpenStackDeployment) -> Option<String> {
    let condition = cloud.condition(condition::CEPH_READY)?;
    (condition.reason == reason::CEPH_ROOK).then_some(condition.message)
}

fn waits_for(text: &'static str) -> impl FnMut(&OpenStackDeployment) -> Option<()> {
    move |cloud| pending(cloud)?.contains(text).then_some(())
}

/// Returns a spec with images and volumes on Ceph. The caller adds the [`BACKENDS`]. `ceph` is the value of `features.storage.ceph`.
pub fn on_ceph(ceph: &Value) -> Value {
    let mut spec = services(&["keystone", "glance", "cinder"]);
    spec["features"] = json!({"storage": {"backend": "ceph", "ceph": ceph}});
    spec
}

/// Sets the status of the requested pools and users to Ready and writes the users' keys, as Rook would.
async fn provide_pools_and_users(rook: &Rook<'_>) {
    for pool in ["images", "volumes", "backups"] {
        rook.set_ready("CephBlockPool", pool).await;
    }
    for (user, key) in [("glance", GLANCE), ("cinder", CINDER), ("cinderbackup", CINDER)] {
        rook.set_ready("CephClient", user).await;
        rook.write_user_key(user, key).await;
    }
}

#[test]
fn requests_pools_from_rook_and_keeps_them_on_deletion() {
    run_test("rook-pools", async |world| {
        let rook = Rook::new(world).await;
        rook.delete_crds().await;
        let pools = json!({"images": {"replicas": 2, "deviceClass": "ssd"}});
        let ceph = json!({"mode": "rook", "rook": {"namespace": rook.namespace, "pools": pools}});
        let spec = world.with_external(on_ceph(&ceph), &BACKENDS).await;
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until("the status reports that Rook is not installed", waits_for("does not exist; install Rook")).await;
        rook.create_crds().await;
        rook.until_requested("CephClient", "cinderbackup").await;
        let images = json!({"failureDomain": "host", "deviceClass": "ssd", "replicated": {"size": 2}});
        assert_eq!(rook.spec("CephBlockPool", "images").await, images);
        let osd = "profile rbd pool=volumes, profile rbd-read-only pool=images";
        assert_eq!(rook.spec("CephClient", "cinder").await["caps"]["osd"], osd);

        world
            .until("the status reports that there is no CephCluster", waits_for("there is no CephCluster in namespace"))
            .await;
        rook.set_cluster_state("Progressing", "", "").await;
        world.until("the CephCluster is being created", waits_for("is Progressing (Configuring Ceph Mons)")).await;

        rook.set_cluster_state("Ready", "HEALTH_OK", FSID).await;
        rook.write_monitors("a=10.0.0.1:6789,b=10.0.0.2:6789").await;
        provide_pools_and_users(&rook).await;
        let cloud = world.until_ready().await;
        let message = cloud.condition(condition::CEPH_READY).unwrap().message;
        assert!(message.ends_with(&format!("/main: Ready, HEALTH_OK, fsid {FSID}")), "{message}");
        assert_eq!(world.keyring("images-rbd-keyring").await.0, GLANCE);
        let explained = world.osdpl(&["explain", "glance", "conf.glance.rbd.rbd_store_user"]);
        let source = format!("reads Ceph, as described by Rook's ConfigMap {}/", rook.namespace);
        assert!(explained.contains("by ${ceph.glance.user}\n") && explained.contains(&source), "{explained}");
        let runs = world.helm_runs().len();

        rook.write_user_key("glance", NEWER).await;
        let newer =
            |cloud: &OpenStackDeployment| (cloud.is_ready() && cloud.child("glance").revision == Some(2)).then_some(());
        world.until("glance has the newer key", newer).await;
        assert_eq!(world.keyring("images-rbd-keyring").await.0, NEWER);
        assert_eq!(world.upgraded_since(runs), ["glance"]);
        rook.write_monitors("b=10.0.0.2:6789,c=10.0.0.3:6789").await;
        let moved = |cloud: &OpenStackDeployment| {
            let revisions = (cloud.child("glance").revision, cloud.child("cinder").revision);
            (cloud.is_ready() && revisions == (Some(3), Some(2))).then_some(())
        };
        world.until("the operator has upgraded glance and cinder to the new monitors", moved).await;
        let conf = world.api::<ConfigMap>().get("ceph-etc").await.unwrap().data.unwrap();
        assert_eq!(conf["ceph.conf"], format!("[global]\nfsid = {FSID}\nmon_host = 10.0.0.2:6789,10.0.0.3:6789\n"));

        // While glance is paused, osdpl changes the pools of other releases, but not that of glance.
        let mut paused = spec;
        paused["services"]["glance"]["releases"] = json!({"glance": {"paused": true}});
        paused["features"]["storage"]["ceph"]["rook"]["pools"] =
            json!({"images": {"replicas": 4}, "volumes": {"replicas": 2}});
        world.apply(&paused).await;
        let has_two =
            |pool: Option<&DynamicObject>| pool.is_some_and(|pool| pool.data["spec"]["replicated"]["size"] == 2);
        let changed = await_condition(rook.api("CephBlockPool"), "volumes", has_two);
        with_timeout("osdpl changes the pool of volumes", changed).await.unwrap();
        assert_eq!(rook.spec("CephBlockPool", "images").await, images);
        assert_eq!(rook.spec("CephClient", "cinder").await["caps"]["osd"], osd);
        paused["services"]["glance"]["releases"] = json!({"glance": {"paused": false}});
        world.apply(&paused).await;
        let has_four =
            |pool: Option<&DynamicObject>| pool.is_some_and(|pool| pool.data["spec"]["replicated"]["size"] == 4);
        let changed = await_condition(rook.api("CephBlockPool"), "images", has_four);
        with_timeout("after the pause, osdpl changes the pool of images", changed).await.unwrap();

        world.delete().await;
        world.until_gone().await;
        for (kind, name) in [("CephBlockPool", "volumes"), ("CephClient", "cinder")] {
            assert!(rook.api(kind).get(name).await.unwrap().metadata.deletion_timestamp.is_none());
        }
    });
}

/// Returns a predicate for `until`. If the condition `CephReady` has this reason, and its message contains `text`, the
/// predicate returns the message.
fn condition_with(reason: &'static str, text: &'static str) -> impl FnMut(&OpenStackDeployment) -> Option<String> {
    move |cloud| {
        let condition = cloud.condition(condition::CEPH_READY)?;
        (condition.reason == reason && condition.message.contains(text)).then_some(condition.message)
    }
}

#[test]
fn reports_another_or_unhealthy_ceph_without_changes() {
    run_test("rook-changed", async |world| {
        let rook = Rook::new(world).await;
        rook.create_crds().await;
        rook.set_cluster_state("Ready", "HEALTH_OK", FSID).await;
        rook.write_monitors("a=10.0.0.1:6789").await;
        rook.write_admin_key(GLANCE).await;
        let mut spec = services(&["libvirt"]);
        spec["services"]["neutron"] = json!({"enabled": false});
        let ceph = json!({"mode": "rook", "rook": {"namespace": rook.namespace, "access": "admin"}});
        spec["features"] = json!({"storage": {"backend": "ceph", "ceph": ceph}});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let deployed = |cloud: &OpenStackDeployment| (cloud.child("libvirt").status == "deployed").then_some(());
        world.until("libvirt is deployed", deployed).await;
        world.until("CephReady is True", condition_with(reason::READY, "HEALTH_OK")).await;
        let (runs, conf) = (world.helm_runs().len(), world.api::<ConfigMap>().get("ceph-etc").await.unwrap());

        rook.set_cluster_state("Ready", "HEALTH_ERR", FSID).await;
        world.until("CephReady reports HEALTH_ERR", condition_with(reason::CEPH_ROOK, "main is in HEALTH_ERR")).await;
        rook.set_cluster_state("Ready", "HEALTH_WARN", FSID).await;
        world
            .until("CephReady is True although Ceph reports HEALTH_WARN", condition_with(reason::READY, "HEALTH_WARN"))
            .await;

        rook.set_cluster_state("Ready", "HEALTH_OK", OTHER).await;
        rook.write_monitors("a=10.9.0.1:6789").await;
        let message = world
            .until("the operator refuses a Ceph cluster with another fsid", condition_with(reason::CEPH_ANOTHER, OTHER))
            .await;
        assert!(
            message.contains(FSID) && message.contains(&format!("ConfigMap {}/ceph-etc", world.namespace)),
            "{message}"
        );
        let plan = world.osdpl(&["plan"]);
        assert!(plan.contains(OTHER), "{plan}");
        rook.write_monitors("a=10.0.0.1:6789").await;
        rook.set_cluster_state("Ready", "HEALTH_OK", FSID).await;
        world.until("the operator accepts the original Ceph cluster again", condition_with(reason::READY, FSID)).await;
        assert_eq!(world.api::<ConfigMap>().get("ceph-etc").await.unwrap().data, conf.data);
        assert_eq!(world.upgraded_since(runs), Vec::<String>::new());
    });
}

#[test]
fn access_admin_passes_the_admin_key_to_charts() {
    run_test("rook-admin", async |world| {
        let rook = Rook::new(world).await;
        rook.create_crds().await;
        rook.set_cluster_state("Ready", "HEALTH_OK", FSID).await;
        rook.write_monitors("a=10.0.0.1:6789").await;
        let pools = json!({"images": {"replicas": 2}});
        let ceph = json!({"mode": "rook", "rook": {"namespace": rook.namespace, "access": "admin", "pools": pools}});
        let spec = world.with_external(on_ceph(&ceph), &BACKENDS).await;
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world
            .until(
                "the status reports that Rook has not created the admin key yet",
                waits_for("rook-ceph-mon does not exist yet; Rook creates it for the CephCluster; if it stays missing, see the log of Rook's operator"),
            )
            .await;
        rook.write_admin_key(GLANCE).await;
        let admin = |secret: Option<&Secret>| secret.is_some();
        let secret = world
            .until_object("the operator writes the admin key for the charts", "pvc-ceph-client-key", admin)
            .await
            .unwrap();
        assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/rbd"));
        assert_eq!(secret.data.unwrap()["key"].0, GLANCE.as_bytes());

        // With `access: admin`, a Job of each chart writes a keyring, and the other pods of the chart wait for this
        // keyring. The simulated pods of these Jobs write nothing, so the test writes the keyrings.
        let job = world.until_object::<Job>(
            "the Job that creates Glance's pool for images exists",
            "glance-storage-init",
            |job| job.is_some(),
        );
        Box::pin(job).await;
        for name in ["images-rbd-keyring", "cinder-volume-rbd-keyring", "cinder-backup-rbd-keyring"] {
            let secret =
                json!({"metadata": {"name": name}, "type": "kubernetes.io/rbd", "stringData": {"key": CINDER}});
            world
                .api::<Secret>()
                .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
                .await
                .unwrap();
        }
        let cloud = world.until_ready().await;
        let ready = cloud.condition(condition::READY).unwrap().message;
        assert!(ready.contains("warning: spec.features.storage.ceph.rook.access: admin is less secure"), "{ready}");
        let values = world.helm_values("glance");
        let rbd = &values["conf"]["glance"]["rbd"];
        assert_eq!((&rbd["rbd_store_pool"], &rbd["rbd_store_replication"]), (&json!("images"), &json!(2)));
        for kind in ["CephBlockPool", "CephClient"] {
            assert_eq!(rook.api(kind).list(&ListParams::default()).await.unwrap().items.len(), 0, "{kind}");
        }

        world.delete().await;
        world.until_gone().await;
        assert!(world.api::<Secret>().get_opt("pvc-ceph-client-key").await.unwrap().is_none());
    });
}
