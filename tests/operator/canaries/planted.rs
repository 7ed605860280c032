//! Plants secrets, and checks that the search finds them. If the search missed secrets, the check at the end of each
//! test would prove nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use super::STATUSES;
use super::collect::{Secrets, TOKEN};
use crate::cloud::services;
use crate::nodes::Nodes;
use crate::nova::Nova;
use crate::world::{World, run_test, with_timeout};

/// A text that the test plants in many places. It is a valid name of an object, so the test can plant it in names, too.
const TEXT: &str = "planted-canary-7f3a9";

/// A key of a Ceph user, in the format of `ceph auth print-key`. It belongs to no real Ceph cluster.
const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqamplanted==";

#[test]
fn collects_secrets_that_no_longer_exist() {
    run_test("canary-collect", async |world| {
        let secrets = world.api::<Secret>();
        let object = json!({"metadata": {"name": "own"}, "stringData": {"pw": "first-value"}});
        secrets.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        world.collector.collected().await;
        let changed = Patch::Merge(json!({"stringData": {"pw": "second-value"}}));
        secrets.patch("own", &PatchParams::default(), &changed).await.unwrap();
        world.collector.collected().await;
        drop(secrets.delete("own", &DeleteParams::default()).await.unwrap());
        let all = world.collector.collected().await.all;
        assert_eq!(all, [TOKEN, "first-value", "second-value"].map(str::to_owned).into());
    });
}

#[test]
fn finds_tokens_of_the_fake_keystone() {
    run_test("canary-tokens", async |world| {
        let (token, _) = Nova::default().token();
        let file = world.folder.path().join("operator.planted");
        std::fs::write(&file, STANDARD.encode(format!("x-auth-token: {token}\n"))).unwrap();
        let leaks = world.leaks_of(&world.collector.collected().await).await;
        assert_eq!(leaks.into_iter().map(|(place, _)| place).collect::<Vec<_>>(), ["operator.planted"]);
        std::fs::remove_file(file).unwrap();
    });
}

/// Waits until the operator has started helm, and returns helm's process ID.
async fn until_helm_runs(world: &World) -> i32 {
    let started = async {
        loop {
            match world.helm_runs().pop() {
                Some(run) => return run.pid,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    with_timeout("helm runs", started).await
}

/// Creates objects that contain [`TEXT`] or [`KEY`]. Returns the objects in which the search must find them.
async fn plant_in_objects(world: &World, nodes: &mut Nodes<'_>) -> Vec<String> {
    let ours = PatchParams::apply(osdpl_core::api::MANAGER);
    let map = |name: &str| {
        let data = json!({"file": STANDARD.encode(format!("user: nova, password: {TEXT}\n"))});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
    };
    world.api::<ConfigMap>().patch("ours", &ours, &Patch::Apply(map("ours"))).await.unwrap();
    let chart = serde_json::from_value(map("of-chart")).unwrap();
    world.api::<ConfigMap>().create(&PostParams::default(), &chart).await.unwrap();
    let container = |value: &str| json!([{"name": "main", "image": "none", "env": [{"name": "KEY", "value": value}]}]);
    let pod = json!({"metadata": {"name": "keyed"}, "spec": {"containers": container(KEY)}});
    world.api::<Pod>().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let pod = json!({"metadata": {"name": "annotated", "annotations": {"note": TEXT}}, "spec": {"containers": container("")}});
    world.api::<Pod>().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let node = nodes.add("labelled", json!({"note": TEXT})).await;
    ["ConfigMap ours", "Pod keyed", "Pod annotated", &format!("Node {node}")].map(str::to_owned).to_vec()
}

/// Writes files that contain [`TEXT`]. Returns the files in which the search must find it: not `private`, which only
/// its owner can read.
fn plant_in_files(world: &World) -> Vec<&'static str> {
    let folder = world.folder.path();
    for (name, mode) in [
        ("cache/values.yaml", 0o600),
        ("temporary/values", 0o600),
        ("helm.log.planted", 0o600),
        ("out", 0o640),
        ("private", 0o600),
    ] {
        std::fs::write(folder.join(name), format!("password: {TEXT}")).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    vec!["cache/values.yaml", "temporary/values", "helm.log.planted", "out"]
}

#[test]
fn finds_secrets_in_each_place() {
    run_test("canary-places", async |world| {
        let mut nodes = Nodes::of(world);
        let operator = world.operator().pod(TEXT).start().await;
        let planted = Secrets { all: BTreeSet::from([TEXT.to_owned()]), ceph: BTreeSet::from([KEY.to_owned()]) };
        // The resource and the operator's pod have the planted text as their names, so all outputs of the operator and
        // of helm contain it.
        world.block_helm();
        let temporary = world.folder.path().join("temporary/deleted");
        std::fs::write(&temporary, format!("password: {TEXT}")).unwrap();
        world.apply_as(TEXT, &services(&["memcached"])).await;
        operator.check_no_core_dumps(until_helm_runs(world).await);
        std::fs::remove_file(temporary).unwrap();
        world.release_helm().await;
        world
            .until_of(TEXT, "the cloud is Ready", |cloud| crate::cloud::StatusAccess::is_ready(cloud).then_some(()))
            .await;
        world.osdpl(&["status", TEXT]);
        let mut expected = plant_in_objects(world, &mut nodes).await;
        expected.extend(plant_in_files(world).into_iter().map(str::to_owned));
        operator.kill();
        let processes =
            String::from_utf8(std::fs::read(world.folder.path().join("operator.process")).unwrap()).unwrap();
        assert!(processes.contains("\0guard-helm\0"), "the command line of the guard must be searched, too");
        for place in [
            "OpenStackDeployment planted",
            "Event ",
            "Secret planted",
            "Lease osdpl",
            "operator.log",
            "operator.process",
            "operator.metrics",
            "helm.log.files",
            "commands.log",
        ] {
            expected.push(place.to_owned());
        }
        let leaks = world.leaks_of(&planted).await;
        let is_found = |place: &String| leaks.iter().any(|(found, _)| found.starts_with(place.as_str()));
        let missed: Vec<_> = expected.iter().filter(|place| !is_found(place)).collect();
        assert!(missed.is_empty(), "the search must find secrets in {missed:?}, and found {leaks:#?}");
        let is_allowed = |(place, _): &&super::Leak| place == "private" || place == "ConfigMap of-chart";
        assert_eq!(leaks.iter().find(is_allowed), None);
        nodes.remove_all().await;
    });
}

#[test]
fn finds_secrets_in_overwritten_and_deleted_statuses() {
    run_test("canary-statuses", async |world| {
        let (clouds, name) = (world.deployments(), "overwritten");
        world.apply_as(name, &services(&["memcached"])).await;
        // Wait until the collector has listed the resource: its watch reports each version that follows.
        world.collector.collected().await;
        for message in [TEXT, "no secret"] {
            let status = Patch::Merge(json!({"status": {"message": message}}));
            clouds.patch_status(name, &PatchParams::default(), &status).await.unwrap();
        }
        let planted = Secrets { all: BTreeSet::from([TEXT.to_owned()]), ..Secrets::default() };
        for is_deleted in [false, true] {
            if is_deleted {
                world.delete_named(name).await;
                world
                    .until_object::<OpenStackDeployment>("the resource is deleted", name, |found| found.is_none())
                    .await;
            }
            world.collector.collected().await;
            let places: Vec<_> = world.leaks_of(&planted).await.into_iter().map(|(place, _)| place).collect();
            assert_eq!(places, [STATUSES], "only the file of statuses must still contain the message");
        }
    });
}
