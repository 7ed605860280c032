//! An operator that a person starts by hand with the namespace of another Lease does not run beside the active one.

use crate::operator::PROBE_PERIOD;
use crate::pool::SYSTEM;
use crate::world::{run_test, with_timeout};

#[test]
fn ends_if_an_operator_is_active_in_another_namespace() {
    run_test("elsewhere", async |world| {
        let active = world.operator().pod("active").start().await;
        world.until_holder("active").await;
        // A person has the right to list all Leases, which the operator's own account does not have.
        let by_hand = world.operator().pod("by-hand").environment("KUBECONFIG", world.cluster().kubeconfig());
        let by_hand = by_hand.arguments(&["--namespace", &world.namespace]).spawn();
        assert!(!by_hand.ended().await.success());
        let log = world.operator_log();
        let lease = format!("renews the Lease osdpl in the namespace {}", SYSTEM.0);
        assert!(log.contains("another operator is active: active_") && log.contains(&lease), "{log}");
        assert_eq!(active.readiness(), "ok: leader\n");

        // The Lease of a killed operator stays held, but nobody renews it.
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
