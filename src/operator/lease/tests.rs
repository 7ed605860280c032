//! Tests the elector with a fake API server that stores one Lease.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use osdpl_client::{Bounds, bounded};
use serde_json::{Value, json};

use super::*;

/// The Lease that the fake API server stores; null if there is none. A write must name the stored resourceVersion.
type Stored = Arc<Mutex<Value>>;

fn fake(stored: &Stored) -> Client {
    let stored = Arc::clone(stored);
    let router = Router::new().fallback(async move |method: Method, body: Bytes| {
        let mut stored = stored.lock().unwrap();
        let refused = |code: u16| {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "refused"});
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
    });
    Client::new(router, "a")
}

/// Returns the resourceVersion that the Lease gets with the next write.
fn next(lease: &Value) -> String {
    let version = lease["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
    (version.unwrap_or_default() + 1).to_string()
}

fn elector(stored: &Stored) -> Elector {
    let instance = Instance::of_this_process(None).unwrap();
    Elector::new(fake(stored), "a", instance, None, Leadership::default())
}

#[tokio::test]
async fn releases_the_lease_after_a_renewal_without_response() {
    let stored = Stored::default();
    let mut elector = elector(&stored);
    elector.write(elector.identity.clone()).await.unwrap();
    let holder = || stored.lock().unwrap()["spec"]["holderIdentity"].clone();
    assert_eq!(holder(), elector.identity.as_str());
    // The API server has stored a renewal, but the elector has not received the response.
    let renewed = next(&stored.lock().unwrap());
    stored.lock().unwrap()["metadata"]["resourceVersion"] = renewed.into();
    elector.release().await;
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
    elector.release().await;
    assert_eq!(*stored.lock().unwrap(), changed);
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
