//! The end of a cloud, and what comes back.

mod held;

use std::collections::BTreeMap;

use cluster::Rule;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, SKIP_HOOKS};
use serde_json::{Value, json};

use crate::cloud::{Told, services};
use crate::helm::Run;
use crate::world::{World, patience, story};

/// Keystone's pre-delete hook needs the database.
const KEYSTONE: [&str; 4] = ["keystone", "mariadb", "memcached", "rabbitmq"];

/// Glance's claims carry no label, only helm's annotations.
const GLANCE: [&str; 5] = ["glance", "keystone", "mariadb", "memcached", "rabbitmq"];

/// It has a claim, credentials and a Job.
const LET_GO: &str = "rabbitmq";

/// Whether what is called so belongs to the release that is let go.
fn stays(name: &str) -> bool {
    name.contains(LET_GO)
}

/// The identities of what holds data: claims, and Secrets that are not helm's.
async fn kept(world: &World) -> BTreeMap<String, Option<String>> {
    let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    let secrets = world.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let secrets = secrets.items.into_iter().filter(|secret| {
        let name = secret.name_any();
        name.contains("-credentials-") || name.ends_with("-keys")
    });
    let claims = claims.items.into_iter().map(|claim| (claim.name_any(), claim.uid()));
    claims.chain(secrets.map(|secret| (secret.name_any(), secret.uid()))).collect()
}

/// Which releases were uninstalled, in that order.
fn uninstalled(world: &World) -> Vec<String> {
    let runs = world.helm_runs();
    runs.iter().filter(|run| run.verb() == "uninstall").map(|run| run.release().to_owned()).collect()
}

async fn jobs(world: &World) -> Vec<String> {
    world.api::<Job>().list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// The values that helm was given, of every release.
fn values(world: &World) -> Vec<Value> {
    GLANCE.iter().map(|release| world.helm_values(release)).collect()
}

#[test]
fn a_deletion_goes_backwards_finds_again_what_it_retains_and_purges_nothing_of_what_was_let_go() {
    story("deletion", async |world| {
        let mut spec = services(&GLANCE);
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let (kept_before, values_before) = (kept(world).await, values(world));
        for needed in
            ["glance-images", "keystone-fernet-keys", "mysql-data-mariadb-server-0", "nimbus-credentials-keystone"]
        {
            assert!(kept_before.contains_key(needed), "{kept_before:?}");
        }

        world.delete().await;
        world.until_gone().await;
        let gone = uninstalled(world);
        let place = |release: &str| gone.iter().position(|gone| gone == release).unwrap();
        for needed in ["mariadb", "memcached"] {
            assert!(place("keystone") < place(needed), "what others need goes after them: {gone:?}");
        }
        assert_eq!(jobs(world).await, [""; 0], "helm leaves hooks behind, the operator does not");
        assert_eq!(kept(world).await, kept_before);

        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(values(world), values_before);
        assert_eq!(kept(world).await, kept_before);

        spec["deletionPolicy"] = json!("Purge");
        spec["services"][LET_GO]["releases"] = json!({LET_GO: {"managed": false}});
        world.apply(&spec).await;
        let let_go = |cloud: &OpenStackDeployment| cloud.child(LET_GO).message.starts_with("unmanaged:").then_some(());
        world.until("a release is let go", let_go).await;
        world.delete().await;
        world.until_gone().await;
        let claims_go = async {
            let claims: Api<PersistentVolumeClaim> = world.api();
            for claim in
                claims.list(&ListParams::default()).await.unwrap().into_iter().filter(|claim| !stays(&claim.name_any()))
            {
                let uid = claim.uid().unwrap();
                await_condition(claims.clone(), &claim.name_any(), conditions::is_deleted(&uid)).await.unwrap();
            }
        };
        patience("claims are gone", Box::pin(claims_go)).await;
        let staying: BTreeMap<_, _> = kept_before.into_iter().filter(|(name, _)| stays(name)).collect();
        assert!(staying.len() > 1, "a claim and credentials: {staying:?}");
        assert_eq!(kept(world).await, staying);
        assert_eq!(jobs(world).await, ["rabbitmq-cluster-wait"]);
    });
}

/// Waits until a deletion waits for a hook, and says so.
async fn until_waiting(world: &World, hook: &str) -> OpenStackDeployment {
    let waits = |cloud: &OpenStackDeployment| cloud.status().message.contains(hook).then(|| cloud.clone());
    world.until("the deletion waits for the hook", waits).await
}

#[test]
fn a_deletion_says_which_hook_it_waits_for_survives_its_operator_and_skips_the_hook_when_told() {
    story("skip-hooks", async |world| {
        let cleanup = "keystone-credential-cleanup";
        world.cluster().behaviour(cleanup, &Rule::new(&world.namespace, cleanup, "hang")).await.unwrap();
        let operator = world.operator().start().await;
        world.apply(&services(&KEYSTONE)).await;
        world.until_ready().await;
        world.delete().await;
        let waiting = until_waiting(world, cleanup).await;
        assert_eq!(waiting.reason(), "Deleting");
        assert_eq!(waiting.child("mariadb").message, "stays until keystone is gone");

        operator.kill();
        let _operator = world.operator().start().await;
        world.annotate(SKIP_HOOKS, json!("keystone")).await;
        world.until_gone().await;
        let keystone = |run: &Run| run.verb() == "uninstall" && run.release() == "keystone";
        let last = world.helm_runs().into_iter().rfind(keystone).unwrap();
        assert!(last.arguments.contains(&"--no-hooks".to_owned()), "{last:?}");
        assert_eq!(jobs(world).await, [""; 0]);
    });
}

/// Keystone's pre-delete hook is a Job, and no Job starts in such a namespace.
#[test]
fn a_namespace_that_is_deleted_with_its_cloud_goes() {
    story("terminating", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&KEYSTONE)).await;
        world.until_ready().await;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let namespace = namespaces.get(&world.namespace).await.unwrap();
        namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
        let uid = namespace.uid().unwrap();
        let gone = await_condition(namespaces, &world.namespace, conditions::is_deleted(&uid));
        patience("the namespace is gone", gone).await.unwrap();
    });
}
