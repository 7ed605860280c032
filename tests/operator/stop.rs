//! The operator must end soon after SIGTERM, even if the API server does not respond, or a client of the operator has
//! sent only half a request.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustix::process::Signal;
use tokio::sync::Notify;

use crate::cloud::services;
use crate::proxy::{Answer, Proxy, Request};
use crate::world::{run_test, with_timeout};

/// Makes the proxy never respond to requests that `is_selected` selects. The returned `Notify` is notified of the first
/// of these requests.
fn stall(proxy: &Proxy, is_selected: fn(&Request) -> bool) -> Arc<Notify> {
    let stalled = Arc::<Notify>::default();
    let first = Arc::clone(&stalled);
    proxy.set_rule(move |request| {
        if !is_selected(request) {
            return Answer::Forward;
        }
        first.notify_one();
        Answer::Stall
    });
    stalled
}

/// Selects the requests that get no response.
type Selector = fn(&Request) -> bool;

#[test]
fn ends_at_its_start_although_the_api_server_does_not_respond() {
    let selections: [(Selector, bool); 3] = [
        (|_| true, true),
        (|request| !request.uri.path().contains("/leases"), true),
        // The operator searches for operators in other namespaces after it has listed all objects. So its readiness
        // probe need not report `syncing` at this time.
        (|request| request.uri.path() == "/apis/coordination.k8s.io/v1/leases", false),
    ];
    for (is_selected, is_syncing) in selections {
        run_test("stop-start", async |world| {
            let proxy = Proxy::start(world).await;
            let stalled = stall(&proxy, is_selected);
            let operator = world.operator().through(&proxy).spawn();
            with_timeout("the operator waits for the API server", stalled.notified()).await;
            let readiness = operator.answer("/readyz");
            let reports_syncing = readiness.starts_with("HTTP/1.1 503") && readiness.contains("\r\n\r\nsyncing: ");
            assert!(reports_syncing || !is_syncing, "{readiness}");
            operator.signal(Signal::TERM);
            assert!(operator.ended().await.success(), "{}", world.operator_log());
        });
    }
}

#[test]
fn ends_during_a_pass_that_waits_for_the_api_server() {
    run_test("stop-pass", async |world| {
        let proxy = Proxy::start(world).await;
        // Send half a request to the operator's metrics server. A client that does this must not delay the operator's
        // end.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let listen = ["--metrics-listen", &address];
        let operator = world.operator().through(&proxy).arguments(&listen).start().await;
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
        let stalled = stall(&proxy, |request| request.is_write() && !request.uri.path().contains("/leases"));
        world.apply(&services(&["memcached"])).await;
        with_timeout("a pass waits for the API server", stalled.notified()).await;
        assert!(operator.stop().await.success());
        let log = world.operator_log();
        assert!(log.contains("the operator ends during a pass"), "{log}");
        assert!(log.contains("this operator has released the Lease"), "{log}");
        drop(client);
    });
}
