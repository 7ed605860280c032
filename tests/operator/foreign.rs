//! A user upgrades osdpl's releases with plain helm, or installs releases with plain helm under names from the
//! catalogue. The operator reports these releases, and changes them only when the user asks for it.

use std::path::Path;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DeleteParams;
use osdpl_core::api::{OpenStackDeployment, REPAIR, reason};
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{World, run_test};

/// Returns the path of a chart in `tests/charts`.
fn chart(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts").join(name).display().to_string()
}

/// Upgrades a release with plain helm and one changed value, as a user would.
fn upgrade_manually(world: &World, release: &str, set: &str) {
    world.helm_prints(&["upgrade", release, &chart(release), "--reset-then-reuse-values", "--set", set]);
}

/// Waits until the operator reports that osdpl did not make this revision of memcached.
async fn until_foreign(world: &World, revision: i64) {
    let what = format!("the operator reports that osdpl did not make revision {revision}");
    world
        .until(&what, |cloud| {
            let child = cloud.child("memcached");
            (cloud.reason() == reason::FOREIGN && child.revision == Some(revision)).then_some(child)
        })
        .await;
}

#[test]
fn foreign_upgrade_stays_until_spec_change_or_repair() {
    run_test("foreign", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb", "memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;

        upgrade_manually(world, "memcached", "conf.memcached.memory=512");
        until_foreign(world, 2).await;
        // When the spec changes only mariadb, the operator must upgrade mariadb and keep the user's revision of
        // memcached.
        let spec = with_values(spec, "mariadb", json!({"conf": {"database": {"my": "# ours"}}}));
        world.apply(&spec).await;
        let is_upgraded = |child: osdpl_core::api::HelmReleaseStatus| child.ready && child.revision == Some(2);
        world.until("mariadb is upgraded", |cloud| is_upgraded(cloud.child("mariadb")).then_some(())).await;
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 512);

        let spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 256}}}));
        world.apply(&spec).await;
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(3));
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 256);

        world.helm_prints(&["rollback", "memcached", "1"]);
        until_foreign(world, 4).await;
        let is_reported = |cloud: &osdpl_core::api::OpenStackDeployment| {
            let message = cloud.child("memcached").message;
            message.starts_with("osdpl did not make revision 4 (helm: \"Rollback to 1\" by hand at 2").then_some(())
        };
        world.until("the operator reports the manual rollback with its time", is_reported).await;
        assert_eq!(world.helm_runs().len(), 4);
        world.annotate(REPAIR, json!("memcached")).await;
        let repaired = world.until_ready().await;
        assert_eq!(repaired.child("memcached").revision, Some(5));
        assert_eq!(repaired.annotations().get(REPAIR), None, "the repair must remove the annotation");
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 256);
    });
}

#[test]
fn does_not_adopt_credentials_of_a_foreign_upgrade() {
    run_test("foreign-credentials", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&["mariadb"])).await;
        world.until_ready().await;
        let before = world.credentials("mariadb").await;
        upgrade_manually(world, "mariadb", "endpoints.oslo_db.auth.admin.password=changed");
        world.until_reason(reason::FOREIGN).await;
        // Delete the Secret with mariadb's credentials, so that only helm's records contain the password. The operator
        // must restore the password from the record of osdpl's revision, because the record of the user's revision
        // contains a different password.
        operator.kill();
        let secret = format!("{NAME}-credentials-mariadb");
        world.api::<Secret>().delete(&secret, &DeleteParams::default()).await.unwrap();
        let _operator = world.operator().start().await;
        world.until_object::<Secret>("the Secret is restored", &secret, |found| found.is_some()).await;
        assert_eq!(world.credentials("mariadb").await, before);
    });
}

#[test]
fn repair_restores_deleted_objects() {
    run_test("deleted", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        let name = "memcached-memcached";
        world.api::<StatefulSet>().delete(name, &DeleteParams::default()).await.unwrap();
        let is_reported = |cloud: &OpenStackDeployment| {
            cloud
                .child("memcached")
                .message
                .contains("annotate the OpenStackDeployment with osdpl.dev/repair=<release>")
                .then_some(())
        };
        world
            .until("the operator reports the deleted StatefulSet and the annotation that repairs it", is_reported)
            .await;
        world.annotate(REPAIR, json!("memcached")).await;
        let repaired = world.until_ready().await;
        assert_eq!(repaired.child("memcached").revision, Some(2));
        assert_eq!(repaired.annotations().get(REPAIR), None);
        assert_eq!(world.helm_runs().len(), 2);
    });
}

#[test]
fn skips_and_reports_unmanaged_releases() {
    run_test("unmanaged", async |world| {
        world.helm_prints(&["install", "memcached", &chart("memcached")]);
        let _operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        let cloud = world.until("mariadb is ready", |cloud| cloud.child("mariadb").ready.then(|| cloud.clone())).await;
        let child = cloud.child("memcached");
        assert_eq!((child.status.as_str(), child.revision), ("unmanaged", Some(1)));
        assert!(child.message.contains("osdpl did not install"), "{}", child.message);
        assert_eq!(cloud.reason(), reason::FOREIGN);
        world.delete().await;
        world.until_gone().await;
        assert!(world.helm_prints(&["list", "--short"]).contains("memcached"));
        assert!(world.helm_runs().iter().all(|run| run.release() == "mariadb"), "{:?}", world.helm_runs());
    });
}
