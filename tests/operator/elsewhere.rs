//! Two operators have Leases in different namespaces, or a person starts an operator by hand. Only one operator may
//! become the leader, because two operators must not manage the same cloud.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::cloud::{StatusAccess, services};
use crate::interrupted::{hang_job, until_hook};
use crate::lease::HOOK;
use crate::operator::{Operator, PROBE_PERIOD};
use crate::pool::SYSTEM;
use crate::world::{World, now, run_test, with_timeout};

/// Grants the operator's ServiceAccount the rights on the Lease in the test's namespace: copies the Role and the
/// `RoleBinding` that the operator's chart creates in the operator's namespace.
async fn grant_lease(world: &World) {
    let name = SYSTEM.1;
    let metadata = || ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let role = Api::<Role>::namespaced(world.client.clone(), SYSTEM.0).get(name).await.unwrap();
    let role = Role { metadata: metadata(), ..role };
    world.api::<Role>().create(&PostParams::default(), &role).await.unwrap();
    let binding = Api::<RoleBinding>::namespaced(world.client.clone(), SYSTEM.0).get(name).await.unwrap();
    let binding = RoleBinding { metadata: metadata(), ..binding };
    world.api::<RoleBinding>().create(&PostParams::default(), &binding).await.unwrap();
}

/// Waits until the operator that a person started is the leader: it has taken the Lease and manages the clouds.
async fn leads(by_hand: &Operator) {
    let leads = async {
        while by_hand.metric("osdpl_leader", "") == 0 {
            tokio::time::sleep(PROBE_PERIOD).await;
        }
    };
    with_timeout("the operator that a person started is active", leads).await;
}

#[test]
fn second_installation_ends_while_the_first_runs_helm() {
    run_test("two-installations", async |world| {
        grant_lease(world).await;
        hang_job(world, HOOK).await;
        let active = world.operator().pod("first").start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", HOOK).await;
        // The operator of the second installation has only the rights that the chart grants, and can't see the helm
        // process of the first operator.
        let second = world.operator().pod("second").in_own_namespace().environment("POD_NAMESPACE", &world.namespace);
        assert!(!second.spawn().ended().await.success());
        let log = world.operator_log();
        let lease = format!("renews the Lease osdpl in the namespace {}", SYSTEM.0);
        assert!(log.contains("another operator is active: first_") && log.contains(&lease), "{log}");
        assert_eq!(active.readiness(), "ok: leader\n");
        world.cluster().remove_rule(HOOK).await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("rabbitmq").revision, world.helm_runs().len()), (Some(1), 1));
    });
}

#[test]
fn ends_if_an_operator_is_active_in_another_namespace() {
    run_test("elsewhere", async |world| {
        let active = world.operator().pod("active").start().await;
        world.until_holder("active").await;
        let by_hand = world.operator().pod("by-hand").environment("KUBECONFIG", world.cluster().kubeconfig());
        let by_hand = by_hand.arguments(&["--namespace", &world.namespace]).spawn();
        assert!(!by_hand.ended().await.success());
        let log = world.operator_log();
        let lease = format!("renews the Lease osdpl in the namespace {}", SYSTEM.0);
        assert!(log.contains("another operator is active: active_") && log.contains(&lease), "{log}");
        assert_eq!(active.readiness(), "ok: leader\n");

        // After the kill, the Lease still names the killed operator as its holder, but nobody renews the Lease. So the
        // operator that the person starts may become the leader.
        active.kill();
        let by_hand = world.operator().pod("by-hand").environment("KUBECONFIG", world.cluster().kubeconfig());
        let by_hand = by_hand.arguments(&["--namespace", &world.namespace]).start().await;
        leads(&by_hand).await;
    });
}

#[test]
fn operator_that_a_person_starts_waits_for_the_lease() {
    run_test("by-hand", async |world| {
        let began = now();
        let active = world.operator().pod("active").start().await;
        world.until_holder("active").await;
        let by_hand = world.operator().environment("KUBECONFIG", world.cluster().kubeconfig()).start().await;
        assert!(by_hand.readiness().starts_with("ok: standby"), "{}", by_hand.readiness());
        // This operator runs outside of a pod, so the user agent of its requests contains its process ID. With this ID,
        // the test finds the operator's writes in the audit log.
        let process = format!(".{}.", by_hand.pid());
        let writes = || {
            let mut writes = world.cluster().audit(began).unwrap();
            writes.retain(|entry| entry.is_write() && entry.user_agent.contains(&process));
            writes
        };
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        assert_eq!(writes(), []);
        active.kill();
        leads(&by_hand).await;
        assert!(!writes().is_empty(), "the audit log must contain the operator's writes after it has taken the Lease");
    });
}
