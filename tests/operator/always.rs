//! With `approval: Always`, the operator applies no change of the spec until a person approves the change. This also
//! holds for changes outside of releases, such as labels of nodes.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::ResourceExt;
use osdpl_core::api::{APPROVE, OpenStackDeployment, Phase, condition, reason};
use serde_json::{Value, json};

use crate::approval::SMALL;
use crate::cloud::{BACKENDS, StatusAccess, services, with_values};
use crate::interrupted::{hang_job, until_hook};
use crate::nodes::{COMPUTE, Nodes, SWITCH};
use crate::rook::{Rook, on_ceph};
use crate::world::{World, run_test};

/// Returns a spec with `approval: Always` and these services.
fn always(names: &[&str]) -> Value {
    let mut spec = services(names);
    spec["approval"] = json!("Always");
    spec
}

#[test]
fn always_holds_back_each_new_target() {
    run_test("always", async |world| {
        let _operator = world.operator().start().await;
        let spec = always(&SMALL);
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert!(cloud.status().message.starts_with("mariadb, memcached would be installed; "), "{:?}", cloud.status());
        assert_eq!(world.helm_runs().len(), 0, "the first install must wait for approval");
        let first = cloud.status().approval.unwrap();
        let plan = world.osdpl(&["plan"]);
        assert!(plan.contains("waits for approval") && plan.ends_with(&format!(" {first}\n")), "{plan}");
        world.osdpl(&["approve", &first]);
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().approved_target.as_ref(), Some(&first));
        let is_consumed = |cloud: &OpenStackDeployment| (!cloud.annotations().contains_key(APPROVE)).then_some(());
        world.until("the operator removes the approval", is_consumed).await;

        let memory = |size: u32| json!({"conf": {"memcached": {"memory": size}}});
        world.apply(&with_values(spec.clone(), "memcached", memory(300))).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert_eq!(cloud.child("memcached").changes, ["conf.memcached.memory"]);
        // Approve the hash `first` a second time, while the status still contains this hash as the approved target.
        // This approval must not apply to the next changes, because each of them has another target hash.
        world.annotate(APPROVE, json!(first)).await;
        world.apply(&with_values(spec.clone(), "memcached", memory(301))).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert_eq!(world.helm_runs().len(), 2, "a change of the spec must wait for approval");
        assert!(cloud.child("mariadb").ready);
        world.osdpl(&["approve", &cloud.status().approval.unwrap()]);
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 301);
    });
}

#[test]
fn approved_install_continues_after_a_crash() {
    run_test("always-crash", async |world| {
        hang_job(world, "keystone-fernet-setup").await;
        let operator = world.operator().start().await;
        world.apply(&world.with_external(always(&["keystone", "placement"]), &BACKENDS).await).await;
        let hash = world.until_reason(reason::APPROVAL).await.status().approval.unwrap();
        world.osdpl(&["approve", &hash]);
        until_hook(world, "keystone", "keystone-fernet-setup").await;
        operator.kill();
        assert!(world.helm_runs().iter().all(|run| run.release() != "placement"), "placement must wait for keystone");
        world.cluster().remove_rule("keystone-fernet-setup").await.unwrap();
        let _operator = world.operator().start().await;
        let cloud = world.until_ready().await;
        assert_eq!((cloud.status().releases.as_str(), cloud.status().approved_target), ("2/2", Some(hash)));
    });
}

#[test]
fn new_target_holds_back_the_rest_of_the_old_one() {
    run_test("always-again", async |world| {
        hang_job(world, "keystone-fernet-setup").await;
        let _operator = world.operator().start().await;
        let spec = always(&["keystone", "memcached", "placement"]);
        let spec = world.with_external(spec, &["mariadb", "rabbitmq"]).await;
        world.apply(&spec).await;
        let first = world.until_reason(reason::APPROVAL).await.status().approval.unwrap();
        world.osdpl(&["approve", &first]);
        until_hook(world, "keystone", "keystone-fernet-setup").await;

        // Change memcached while helm installs keystone, and before the operator installs placement. The target hash
        // changes, so the approval of the first hash must no longer apply to placement.
        let memory = json!({"conf": {"memcached": {"memory": 300}}});
        world.apply(&with_values(spec, "memcached", memory)).await;
        let waits =
            |cloud: &OpenStackDeployment, release: &str| cloud.child(release).message.contains("waits for approval");
        let new_hash = |cloud: &OpenStackDeployment| {
            let both_wait = waits(cloud, "memcached") && waits(cloud, "placement");
            cloud.status().approval.filter(|hash| both_wait && *hash != first)
        };
        let second = world.until("memcached and placement wait for approval", new_hash).await;
        // The operator must let the helm process for keystone finish, because it started with the first approval.
        world.cluster().remove_rule("keystone-fernet-setup").await.unwrap();
        let is_installed = |cloud: &OpenStackDeployment| cloud.child("keystone").ready.then(|| cloud.clone());
        let cloud = world.until("keystone is installed", is_installed).await;
        assert!(waits(&cloud, "memcached") && waits(&cloud, "placement"), "{:?}", cloud.status());
        assert_eq!(cloud.status().approval.as_ref(), Some(&second));
        let runs: Vec<_> = world.helm_runs().iter().map(|run| run.release().to_owned()).collect();
        assert_eq!((runs.len(), runs.contains(&"placement".to_owned())), (2, false), "{runs:?}");

        world.osdpl(&["approve", &second]);
        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("memcached").revision, cloud.child("placement").revision), (Some(2), Some(1)));
    });
}

