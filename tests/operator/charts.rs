//! Tests charts that a user edits while the operator runs, and a chart repository that does not respond.

mod republished;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cluster::Rule;
use osdpl_core::api::{APPROVE, OpenStackDeployment, reason};
use serde_json::json;

use crate::approval::{copy, newer_catalogue};
use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, run_test};

/// Returns the path of a copy of `tests/charts`, which the test may change.
fn folder(world: &World) -> PathBuf {
    let folder = world.folder.path().join("charts");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts"), &folder);
    folder
}

/// Changes the content of the chart in this folder, but not its version. Each `number` results in different content.
fn edit(chart: &Path, number: u32) {
    let object = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: edited-{number}}}\n");
    std::fs::write(chart.join("templates/edited.yaml"), object).unwrap();
}

/// Adds a chart archive to the operator's cache, as if the operator had last used the archive two hours ago. Returns
/// the path of the archive.
fn old_archive(world: &World) -> PathBuf {
    let path = world.cache().join("charts/archives/memcached-2026.0.1-0123456789ab.tgz");
    let file = std::fs::File::create(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(2)).unwrap();
    path
}

/// Triggers a reconcile pass through a change of an annotation of the OpenStackDeployment.
async fn trigger_reconcile(world: &World, text: &str) {
    world.annotate("test/trigger", json!(text)).await;
}

/// Checks that the approval `first`, which a person gave for an earlier edit of memcached's chart, does not approve the
/// present content. Returns the hash that approves the present content.
async fn check_outdated_approval(world: &World, first: &str) -> String {
    trigger_reconcile(world, "edited again").await;
    let newer = |cloud: &OpenStackDeployment| cloud.status().approval.filter(|hash| hash != first);
    let second = world.until("the second edit waits for approval", newer).await;
    world.annotate(APPROVE, json!(first)).await;
    // Change a field of the spec that has no effect on releases. The approval came before this change. So when the
    // operator has observed the change, it has also observed the approval.
    let mut spec = services(&["mariadb", "memcached"]);
    spec["deletionPolicy"] = json!("Retain");
    let generation = world.apply(&spec).await.metadata.generation;
    let is_observed =
        |cloud: &OpenStackDeployment| (cloud.status().observed_generation == generation).then(|| cloud.clone());
    let cloud = world.until("the operator observes the approval", is_observed).await;
    assert_eq!((cloud.reason().as_str(), cloud.status().approval.as_ref()), (reason::APPROVAL, Some(&second)));
    assert_eq!(world.helm_runs().len(), 2, "the approval of the first edit must not cover the second one");
    second
}

#[test]
fn edited_chart_needs_approval_and_locked_one_is_refused() {
    run_test("charts", async |world| {
        let charts = folder(world);
        let operator = world.operator().charts(&charts).start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        let digest = world.until_ready().await.child("memcached").chart_digest.unwrap();

        edit(&charts.join("memcached"), 1);
        trigger_reconcile(world, "edited").await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert_ne!(cloud.child("memcached").chart_digest, Some(digest.clone()));
        assert_eq!(
            cloud.child("memcached").changes,
            ["(no value changes, but the chart, helm's version or helm's flags do)"]
        );
        assert!(cloud.child("mariadb").ready);
        assert_eq!(
            world.helm_runs().len(),
            2,
            "the operator must not upgrade a release to an edited chart without approval"
        );
        let first = cloud.status().approval.unwrap();
        assert!(world.osdpl(&["plan"]).ends_with(&format!(" {first}\n")));

        edit(&charts.join("memcached"), 2);
        let hash = check_outdated_approval(world, &first).await;
        world.osdpl(&["approve", &hash]);
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));

        std::fs::remove_file(charts.join("memcached/templates/edited.yaml")).unwrap();
        trigger_reconcile(world, "put back").await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert_eq!(
            cloud.child("memcached").chart_digest,
            Some(digest.clone()),
            "after the edit is reverted, the status must contain the digest of the original chart"
        );
        assert!(operator.stop().await.success());

        let catalogue = newer_catalogue(world);
        let lock = format!("charts: {{memcached: {{version: 2026.1.0, digest: {digest:?}}}}}\n");
        std::fs::write(catalogue.join("values/lock.yaml"), lock).unwrap();
        let outdated = old_archive(world);
        let _operator = world.operator().charts(&charts).catalog(&catalogue).start().await;
        assert!(!outdated.exists(), "the operator must remove unused archives from its cache when it starts");
        let before = cloud.status().approval;
        let newer = |cloud: &OpenStackDeployment| cloud.status().approval.filter(|hash| Some(hash) != before.as_ref());
        let hash = world.until("the operator requests approval for the newer catalogue", newer).await;
        world.osdpl(&["approve", &hash]);
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(3));
        edit(&charts.join("memcached"), 3);
        trigger_reconcile(world, "edited against the lock").await;
        let message = world.until("the chart is refused", |cloud| {
            let child = cloud.child("memcached");
            (!child.ready && child.message.contains("digest")).then_some(child.message)
        });
        let message = message.await;
        assert!(
            message.contains(&format!("the lock has {digest}")) && message.contains("osdpl charts lock"),
            "{message}"
        );
        let why = world.run(&["why", "memcached", "--catalog", catalogue.to_str().unwrap()]);
        let text = String::from_utf8(why.stdout).unwrap();
        assert_eq!(why.status.code(), Some(2), "{text}");
        assert!(text.starts_with("release memcached is not ready: ") && text.contains(&digest), "{text}");
        assert_eq!(world.helm_runs().len(), 4);
    });
}

