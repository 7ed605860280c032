//! The API server hangs, is gone, or restarts while helm waits for a hook.

use std::cell::Cell;
use std::time::Duration;

use cluster::Component;
use serde_json::json;
use tokio::sync::oneshot;

use super::{PROBE_PERIOD, Pod};
use crate::cloud::{services, with_values};
use crate::interrupted::{hang_job, until_hook};
use crate::lease::is_running;
use crate::proxy::{Answer, Proxy};
use crate::world::{World, now, run_test, with_timeout};

/// The hook Job of rabbitmq for which helm waits in these tests.
const HOOK: &str = "rabbitmq-cluster-wait";

#[derive(Clone, Copy)]
enum Outage {
    /// The API server accepts connections, but does not respond.
    Frozen,
    /// The API server does not run, so connections are refused.
    Killed,
}

impl Outage {
    async fn begin(self, world: &World) {
        match self {
            Self::Frozen => world.cluster().freeze(Component::Apiserver).await.unwrap(),
            Self::Killed => world.cluster().kill(Component::Apiserver).await.unwrap(),
        }
    }

    async fn end(self, world: &World) {
        match self {
            Self::Frozen => world.cluster().thaw(Component::Apiserver).await.unwrap(),
            Self::Killed => world.cluster().restart(Component::Apiserver).await.unwrap(),
        }
    }
}

/// The beginning of the error of a pass that [`check_outage`] interrupts.
const STOPPED: &str = "the API server did not respond in time: osdpl stopped the pass after 2 s";

/// Makes the proxy stall the operator's next write of a status: the proxy neither forwards the write nor responds. The
/// returned receiver gets a message when this write arrives. From then on, the operator's pass waits for the API
/// server.
fn hold_next_pass(proxy: &Proxy) -> oneshot::Receiver<()> {
    let (sender, held) = oneshot::channel();
    let mut sender = Some(sender);
    proxy.set_rule(move |request| {
        let is_report = request.is_write() && request.uri.path().ends_with("/status");
        match sender.take_if(|_| is_report) {
            Some(sender) => {
                sender.send(()).unwrap();
                Answer::Stall
            }
            None => Answer::Forward,
        }
    });
    held
}

/// Lets the API server fail during a pass, while helm waits for a hook. The outage ends after the operator was
/// restarted twice and `until_over` has returned. Checks that the pass and helm end during the outage, and that the
/// cloud converges afterwards.
fn check_outage(name: &str, outage: Outage, until_over: impl AsyncFnOnce()) {
    run_test(name, async |world| {
        let began = now();
        hang_job(world, HOOK).await;
        // With a pass timeout of only 2 s, the operator runs several passes before it loses the Lease.
        // Only the first operator uses the proxy.
        let (proxy, restarted) = (Proxy::start(world).await, Cell::new(false));
        let pod = Pod::new(world, || {
            let setup = world.operator().arguments(&["--pass-timeout", "2"]);
            if restarted.replace(true) { setup } else { setup.through(&proxy) }
        });
        let scenario = async {
            let spec = services(&["mariadb", "rabbitmq"]);
            world.apply(&spec).await;
            until_hook(world, "rabbitmq", HOOK).await;
            // Allow errors in the log: a restarted API server refuses requests until it has read the RBAC roles.
            world.allow_errors();
            // Trigger a pass, so that the outage interrupts it.
            let held = hold_next_pass(&proxy);
            let changed = json!({"conf": {"database": {"my": "# changed"}}});
            world.apply(&with_values(spec, "mariadb", changed)).await;
            with_timeout("a pass writes the status", held).await.unwrap();
            outage.begin(world).await;
            let stopped = async {
                while !world.operator_log().contains(STOPPED) {
                    tokio::time::sleep(PROBE_PERIOD).await;
                }
            };
            with_timeout("the interrupted pass reaches its timeout", stopped).await;
            pod.until_restarts(2).await;
            until_over().await;
            let ended = async {
                while world.helm_runs().iter().any(|run| is_running(run.pid)) {
                    tokio::time::sleep(PROBE_PERIOD).await;
                }
            };
            with_timeout("all helm processes have ended, because their operator has lost the Lease", ended).await;
            outage.end(world).await;
            world.cluster().remove_rule(HOOK).await.unwrap();
            world.until_ready().await;
        };
        Box::pin(pod.during(scenario)).await;
        pod.check_bounds(began, 2, 1);
        let runs = world.helm_runs();
        assert!(runs.len() <= 5, "an operator that starts without an API server must not start helm: {runs:#?}");
    });
}

#[test]
fn cloud_converges_after_the_api_server_did_not_respond() {
    check_outage("api-frozen", Outage::Frozen, async || ());
}

#[test]
#[ignore = "takes three minutes: make faults"]
fn cloud_converges_after_the_api_server_did_not_respond_for_two_minutes() {
    check_outage("api-frozen-long", Outage::Frozen, async || tokio::time::sleep(Duration::from_mins(2)).await);
}

#[test]
#[ignore = "takes three minutes: make faults"]
fn cloud_converges_after_the_api_server_was_gone_for_two_minutes() {
    check_outage("api-killed-long", Outage::Killed, async || tokio::time::sleep(Duration::from_mins(2)).await);
}

#[test]
fn cloud_converges_after_the_api_server_was_restarted() {
    run_test("api-restarted", async |world| {
        let began = now();
        hang_job(world, HOOK).await;
        let pod = Pod::new(world, || world.operator());
        let scenario = async {
            world.apply(&services(&["mariadb", "rabbitmq"])).await;
            until_hook(world, "rabbitmq", HOOK).await;
            world.allow_errors();
            for _ in 0..2 {
                Outage::Killed.begin(world).await;
                Outage::Killed.end(world).await;
            }
            world.cluster().remove_rule(HOOK).await.unwrap();
            world.until_ready().await;
        };
        Box::pin(pod.during(scenario)).await;
        pod.check_bounds(began, 2, 1);
    });
}
