//! Tests changes of releases that do not come from the spec, for example because a newer catalogue has other values.
//! The operator applies such changes only after approval.

use std::path::{Path, PathBuf};

use kube::ResourceExt;
use osdpl_core::api::{APPROVE, reason};
use osdpl_core::plan::HASH_DIGITS;
use serde_json::json;

use crate::cloud::{BACKENDS, StatusAccess, services};
use crate::helm::Run;
use crate::world::{World, run_test};

pub const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// Creates a newer catalogue: a copy of the shipped catalogue with one more value for memcached. Returns its folder.
pub fn newer_catalogue(world: &World) -> PathBuf {
    let folder = world.folder.path().join("catalogue");
    for part in ["values", "presets"] {
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(part), &folder.join(part));
    }
    let file = folder.join("values/services/memcached.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let components = "    components:\n";
    assert!(text.contains(components), "{text}");
    let values = "    values: {conf: {memcached: {memory: 2048}}}\n";
    std::fs::write(&file, text.replace(components, &format!("{values}{components}"))).unwrap();
    folder
}

/// Copies a folder with its subfolders. If the folder contains a symbolic link, copies the target of the link.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn catalogue_changes_wait_for_approval() {
    run_test("catalogue", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&SMALL)).await;
        world.until_ready().await;
        assert!(operator.stop().await.success());

        let _operator = world.operator().catalog(&newer_catalogue(world)).start().await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert_eq!(cloud.child("memcached").changes, ["conf.memcached.memory"]);
        assert!(cloud.child("mariadb").ready, "{:?}", cloud.child("mariadb"));
        assert_eq!(world.helm_runs().len(), 2);
        let hash = cloud.status().approval.unwrap();
        let newer = newer_catalogue(world);
        let plan = world.osdpl(&["plan", "--catalog", newer.to_str().unwrap()]);
        assert!(plan.contains("changes conf.memcached.memory") && plan.contains(&hash), "{plan}");
        let refused = world.osdpl_fails(&["approve", &"0".repeat(HASH_DIGITS)]);
        assert!(refused.contains(&format!("other changes are pending by now ({hash})")), "{refused}");
        assert_eq!(world.osdpl(&["approve", &hash]), format!("approved {hash}\n"));

        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("memcached").revision, cloud.child("mariadb").revision), (Some(2), Some(1)));
        assert_eq!(cloud.status().approval, None);
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 2048);
        assert_eq!(world.helm_runs().len(), 3);
        assert_eq!(world.osdpl_fails(&["approve"]), "osdpl: nothing waits for approval\n");
    });
}

#[test]
fn automatic_approval_does_not_wait() {
    run_test("automatic", async |world| {
        let mut spec = services(&SMALL);
        spec["approval"] = json!("Automatic");
        let operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        assert!(operator.stop().await.success());
        let _operator = world.operator().catalog(&newer_catalogue(world)).start().await;
        world
            .until("the operator has upgraded memcached with the newer catalogue", |cloud| {
                (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
            })
            .await;
        spec["services"]["memcached"]["enabled"] = json!(false);
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert!(!cloud.status().children.contains_key("memcached"), "{:?}", cloud.status().children);
    });
}

#[test]
fn uninstalls_wait_for_approval() {
    run_test("uninstall", async |world| {
        let mut spec = services(&SMALL);
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        spec["services"]["memcached"]["enabled"] = json!(false);
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert!(cloud.status().message.starts_with("memcached would be uninstalled"), "{}", cloud.status().message);
        assert_eq!(cloud.child("memcached").status, "deployed");
        world.osdpl(&["approve"]);
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().releases, "1/1");
        let last = world.helm_runs().pop().unwrap();
        assert_eq!((last.verb(), last.release()), ("uninstall", "memcached"));
        assert_eq!(cloud.annotations().get(APPROVE), None, "the uninstall must consume the approval");

        spec["services"]["memcached"]["enabled"] = json!(true);
        world.apply(&spec).await;
        assert_eq!(world.until_ready().await.status().releases, "2/2");
        spec["services"]["memcached"]["enabled"] = json!(false);
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert_eq!(
            cloud.child("memcached").status,
            "deployed",
            "the second uninstall of memcached must need a new approval"
        );
    });
}

#[test]
fn installs_new_network_backend_before_removing_the_old() {
    run_test("backend", async |world| {
        let with = async |backend: &str| {
            let spec = json!({
                "openstackRelease": "2026.1", "presets": ["core"], "services": {"horizon": {"enabled": false}},
                "features": {"network": {"backend": backend}},
            });
            world.with_external(spec, &BACKENDS).await
        };
        let _operator = world.operator().start().await;
        world.apply(&with("ovn").await).await;
        world.until_ready().await;
        world.apply(&with("ovs").await).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert!(cloud.status().message.starts_with("ovn would be uninstalled"), "{}", cloud.status().message);
        assert!(cloud.child("neutron").ready, "{:?}", cloud.child("neutron"));
        world.osdpl(&["approve"]);
        let last = |run: &Run| (run.verb().to_owned(), run.release().to_owned());
        world.until_ready().await;
        assert_eq!(world.helm_runs().last().map(last), Some(("uninstall".into(), "ovn".into())));
    });
}
