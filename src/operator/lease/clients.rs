//! Creates the operator's clients for the API server. Only the active operator can write objects other than the Lease.

use std::sync::Arc;

use axum::http::{HeaderValue, Method, header};
use kube::{Client, Config};
use osdpl_client::{Bounds, Buffers, Check, REQUEST_TIMEOUT, bounded, connect};

use super::Leadership;

/// The operator's clients for the API server.
pub struct Clients {
    /// The client for the Lease. It has its own connection pool: if a network failure breaks all connections, a shared
    /// pool could give the next request for the Lease another broken connection. The client does not retry, because
    /// [`Elector`](super::Elector) decides after each failure whether to send the request again.
    pub lease: Client,
    /// The client for reads.
    pub reads: Client,
    /// The client for writes. It sends a write only while this process is the active operator.
    pub writes: Client,
    /// The client for evictions. Unlike `writes`, it does not retry after the response 429 (Too Many Requests), because
    /// a `PodDisruptionBudget` may forbid the eviction for a long time.
    pub evictions: Client,
}

/// The error of a write by a process that is not the active operator.
#[derive(Debug, thiserror::Error)]
#[error("this operator may not write, because it does not hold the Lease")]
struct NotActive;

impl Clients {
    /// Creates the clients. `name` becomes part of the user agent, which distinguishes the operator processes in the
    /// audit log of the API server.
    ///
    /// # Errors
    /// Returns an error if no client can be created from `config`, for example because `config` contains a proxy, which
    /// osdpl does not support.
    pub fn new(mut config: Config, leadership: &Leadership, name: &str) -> Result<Self, kube::Error> {
        let agent = format!("osdpl/{} ({name})", env!("CARGO_PKG_VERSION"));
        config.headers.extend(HeaderValue::from_str(&agent).ok().map(|agent| (header::USER_AGENT, agent)));
        let bounds = Bounds::new(REQUEST_TIMEOUT);
        let lease = bounded(
            connect(config.clone(), REQUEST_TIMEOUT, Buffers::Growing)?,
            Bounds { pauses: &[], ..bounds.clone() },
        );
        let reads = bounded(connect(config.clone(), REQUEST_TIMEOUT, Buffers::Small)?, bounds.clone());
        let (connection, bounds) = (
            connect(config, REQUEST_TIMEOUT, Buffers::Growing)?,
            Bounds { check: only_active(leadership.clone()), ..bounds },
        );
        let evictions = bounded(connection.clone(), Bounds { pauses: &[], ..bounds.clone() });
        Ok(Self { lease, reads, writes: bounded(connection, bounds), evictions })
    }
}

/// Returns a function that permits or refuses each request of a client. The function always permits reads, but permits
/// writes only while this process is the active operator.
fn only_active(leadership: Leadership) -> Check {
    Arc::new(move |method| {
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_read || leadership.may_write() { Ok(()) } else { Err(NotActive.into()) }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use axum::Router;
    use axum::http::StatusCode;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use kube::api::{DeleteParams, PostParams};

    use super::*;

    #[tokio::test]
    async fn only_the_active_operator_writes() {
        let (requests, leadership) = (Arc::<AtomicUsize>::default(), Leadership::default());
        let counter = Arc::clone(&requests);
        let fake = Router::new().fallback(async move || {
            counter.fetch_add(1, Ordering::Relaxed);
            (StatusCode::OK, r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}"#)
        });
        let bounds = Bounds { check: only_active(leadership.clone()), ..Bounds::new(REQUEST_TIMEOUT) };
        let client = bounded(Client::new(fake, "a"), bounds);
        let api: Api<Namespace> = Api::all(client);
        let namespace = api.get("a").await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        let refused = api.create(&PostParams::default(), &namespace).await.unwrap_err().to_string();
        assert!(refused.contains("does not hold the Lease"), "{refused}");
        leadership.activate(Instant::now() + Duration::from_mins(1));
        api.create(&PostParams::default(), &namespace).await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 2);
        // The time until which the operator may write has passed. Writes must fail from now on, even if no task has
        // noticed that the time has passed.
        leadership.activate(Instant::now());
        api.delete("a", &DeleteParams::default()).await.unwrap_err();
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }
}
