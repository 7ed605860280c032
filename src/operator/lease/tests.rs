//! Tests the elector with a fake API server that stores one Lease.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use osdpl_client::{Bounds, bounded};
use serde_json::{Value, json};

use super::*;

/// The Lease that the fake API server stores; null if there is none. A write must name the stored resourceVersion.
type Stored = Arc<Mutex<Value>>;

fn fake(stored: &Stored) -> Router {
    let stored = Arc::clone(stored);
    Router::new().fallback(async move |method: Method, body: Bytes| {
        let mut stored = stored.lock().unwrap();
        let refused = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let status =
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "refused"});
            (StatusCode::from_u16(code).unwrap(), status.to_string())
        };
        if method == Method::GET {
            return if stored.is_null() { refused(404) } else { (StatusCode::OK, stored.to_string()) };
        }
        let mut written: Value = serde_json::from_slice(&body).unwrap();
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        if version(&written) != version(&stored) {
            return refused(409);
        }
        written["metadata"]["resourceVersion"] = next(&stored).into();
        *stored = written;
        (StatusCode::OK, stored.to_string())
    })
}

/// Returns the resourceVersion that the Lease gets with the next write.
fn next(lease: &Value) -> String {
    let version = lease["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
    (version.unwrap_or_default() + 1).to_string()
}

fn elector_with(router: Router) -> Elector {
    let instance = Instance::of_this_process(None).unwrap();
    Elector::new(Client::new(router, "a"), "a", instance, None, Leadership::default())
}

fn elector(stored: &Stored) -> Elector {
    elector_with(fake(stored))
}

/// The path of the Leases of all namespaces.
const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";

/// The path of the `ClusterRoleBinding`s.
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Returns the list of the `ClusterRoleBinding`s of the operator's chart, which is installed in these namespaces.
fn bindings(installed: &[&str]) -> String {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "osdpl"});
    let binding = |namespace: &&str| {
        let subjects = json!([{"kind": "ServiceAccount", "name": "osdpl", "namespace": namespace}]);
        json!({"metadata": {"name": "osdpl"}, "roleRef": role, "subjects": subjects})
    };
    let items: Vec<Value> = installed.iter().map(binding).collect();
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string()
}

/// Returns an elector with a rival: while the elector takes its Lease, the rival takes the Lease in the namespace `b`.
///
/// The fake API server reports that the operator's chart is installed in the namespace `installed`. The elector must
/// give up its Lease only if `installed` is the rival's namespace.
fn elector_with_rival(stored: &Stored, installed: &str) -> Elector {
    let own = Arc::clone(stored);
    let leases = async move || {
        let rival = json!({"metadata": {"name": NAME, "namespace": "b"}, "spec": {"holderIdentity": "rival"}});
        let items = if own.lock().unwrap().is_null() { json!([]) } else { json!([rival]) };
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string()
    };
    let bindings = bindings(&[installed]);
    elector_with(fake(stored).route(LEASES, get(leases)).route(BINDINGS, get(async move || bindings)))
}

#[tokio::test]
async fn releases_the_lease_after_a_renewal_without_response() {
    let stored = Stored::default();
    let mut elector = elector(&stored);
    elector.write(elector.identity.clone()).await.unwrap();
    let holder = || stored.lock().unwrap()["spec"]["holderIdentity"].clone();
    assert_eq!(holder(), elector.identity.as_str());
    // Simulate a renewal that the API server has stored, but whose response the elector has not received.
    let renewed = next(&stored.lock().unwrap());
    stored.lock().unwrap()["metadata"]["resourceVersion"] = renewed.into();
    assert!(elector.try_release().await.unwrap());
    assert_eq!(holder(), "");
}

#[tokio::test]
async fn does_not_release_the_lease_of_another_holder() {
    let stored = Stored::default();
    let mut elector = elector(&stored);
    elector.write(elector.identity.clone()).await.unwrap();
    let taken = next(&stored.lock().unwrap());
    let changed = json!({"metadata": {"name": NAME, "resourceVersion": taken}, "spec": {"holderIdentity": "other"}});
    *stored.lock().unwrap() = changed.clone();
    assert!(!elector.try_release().await.unwrap(), "the elector must not report that it has released the Lease");
    assert_eq!(*stored.lock().unwrap(), changed);
}

