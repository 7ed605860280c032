use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use osdpl_client::{HttpConfig, Permit, Scope};
use osdpl_core::catalog::Component;
use osdpl_core::observed::Node;
use serde_json::{Value, json};

use super::*;

/// A fake `Operator` that knows no OpenStack cloud, and counts failures.
#[derive(Default)]
struct WithoutCloud {
    failures: StdMutex<u32>,
}

impl Operator for WithoutCloud {
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn setting(&self) -> Option<Arc<CloudSettings>> {
        Some(Arc::new(CloudSettings::none()))
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }

    fn nodes(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        Some(Arc::default())
    }

    fn node_selectors(&self, _: &Component) -> Vec<String> {
        Vec::new()
    }

    fn scope(&self) -> Scope {
        Scope::All
    }

    fn count_failure(&self) {
        *self.failures.lock().unwrap() += 1;
    }
}

fn controller(api: Router, pass_timeout: Duration) -> (Arc<MaintenanceController>, Arc<WithoutCloud>) {
    let config =
        HttpConfig { address: None, timeout: Duration::from_secs(1), ca: Vec::new(), permit: Permit::default() };
    let operator = Arc::<WithoutCloud>::default();
    let controller = MaintenanceController {
        cluster: Cluster::new(Client::new(api, "cloud")),
        operator: operator.clone(),
        openstack: OpenStackClient::new(config),
        trigger: Arc::default(),
        requeue_delay: REQUEUE_DELAY,
        pass_timeout,
        stop: CancellationToken::new(),
        states: Mutex::default(),
    };
    (Arc::new(controller), operator)
}

/// Returns the NodeMaintenance `m1` for the node `n1`. `version` is its resourceVersion.
fn maintenance(version: u32) -> Value {
    json!({
        "apiVersion": "osdpl.dev/v1alpha1", "kind": "NodeMaintenance",
        "metadata": {"name": "m1", "uid": "u1", "resourceVersion": version.to_string(), "generation": 1},
        "spec": {"node": "n1"},
    })
}

fn stored() -> Arc<Stored<NodeMaintenance>> {
    Arc::new(serde_json::from_value(maintenance(1)).unwrap())
}

fn refusal(code: StatusCode) -> Response {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::FORBIDDEN => "Forbidden",
        _ => "Conflict",
    };
    let status = json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason});
    (code, status.to_string()).into_response()
}

/// Returns a fake API server, and a list to which the server adds each write of the status.
///
/// The server has one maintenance, whose node is ready to drain. The function `node` returns the server's response to
/// each request for a node.
fn api_with_nodes<F>(node: fn() -> F) -> (Router, Arc<StdMutex<Vec<Value>>>)
where
    F: Future<Output = Response> + Send + 'static,
{
    let writes = Arc::<StdMutex<Vec<Value>>>::default();
    let log = Arc::clone(&writes);
    let api = Router::new().fallback(async move |request: Request| {
        let (is_patch, path) = (request.method() == Method::PATCH, request.uri().path().to_owned());
        if path.contains("/nodes/") {
            return node().await;
        }
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let mut writes = log.lock().unwrap();
        if is_patch {
            writes.push(serde_json::from_slice(&body).unwrap());
        }
        let mut found = maintenance(1);
        let ready = json!({"phase": "ReadyToDrain", "message": "n1 can be drained", "observedGeneration": 1});
        found["status"] = writes.last().map_or(ready, |last| last["status"].clone());
        found.to_string().into_response()
    });
    (api, writes)
}

/// Checks that a failed pass wrote the status once, with `reason` in the message. The write must also remove the
/// observed generation, so that a later pass replaces the message.
fn check_report(writes: &StdMutex<Vec<Value>>, reason: &str) {
    let writes = writes.lock().unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
    let status = &writes[0]["status"];
    assert!(status["message"].as_str().unwrap().contains(reason), "{status}");
    assert_eq!((&status["phase"], &status["observedGeneration"]), (&json!("ReadyToDrain"), &Value::Null));
}

#[tokio::test]
async fn a_slow_pass_is_reported_and_lets_others_continue() {
    let (api, writes) = api_with_nodes(std::future::pending);
    let (controller, operator) = controller(api, Duration::from_millis(1));
    reconcile(stored(), Arc::clone(&controller)).await.unwrap();
    drop(controller.states.try_lock().expect("the pass has released the lock"));
    check_report(&writes, "responds too slowly");
    assert_eq!(*operator.failures.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_missing_permission_is_reported_once() {
    let (api, writes) = api_with_nodes(|| std::future::ready(refusal(StatusCode::FORBIDDEN)));
    let (controller, _) = controller(api, PASS_TIMEOUT);
    for _ in 0..2 {
        reconcile(stored(), Arc::clone(&controller)).await.unwrap_err();
    }
    check_report(&writes, "reading node n1: ");
}

#[tokio::test]
async fn a_stop_ends_the_pass() {
    let asked = Arc::new(Notify::new());
    let notify = Arc::clone(&asked);
    let silent = Router::new().fallback(async move || {
        notify.notify_one();
        std::future::pending::<Response>().await
    });
    let (controller, operator) = controller(silent, PASS_TIMEOUT);
    let stop = async {
        asked.notified().await;
        controller.stop.cancel();
    };
    let (outcome, ()) = tokio::join!(reconcile(stored(), Arc::clone(&controller)), stop);
    assert_eq!(outcome.unwrap(), controller::Action::await_change());
    assert_eq!(*operator.failures.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_conflict_repeats_the_decision() {
    let writes = Arc::<StdMutex<Vec<Value>>>::default();
    let log = Arc::clone(&writes);
    // This fake API server refuses the first write of the status, as if someone had changed the NodeMaintenance since
    // the controller read it.
    let api = Router::new().fallback(async move |request: Request| {
        let (is_patch, path) = (request.method() == Method::PATCH, request.uri().path().to_owned());
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let mut writes = log.lock().unwrap();
        if is_patch {
            writes.push(serde_json::from_slice(&body).unwrap());
            if writes.len() == 1 {
                return refusal(StatusCode::CONFLICT);
            }
        }
        match path.split('/').nth(4) {
            Some("nodemaintenances") if path.ends_with("nodemaintenances") => {
                let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []});
                list.to_string().into_response()
            }
            Some("nodemaintenances") => {
                let mut found = maintenance(if writes.is_empty() { 1 } else { 2 });
                if let Some(last) = writes.last().filter(|_| writes.len() > 1) {
                    found["status"] = last["status"].clone();
                }
                found.to_string().into_response()
            }
            _ => refusal(StatusCode::NOT_FOUND),
        }
    });
    let (controller, operator) = controller(api, PASS_TIMEOUT);
    reconcile(stored(), controller).await.unwrap();
    let writes = writes.lock().unwrap();
    let versions: Vec<_> = writes.iter().map(|write| write["metadata"].clone()).collect();
    let version = |version: &str| json!({"uid": "u1", "resourceVersion": version});
    assert_eq!(versions, [version("1"), version("2")]);
    assert_eq!(writes[0]["status"]["message"], writes[1]["status"]["message"]);
    assert_eq!(*operator.failures.lock().unwrap(), 0);
}