#[test]
fn edited_chart_of_a_requested_version_needs_approval() {
    run_test("charts-version", async |world| {
        let charts = folder(world);
        let _operator = world.operator().charts(&charts).start().await;
        let file = charts.join("memcached/Chart.yaml");
        let set_version = |before: &str, after: &str| {
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.replace(&format!("version: {before}"), &format!("version: {after}"))).unwrap();
        };
        let mut spec = services(&["memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;

        // The user sets a chart version in the spec for the first time. The operator must upgrade without approval.
        set_version("2026.1.0", "2026.1.1");
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"version": "2026.1.1"});
        world.apply(&spec).await;
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));

        edit(&charts.join("memcached"), 1);
        trigger_reconcile(world, "edited").await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        let message = cloud.status().message;
        assert!(message.contains("the content of its chart changed under the same version"), "{message}");
        assert_eq!(world.helm_runs().len(), 2, "the operator must not upgrade to an edited chart without approval");
        let hash = cloud.status().approval.unwrap();
        assert!(world.osdpl(&["plan"]).ends_with(&format!(" {hash}\n")));

        // A change of the release's values must not approve the edited chart. When the user then sets a new chart
        // version in the spec, the operator must upgrade without approval.
        world.apply(&with_values(spec.clone(), "memcached", json!({"conf": {"memcached": {"memory": 300}}}))).await;
        world.until_reason(reason::APPROVAL).await;
        set_version("2026.1.1", "2026.1.2");
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"version": "2026.1.2"});
        world.apply(&spec).await;
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(3));
    });
}

#[test]
fn watches_the_cloud_while_charts_are_unavailable() {
    run_test("no-charts", async |world| {
        // Kubernetes' timestamps have whole seconds. So the operator can notice that a pod became unready only if the
        // pod started in an earlier second. Delay mariadb's pod: then the cloud becomes Ready at least one second after
        // the start of memcached's pod. After that, the test makes memcached's pod unready.
        let slow =
            Rule { behaviour: None, delay: Some("2s".into()), ..Rule::new(&world.namespace, "mariadb-server", "") };
        world.cluster().behaviour("slow", &slow).await.unwrap();
        let spec = services(&["mariadb", "memcached"]);
        let operator = world.operator().start().await;
        world.apply(&spec).await;
        let before = world.until_ready().await;
        assert!(operator.stop().await.success());

        // This listener is a chart repository that accepts connections and never responds.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let repository = format!("http://{}", silent.local_addr().unwrap());
        let setup = world.operator().charts(Path::new(&repository)).arguments(&["--allow-http-charts"]);
        let _operator = setup.start().await;
        let unready = Rule { behaviour: None, ready: Some(false), ..Rule::new(&world.namespace, "memcached-", "") };
        world.cluster().behaviour("unready", &unready).await.unwrap();
        let cloud = world.until_reason(reason::UNHEALTHY).await;
        assert_eq!(cloud.status().releases, "1/2");
        assert_eq!(cloud.child("memcached").chart_digest, before.child("memcached").chart_digest);
        world.cluster().remove_rule("unready").await.unwrap();
        assert_eq!(world.until_ready().await.status().children, before.status().children);

        world.apply(&with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 256}}}))).await;
        let is_waiting = |cloud: &OpenStackDeployment| {
            (cloud.child("memcached").message == "chart memcached is being fetched").then_some(())
        };
        world.until("memcached's upgrade waits for its chart", is_waiting).await;
        assert_eq!(world.helm_runs().len(), 2);
    });
}
