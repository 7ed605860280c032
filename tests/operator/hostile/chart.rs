//! A person uninstalls the operator's chart while a cloud exists. The cloud must survive. After a new install of the
//! chart, the operator must continue to manage the cloud.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use osdpl_core::api::FINALIZER;
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services};
use crate::pool::{SYSTEM, install_chart};
use crate::world::{World, now, run_test};

const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// Uninstalls the operator's chart as a user would.
fn uninstall_chart(world: &World) {
    let output = world.run_helm_in(SYSTEM.0, &["uninstall", SYSTEM.1]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Installs the operator's chart again, and writes a new kubeconfig for the operator: the token in the old one belongs
/// to the deleted ServiceAccount.
async fn reinstall_chart(world: &World) {
    install_chart(world.cluster(), &[]);
    let kubeconfig = world.cluster().kubeconfig_for(SYSTEM.0, SYSTEM.1).await.unwrap();
    assert_eq!(kubeconfig, world.plane().operator);
}

#[test]
fn cloud_survives_the_operators_chart() {
    run_test("chart-gone", async |world| {
        world.allow_errors();
        let operator = world.operator().start().await;
        let spec = services(&SMALL);
        world.apply(&spec).await;
        world.until_ready().await;
        let credentials = world.all_credentials().await;

        // After the uninstall of the chart, the operator's process still runs, but has no rights. It can't renew the
        // Lease, so it must end.
        world.until_quiet().await;
        let since = now();
        uninstall_chart(world);
        assert!(!operator.ended().await.success());
        let log = world.operator_log();
        assert!(log.contains("could not renew its Lease for 10 s"), "{log}");
        assert_eq!(world.helm_runs().len(), SMALL.len());
        assert_eq!(world.writes_since(since).iter().filter(|entry| entry.code < 400).count(), 0);
        let cloud = world.deployments().get(NAME).await.unwrap();
        assert_eq!(cloud.finalizers(), [FINALIZER], "the uninstall of the chart must keep the CRD and the resource");

        // No operator runs that could uninstall the cloud. So the finalizer must keep the resource until the chart is
        // installed again.
        world.delete().await;
        let waiting = world.deployments().get(NAME).await.unwrap();
        assert!(waiting.metadata.deletion_timestamp.is_some());
        reinstall_chart(world).await;
        let operator = world.operator().start().await;
        world.until_gone().await;
        assert_eq!(world.helm_runs().len(), 2 * SMALL.len());
        assert_eq!(world.all_credentials().await, credentials);

        // No operator runs when a person deletes the cloud and removes its finalizer. The resource disappears, but the
        // releases must stay installed.
        world.apply(&spec).await;
        world.until_ready().await;
        let hint = "No operator is active";
        assert!(!world.osdpl(&["status"]).contains(hint));
        assert!(operator.stop().await.success());
        uninstall_chart(world);
        let status = world.osdpl(&["status"]);
        assert!(status.contains(hint) && status.contains("start the operator, or install its chart"), "{status}");
        world.delete().await;
        let loose = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        world.deployments().patch(NAME, &PatchParams::default(), &loose).await.unwrap();
        world.until_gone().await;
        assert!(world.helm_prints(&["list", "--short"]).lines().eq(SMALL));
        reinstall_chart(world).await;
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let revisions = SMALL.map(|release| cloud.child(release).revision);
        assert_eq!(revisions, [Some(1); 2], "a new resource must take over the releases without an upgrade");
    });
}
