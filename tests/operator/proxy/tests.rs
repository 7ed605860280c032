//! Tests the proxy with an operator whose requests pass through the proxy.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::cloud::{services, with_values};
use crate::world::{now, run_test, with_timeout};

/// The user agent and the HTTP method of a write request.
type Write = (String, String);

/// Returns the writes of the operator and helm after `since` from the API server's audit log, sorted. Leaves out writes
/// of events.
fn logged(world: &World, since: Timestamp) -> Vec<Write> {
    let entries = world.writes_since(since).into_iter().filter(|entry| entry.resource != "events");
    let method = |verb: &str| match verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        _ => "DELETE",
    };
    let mut writes: Vec<_> = entries.map(|entry| (entry.user_agent, method(&entry.verb).to_owned())).collect();
    writes.sort();
    writes
}

#[test]
fn all_writes_of_the_operator_and_helm_pass_the_proxy() {
    run_test("proxied", async |world| {
        let proxy = Proxy::start(world).await;
        let _operator = world.operator().through(&proxy).start().await;
        let (began, seen) = (now(), Arc::<Mutex<Vec<Request>>>::default());
        let requests = Arc::clone(&seen);
        proxy.set_rule(move |request| {
            requests.lock().unwrap().push(request.clone());
            Answer::Forward
        });
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        let writes = || {
            let seen = seen.lock().unwrap();
            let ignored = ["/leases", "/events", "/authorization.k8s.io/"];
            let counts = |request: &&Request| !ignored.iter().any(|part| request.uri.path().contains(part));
            let writes = seen.iter().filter(|request| request.is_write()).filter(counts);
            let mut writes: Vec<Write> =
                writes.map(|request| (request.agent.clone(), request.method.to_string())).collect();
            writes.sort();
            writes
        };
        let are_logged = async {
            while logged(world, began) != writes() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(10), are_logged).await.is_err() {
            assert_eq!(logged(world, began), writes());
        }
        assert!(writes().iter().any(|(agent, _)| agent.starts_with("Helm/")), "{:?}", writes());
    });
}

#[test]
#[ignore = "takes a minute: make faults"]
fn the_proxy_refuses_loses_and_stalls() {
    run_test("proxy-faults", async |world| {
        let proxy = Proxy::start(world).await;
        let _operator = world.operator().through(&proxy).start().await;
        let spec = services(&["memcached"]);
        // Refuse two requests of helm. Helm must repeat each of them after the time in `Retry-After`.
        let (sender, mut refused) = tokio::sync::watch::channel(0);
        proxy.set_rule(move |request| {
            if request.agent.starts_with("Helm/") && request.is_write() && *sender.borrow() < 2 {
                sender.send_modify(|count| *count += 1);
                return Answer::Refuse(429);
            }
            Answer::Forward
        });
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!((*refused.borrow_and_update(), world.helm_runs().len()), (2, 1));

        // Stall all open connections. The operator must give up requests that get no response, and open new
        // connections.
        let oldest = Arc::new(AtomicU64::new(u64::MAX));
        proxy.stall_open_connections();
        let seen = Arc::clone(&oldest);
        let opened = proxy.shared.opened.load(Ordering::SeqCst);
        proxy.set_rule(move |request| {
            seen.fetch_min(request.connection, Ordering::SeqCst);
            Answer::Forward
        });
        world.apply(&with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 300}}}))).await;
        with_timeout("the operator uses new connections", Box::pin(world.until_ready())).await;
        assert!(oldest.load(Ordering::SeqCst) >= opened, "no request must arrive over a stalled connection");
    });
}
