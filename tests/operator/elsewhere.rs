//! While an operator is active, a person starts a second operator by hand, with a Lease in another namespace. The
//! second operator must end, because two operators must not manage the same cloud.

use crate::operator::PROBE_PERIOD;
use crate::pool::SYSTEM;
use crate::world::{run_test, with_timeout};

#[test]
fn ends_if_an_operator_is_active_in_another_namespace() {
    run_test("elsewhere", async |world| {
        let active = world.operator().pod("active").start().await;
        world.until_holder("active").await;
        // Start the second operator with a person's kubeconfig. A person may list the Leases in all namespaces, so the
        // second operator finds the active one. The operator's ServiceAccount does not have this right.
        let by_hand = world.operator().pod("by-hand").environment("KUBECONFIG", world.cluster().kubeconfig());
        let by_hand = by_hand.arguments(&["--namespace", &world.namespace]).spawn();
        assert!(!by_hand.ended().await.success());
        let log = world.operator_log();
        let lease = format!("renews the Lease osdpl in the namespace {}", SYSTEM.0);
        assert!(log.contains("another operator is active: active_") && log.contains(&lease), "{log}");
        assert_eq!(active.readiness(), "ok: leader\n");

        // After the kill, the Lease still names the killed operator as its holder, but nobody renews the Lease. So the
        // operator that the person starts may become active.
        active.kill();
        let by_hand = world.operator().pod("by-hand").environment("KUBECONFIG", world.cluster().kubeconfig());
        let by_hand = by_hand.arguments(&["--namespace", &world.namespace]).start().await;
        let leads = async {
            while by_hand.metric("osdpl_leader", "") == 0 {
                tokio::time::sleep(PROBE_PERIOD).await;
            }
        };
        with_timeout("the operator that a person started is active", leads).await;
    });
}
