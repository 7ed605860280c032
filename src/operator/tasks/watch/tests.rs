use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::stream;
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::sync::Notify;

use super::super::partial::Job;
use super::*;

/// Responds as an API server without streaming lists. The server lists one Job, then sends a malformed Job and a valid
/// Job.
async fn old_server(State(requests): State<Arc<Mutex<Vec<String>>>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    requests.lock().unwrap().push(query.clone());
    let job =
        |name: &str, version: &str| json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}});
    if query.contains("sendInitialEvents=true") {
        let refusal = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"});
        return (StatusCode::UNPROCESSABLE_ENTITY, refusal.to_string()).into_response();
    }
    if !query.contains("watch=true") {
        return json!({"metadata": {"resourceVersion": "1"}, "items": [job("listed", "1")]})
            .to_string()
            .into_response();
    }
    let events = [
        json!({"type": "ADDED", "object": {"metadata": {"name": "odd", "resourceVersion": "2"}, "status": {"failed": "many"}}}),
        json!({"type": "ADDED", "object": job("watched", "3")}),
    ];
    let lines: Vec<_> = events.iter().map(|event| Ok::<_, std::io::Error>(format!("{event}\n"))).collect();
    let forever = stream::pending();
    Body::from_stream(stream::iter(lines).chain(forever)).into_response()
}

#[tokio::test]
async fn survives_old_api_servers_and_malformed_objects() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let router = Router::new().fallback(old_server).with_state(Arc::clone(&requests));
    let api = Api::<Partial<Job>>::all(Client::new(router, "n"));
    let (problems, names, done) = (Problems::default(), Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (reported, notify) = (Arc::clone(&names), Arc::clone(&done));
    let (own_problems, selector) = (problems.clone(), watcher::Config::default());
    let watch = tokio::spawn(follow(api, selector, own_problems, move |update| {
        if let Update::Event(Event::InitApply(object) | Event::Apply(object)) = update {
            reported.lock().unwrap().push(object.metadata.name.unwrap());
            notify.notify_one();
        }
    }));
    done.notified().await;
    assert_eq!(*names.lock().unwrap(), ["listed"]);
    done.notified().await;
    watch.abort();
    assert_eq!(*names.lock().unwrap(), ["listed", "watched"]);
    let received = requests.lock().unwrap();
    assert!(received[1].contains("limit=100") && received[2].contains("resourceVersion=1"), "{received:?}");
}

#[test]
fn pauses_grow_to_a_limit_and_reset() {
    let mut pauses = Pauses::default();
    let first: Vec<u128> = pauses.by_ref().take(7).map(|pause| pause.as_millis()).collect();
    assert_eq!(first, [200, 400, 800, 1600, 3200, 5000, 5000]);
    assert_eq!(pauses.by_ref().nth(100), Some(LONGEST_PAUSE));
    pauses.reset();
    assert_eq!(pauses.next(), Some(SHORTEST_PAUSE));
}

#[test]
fn problems_do_not_quote_the_page_of_a_load_balancer() {
    let page = |code: u16| {
        let status = json!({"kind": "Status", "code": code, "message": "<html>\n<body>Blocked</body>\n</html>"});
        Error::Api(serde_json::from_value::<kube::core::Status>(status).unwrap().boxed())
    };
    let nodes = WatchedKind { group: "", plural: "nodes" };
    assert_eq!(explain(nodes, &page(502)), "the API server can't process the request: 502 without a reason");
    assert_eq!(explain(nodes, &page(404)), "404 without a reason");
    let forbidden = explain(nodes, &page(403));
    assert!(forbidden.starts_with("403 without a reason") && !forbidden.contains('<'), "{forbidden}");
}