/// Waits until all releases are ready, changes of objects outside of releases wait for approval, and the message of the
/// Ready condition contains `text`. Returns the OpenStackDeployment.
async fn until_objects_wait(world: &World, text: &str) -> OpenStackDeployment {
    let waits = |cloud: &OpenStackDeployment| {
        let message = cloud.condition(condition::READY).filter(|ready| ready.status == "True")?.message;
        (cloud.status().phase == Some(Phase::AwaitingApproval) && message.contains(text)).then(|| cloud.clone())
    };
    world.until("changes of objects wait for approval", waits).await
}

async fn published_address(world: &World) -> String {
    let endpoints = world.api::<Endpoints>().get("memcached").await.unwrap();
    endpoints.subsets.unwrap()[0].addresses.as_ref().unwrap()[0].ip.clone()
}

#[test]
fn always_holds_back_labels_and_external_services() {
    run_test("always-objects", async |world| {
        let mut nodes = Nodes::of(world);
        let first = nodes.add("first", json!({})).await;
        let second = nodes.add("second", json!({})).await;
        let mut spec = always(&SMALL);
        spec["services"]["memcached"]["external"] = json!({"host": "192.0.2.7"});
        let late = format!("{}-late", world.namespace);
        spec["nodes"] = json!({"roles": {"compute": {"names": [first, late]}}});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        let message = cloud.status().message;
        let begin = "mariadb would be installed; also, osdpl would apply Service";
        assert!(message.starts_with(begin) && message.contains("(and 2 more)"), "{message}");
        let plan = world.osdpl(&["plan"]);
        let labels = format!(
            "node {first}: labels +openstack-compute-node=enabled +openvswitch=enabled: the spec assigns these roles to the node: waits for approval"
        );
        assert!(plan.contains(&labels), "{plan}");
        assert!(plan.contains("/memcached: pods wait for a Service of this name: waits for approval"), "{plan}");
        nodes.until_labels(&first, &[]).await;
        assert!(world.api::<Service>().get_opt("memcached").await.unwrap().is_none());
        world.osdpl(&["approve"]);
        world.until_ready().await;
        nodes.until_labels(&first, &[COMPUTE, SWITCH]).await;
        assert_eq!(published_address(world).await, "192.0.2.7");
        let runs = world.helm_runs().len();

        // The approved spec already names the node `late`. So the operator must label this new node without a new
        // approval, even while a change of mariadb waits for approval.
        let change = json!({"conf": {"database": {"my_cnf": "[mysqld]"}}});
        world.apply(&with_values(spec.clone(), "mariadb", change)).await;
        world.until_reason(reason::APPROVAL).await;
        nodes.add("late", json!({})).await;
        nodes.until_labels(&late, &[COMPUTE, SWITCH]).await;
        assert_eq!(world.helm_runs().len(), runs, "the change of mariadb must wait for approval");

        spec["services"]["memcached"]["external"] = json!({"host": "192.0.2.8"});
        world.apply(&spec).await;
        let cloud = until_objects_wait(world, "would apply Endpoints").await;
        assert_eq!(published_address(world).await, "192.0.2.7");
        world.osdpl(&["approve", &cloud.status().approval.unwrap()]);
        let is_published = |found: Option<&Endpoints>| {
            let text = found.map(|endpoints| json!(endpoints).to_string()).unwrap_or_default();
            text.contains("192.0.2.8") && !text.contains("192.0.2.7")
        };
        world.until_object("the Endpoints contain the new host", "memcached", is_published).await;

        spec["nodes"]["roles"]["compute"]["names"] = json!([first, late, second]);
        world.apply(&spec).await;
        until_objects_wait(world, &format!("to the nodes {second}")).await;
        nodes.until_labels(&second, &[]).await;
        // The user can revert a change that waits for approval. The revert itself needs no approval.
        spec["nodes"]["roles"]["compute"]["names"] = json!([first, late]);
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert_eq!((cloud.status().phase, cloud.status().approval), (Some(Phase::Ready), None));
        assert_eq!(world.helm_runs().len(), runs, "changes of objects must not start helm");

        spec["services"]["memcached"] = json!({"enabled": false});
        world.apply(&spec).await;
        let cloud = until_objects_wait(world, "would delete Service").await;
        world.osdpl(&["approve", &cloud.status().approval.unwrap()]);
        world.until_object::<Service>("the Service is deleted", "memcached", |found| found.is_none()).await;
        nodes.remove_all().await;
    });
}

#[test]
fn always_holds_back_objects_of_rook() {
    run_test("always-rook", async |world| {
        let rook = Rook::new(world).await;
        rook.create_crds().await;
        rook.set_cluster_state("Ready", "HEALTH_OK", "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b").await;
        let mut spec = on_ceph(&json!({"mode": "rook", "rook": {"namespace": rook.namespace}}));
        // Install the backends in the cluster. The message names only the first objects that wait, which would be the
        // Services of external backends.
        for backend in BACKENDS {
            spec["services"][backend] = json!({"enabled": true});
        }
        spec["approval"] = json!("Always");
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert!(cloud.status().message.contains("osdpl would apply CephBlockPool"), "{:?}", cloud.status());
        assert!(rook.api("CephBlockPool").get_opt("images").await.unwrap().is_none());
        // Wait for the hash, because the operator writes it into the status only after it has fetched all charts.
        let hash = world.until("the status contains the hash to approve", |cloud| cloud.status().approval).await;
        world.osdpl(&["approve", &hash]);
        rook.until_requested("CephBlockPool", "images").await;
    });
}