#[tokio::test]
async fn does_not_take_back_a_lease_that_another_process_released() {
    let stored = Stored::default();
    let mut elector = elector(&stored);
    elector.write(elector.identity.clone()).await.unwrap();
    // While this process was frozen, another process took the Lease and released it.
    let released = next(&stored.lock().unwrap());
    let released = json!({"metadata": {"name": NAME, "resourceVersion": released}, "spec": {"holderIdentity": ""}});
    *stored.lock().unwrap() = released.clone();
    let error = elector.renew().await.unwrap_err();
    assert!(matches!(&error, RenewError::Taken(holder) if holder == "another process"), "{error:?}");
    assert_eq!(*stored.lock().unwrap(), released);
}

#[tokio::test]
async fn takes_the_lease_again_if_someone_deleted_it() {
    let stored = Stored::default();
    let mut elector = elector(&stored);
    elector.write(elector.identity.clone()).await.unwrap();
    *stored.lock().unwrap() = Value::Null;
    elector.renew().await.unwrap();
    assert_eq!(stored.lock().unwrap()["spec"]["holderIdentity"], elector.identity.as_str());
}

#[tokio::test]
async fn gives_up_if_the_guard_reads_no_deadlines() {
    let mut elector = elector(&Stored::default());
    let mut guard = Guard::stopped().await;
    // The deadline for the next renewal is in 200 ms.
    let renewed = Instant::now().checked_sub(Duration::from_millis(9_800)).unwrap();
    let lost = tokio::time::timeout(RENEW_DEADLINE, elector.hold(renewed, &mut guard)).await.unwrap();
    assert!(matches!(lost, Lost::Guard(_)), "{lost}");
}

#[tokio::test]
async fn the_first_read_retries() {
    let refusals = Arc::new(Mutex::new(1));
    let left = Arc::clone(&refusals);
    let router = Router::new().fallback(async move || {
        let mut left = left.lock().unwrap();
        let code = if *left > 0 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
        *left -= i32::from(*left > 0);
        (code, json!({"metadata": {"name": NAME, "resourceVersion": "1"}}).to_string())
    });
    let reads = bounded(Client::new(router, "a"), Bounds::new(Duration::from_mins(1)));
    let mut elector = elector(&Stored::default());
    elector.read_through(&reads).await.unwrap();
    assert!(elector.lease.is_some() && *refusals.lock().unwrap() == 0);
}

#[tokio::test]
async fn gives_up_the_lease_if_a_rival_starts_at_the_same_time() {
    let stored = Stored::default();
    let lost = elector_with_rival(&stored, "b").run(CancellationToken::new()).await.unwrap_err().to_string();
    assert!(lost.contains("rival renews the Lease osdpl in the namespace b"), "{lost}");
    let lease = stored.lock().unwrap().clone();
    assert_eq!(lease["spec"]["holderIdentity"], "", "the elector must take and release the Lease: {lease}");
}

#[tokio::test]
async fn ignores_a_lease_in_a_namespace_without_the_chart() {
    let stored = Stored::default();
    let mut elector = elector_with_rival(&stored, "c");
    elector.acquire_alone().await.unwrap();
    assert!(elector.is_own());
}

#[tokio::test]
async fn commands_ignore_leases_in_namespaces_without_the_chart() {
    let refusal = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
    let forbidden = (StatusCode::FORBIDDEN, refusal.to_string());
    for (response, counts) in [
        ((StatusCode::OK, bindings(&["b"])), true),
        ((StatusCode::OK, bindings(&["a"])), false),
        ((StatusCode::OK, bindings(&[])), true),
        (forbidden, true),
    ] {
        let content = json!({"holderIdentity": "pod_process", "renewTime": MicroTime(Timestamp::now())});
        let items = json!([{"metadata": {"name": NAME, "namespace": "b"}, "spec": content}]);
        let leases = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string();
        let client =
            Router::new().route(LEASES, get(async move || leases)).route(BINDINGS, get(async move || response));
        let client = Client::new(client, "a");
        let expected = if counts { vec!["process".to_owned()] } else { Vec::new() };
        assert_eq!(holders(&client).await.unwrap().into_iter().collect::<Vec<_>>(), expected);
        let inactivity = describe_inactivity(&client).await;
        assert_eq!(inactivity.as_deref(), (!counts).then_some("no process holds a Lease named osdpl"));
    }
}
