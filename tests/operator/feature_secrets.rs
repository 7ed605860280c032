//! A feature refers to a Secret with a password. The operator waits for the Secret. When the password changes, the
//! operator upgrades only the release that uses the password.

use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

const MARIADB: &str = "mariadb";

/// The initial password in the Secret to which the feature refers, and the password after the rotation.
const PASSWORDS: [&str; 2] = ["first-secret-of-the-store", "second-secret-of-the-store"];

/// The JSON pointer to the feature's password in mariadb's values.
const PASSWORD_PATH: &str = "/endpoints/identity/auth/mariadb/password";

/// Checks that neither password is in the status, an event, the operator's log, or the output of `plan` and `explain`.
async fn check_no_leaks(world: &World) {
    let deployments = world.deployments().list(&ListParams::default()).await.unwrap();
    let mut texts = vec![world.operator_log(), world.osdpl(&["plan"])];
    texts.push(world.osdpl(&["explain", MARIADB, "endpoints.identity.auth.mariadb.password"]));
    assert!(
        texts[2].contains("Secret far, key pw, referenced by spec.features.database.backup.remote.passwordSecret"),
        "{}",
        texts[2]
    );
    texts.extend(deployments.iter().map(|deployment| serde_json::to_string(&deployment.status()).unwrap()));
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    texts.extend(events.iter().map(|event| format!("{:?}", event.message)));
    for text in texts {
        assert!(PASSWORDS.iter().all(|password| !text.contains(password)), "no password may be visible in {text}");
    }
}

#[test]
fn awaits_and_follows_a_feature_secret_without_leaks() {
    run_test("feature-secret", async |world| {
        let mut spec = services(&[MARIADB, "memcached"]);
        let store = json!({"authUrl": "https://keystone.far.example.org/v3", "username": "backup", "passwordSecret": {"name": "far", "key": "pw"}});
        spec["features"] = json!({"database": {"backup": {"remote": store}}});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let message = world
            .until("only mariadb reports the missing value", |cloud| {
                let child = cloud.child(MARIADB);
                (cloud.child("memcached").ready && child.message.contains("passwordSecret"))
                    .then(|| child.message.clone())
            })
            .await;
        assert!(message.starts_with("spec.features.database.backup.remote.passwordSecret: Secret "), "{message}");
        assert!(message.ends_with("/far does not exist; create it with the key \"pw\""), "{message}");

        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": "far"}, "stringData": {"pw": PASSWORDS[0]}})).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_values(MARIADB).pointer(PASSWORD_PATH), Some(&json!(PASSWORDS[0])));
        assert_eq!(world.helm_runs().len(), 2);

        let rotated = Patch::Merge(json!({"stringData": {"pw": PASSWORDS[1]}}));
        world.api::<Secret>().patch("far", &PatchParams::default(), &rotated).await.unwrap();
        world
            .until("mariadb is upgraded", |cloud| (world.helm_runs().len() == 3 && cloud.is_ready()).then_some(()))
            .await;
        assert_eq!(
            world.helm_values(MARIADB).pointer(PASSWORD_PATH),
            Some(&json!(PASSWORDS[1])),
            "mariadb's values must contain the new password"
        );
        check_no_leaks(world).await;
    });
}
