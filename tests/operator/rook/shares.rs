//! Tests Manila's shares on a Ceph file system that Rook creates. The tests install only Manila's share service,
//! because this service needs no other service.

use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use super::{FSID, GLANCE, NEWER, Rook, waits_for};
use crate::approval::{copy, newer_catalogue};
use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

const SERVICE: &str = "\
service: manila
description: Shares.
group: openstack
releases:
  manila:
    components: {manila/share: Deployment}
    values: {user: \"${ceph.manila.user}\", pool: \"${ceph.manila.pool}\", digest: \"${ceph.manila.digest}\"}
";

/// The chart template of manila's share service. The pods of its Deployment mount ceph.conf and the keyring, so these
/// pods start only when osdpl has written both.
const TEMPLATE: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: manila-share, labels: {application: manila, component: share}}
spec:
  selector: {matchLabels: {application: manila, component: share}}
  template:
    metadata:
      labels: {release_group: {{ .Release.Name }}, application: manila, component: share}
      annotations: {osdpl.dev/ceph: {{ .Values.digest }}, user: {{ .Values.user }}, pool: {{ .Values.pool }}}
    spec:
      containers: [{name: share, image: example.org/manila}]
      volumes:
      - {name: ceph-etc, configMap: {name: ceph-etc}}
      - {name: key, secret: {secretName: manila-keyring}}
";

/// Creates a catalogue and charts in which manila consists only of its share service. Returns the folder of the
/// catalogue and the folder of the charts.
fn with_manila(world: &World) -> (PathBuf, PathBuf) {
    let catalogue = newer_catalogue(world);
    std::fs::write(catalogue.join("values/services/manila.yaml"), SERVICE).unwrap();
    let charts = world.folder.path().join("charts");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts"), &charts);
    std::fs::remove_dir_all(charts.join("manila")).unwrap();
    std::fs::create_dir_all(charts.join("manila/templates")).unwrap();
    std::fs::write(charts.join("manila/Chart.yaml"), "{apiVersion: v2, name: manila, version: 1.0.0}\n").unwrap();
    std::fs::write(charts.join("manila/templates/deployment.yaml"), TEMPLATE).unwrap();
    (catalogue, charts)
}

#[test]
fn shares_get_a_file_system_and_follow_its_key() {
    run_test("shares", async |world| {
        let rook = Rook::new(world).await;
        rook.create_crds().await;
        rook.set_cluster_state("Ready", "HEALTH_OK", FSID).await;
        rook.write_monitors("a=10.0.0.1:6789").await;
        let (catalogue, charts) = with_manila(world);
        let _operator = world.operator().catalog(&catalogue).charts(&charts).start().await;
        let mut spec = services(&["manila"]);
        let ceph = json!({"mode": "rook", "rook": {"namespace": rook.namespace, "pools": {"shares": {"replicas": 2}}}});
        spec["features"] = json!({"storage": {"backend": "ceph", "ceph": ceph}});
        world.apply(&spec).await;
        rook.until_requested("CephFilesystem", "shares").await;
        rook.until_requested("CephClient", "manila").await;
        let filesystem = rook.spec("CephFilesystem", "shares").await;
        assert_eq!(filesystem["dataPools"][0]["replicated"]["size"], 2, "{filesystem}");
        let caps = json!({"mon": "allow r", "mgr": "allow rw"});
        assert_eq!(
            rook.spec("CephClient", "manila").await["caps"],
            caps,
            "manila must have access to Ceph's manager, because it creates subvolumes through the manager"
        );

        rook.write_user_key("manila", GLANCE).await;
        world.until("the operator waits until Rook has created the file system", waits_for("CephFilesystem")).await;
        rook.set_ready("CephFilesystem", "shares").await;
        rook.set_ready("CephClient", "manila").await;
        world.until_ready().await;
        assert_eq!(world.keyring("manila-keyring").await.0, GLANCE);
        let pods = world.api::<Deployment>().get("manila-share").await.unwrap().spec.unwrap().template;
        assert_eq!(pods.metadata.unwrap().annotations.unwrap()["user"], "manila");

        rook.write_user_key("manila", NEWER).await;
        let newer =
            |cloud: &OpenStackDeployment| (cloud.is_ready() && cloud.child("manila").revision == Some(2)).then_some(());
        world.until("manila has the newer key", newer).await;
        assert_eq!(world.keyring("manila-keyring").await.0, NEWER);
    });
}
