//! A fake API server for tests of deletions.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Cluster;

/// A fake API server that refuses every deletion and eviction, as if a newer object with the same name had replaced the
/// object to delete.
pub(super) struct RefusingServer {
    cluster: Cluster,
    /// The `preconditions`, such as the expected uid, in each request that the server has refused.
    preconditions: Arc<Mutex<Vec<Value>>>,
}

impl RefusingServer {
    /// Starts a server. It responds to a GET request with the object that `read` returns for the last part of the URL's
    /// path. It refuses all other requests.
    pub(super) fn new(read: impl Fn(&str) -> Value + Clone + Send + Sync + 'static) -> Self {
        let preconditions = Arc::<Mutex<Vec<Value>>>::default();
        let refused = Arc::clone(&preconditions);
        let router = axum::Router::new().fallback(async move |request: Request| -> Response {
            if request.method() == Method::GET {
                let path = request.uri().path().to_owned();
                return read(path.rsplit('/').next().unwrap_or_default()).to_string().into_response();
            }
            let body = axum::body::to_bytes(request.into_body(), 4096).await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let options = body.get("deleteOptions").unwrap_or(&body);
            refused.lock().unwrap_or_else(PoisonError::into_inner).push(options["preconditions"].clone());
            let status = kube::core::Status::failure("Precondition failed: UID in precondition: seen", "Conflict");
            (StatusCode::CONFLICT, json!(status.with_code(409)).to_string()).into_response()
        });
        Self { cluster: Cluster::new(kube::Client::new(router, "openstack")), preconditions }
    }

    /// Returns a `Cluster` that sends its requests to this server.
    pub(super) fn cluster(&self) -> Cluster {
        self.cluster.clone()
    }

    /// Returns the `preconditions` in each request that the server has refused.
    pub(super) fn preconditions(&self) -> Vec<Value> {
        self.preconditions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
