//! The API server refuses many requests: it is overloaded (429), not available (503), or reports conflicts (409).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::Pod;
use crate::cloud::{StatusAccess, services, with_values};
use crate::proxy::{Answer, Proxy, Request};
use crate::world::{now, run_test};

/// The number of requests that the API server refuses during a storm.
const REFUSALS: usize = 40;

/// The number of refusals after which the API server refuses no request of helm any more. helm gives up at the first
/// refusal that it does not retry, and the operator waits longer after each failure of helm.
const HELM_REFUSALS: usize = 10;

/// Installs and changes a cloud while the API server refuses every other request that `is_refused` selects, until it has
/// refused [`REFUSALS`] requests.
fn check_storm(name: &str, code: u16, is_refused: fn(&Request) -> bool) {
    run_test(name, async |world| {
        let began = now();
        world.allow_errors();
        let proxy = Proxy::start(world).await;
        let (seen, refused) = (AtomicUsize::new(0), Arc::<AtomicUsize>::default());
        let counter = Arc::clone(&refused);
        proxy.set_rule(move |request| {
            let limit = if request.agent.starts_with("Helm/") { HELM_REFUSALS } else { REFUSALS };
            let is_selected = is_refused(request) && counter.load(Ordering::Relaxed) < limit;
            if !is_selected || seen.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
                return Answer::Forward;
            }
            counter.fetch_add(1, Ordering::Relaxed);
            Answer::Refuse(code)
        });
        let pod = Pod::new(world, || world.operator().through(&proxy));
        let scenario = async {
            let spec = services(&["mariadb", "rabbitmq"]);
            world.apply(&spec).await;
            world.until_ready().await;
            let changed = json!({"conf": {"database": {"my": "# changed"}}});
            world.apply(&with_values(spec, "mariadb", changed)).await;
            world.until_ready().await;
            assert!(refused.load(Ordering::Relaxed) > HELM_REFUSALS, "the storm must hit the operator");
        };
        Box::pin(pod.during(scenario)).await;
        let child = world.until_ready().await.child("mariadb");
        println!("{} refusals, revision {:?} of mariadb", refused.load(Ordering::Relaxed), child.revision);
        pod.check_bounds(began, 2, 4);
        assert_eq!(pod.restarts.get(), 0, "refused requests must not end the operator");
    });
}

#[test]
fn cloud_converges_while_the_api_server_is_overloaded() {
    check_storm("storm-429", 429, |_| true);
}

#[test]
fn cloud_converges_while_the_api_server_is_unavailable() {
    check_storm("storm-503", 503, |_| true);
}

#[test]
#[ignore = "takes a minute: make faults"]
fn cloud_converges_while_the_api_server_reports_conflicts() {
    check_storm("storm-409", 409, Request::is_write);
}
