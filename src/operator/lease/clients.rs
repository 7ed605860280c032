//! Creates the clients of the operator. Only the active operator can write through them.

use std::time::Duration;

use axum::http::{HeaderValue, Method, Request, Response, header};
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use kube::{Client, Config};
use tower::retry::Retry;
use tower::{BoxError, Service, service_fn};

use super::Leadership;

/// How long a connection may carry no data while a response is awaited. After this time, the connection counts as lost,
/// for example because a firewall drops its packets.
///
/// The API server sends a bookmark to each watch once per minute (`k8s.io/apiserver`, `cacher`: `bookmarkFrequency`),
/// so a watch on an intact connection never reaches this limit.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

/// The clients of the operator.
pub struct Clients {
    /// The client for the Lease, with its own connection pool: after it has lost a connection, its next attempt must
    /// not get another dead connection that other requests left in a shared pool.
    pub lease: Client,
    /// The client for reads.
    pub reads: Client,
    /// The client for writes. It sends a write only while this process is the active operator.
    pub writes: Client,
    /// The client for evictions. Unlike `writes`, it does not retry after the response "too many requests".
    pub evictions: Client,
}

/// The error of a write by a process that is not the active operator.
#[derive(Debug, thiserror::Error)]
#[error("this operator may not write, because it does not hold the Lease")]
struct NotActive;

impl Clients {
    /// Creates the clients. `name` distinguishes the operator's processes in the audit log of the API server.
    ///
    /// # Errors
    /// If the configuration is not usable.
    pub fn new(mut config: Config, leadership: &Leadership, name: &str) -> Result<Self, kube::Error> {
        let agent = format!("osdpl/{} ({name})", env!("CARGO_PKG_VERSION"));
        config.headers.extend(HeaderValue::from_str(&agent).ok().map(|agent| (header::USER_AGENT, agent)));
        (config.read_timeout, config.reset_reader_on_write) = (Some(READ_TIMEOUT), true);
        let namespace = config.default_namespace.clone();
        let (lease, reads) = (Client::try_from(config.clone())?, Client::try_from(config.clone())?);
        // Each retry of kube must also go through the check, because a retry may follow minutes after the first
        // attempt.
        config.default_retry = false;
        let checked = checked(Client::try_from(config)?, leadership.clone());
        let writes = Client::new(Retry::new(RetryPolicy::server_retry(), checked.clone()), namespace.clone());
        Ok(Self { lease, reads, writes, evictions: Client::new(checked, namespace) })
    }
}

/// Returns a service that always sends reads, but sends writes only while this process is the active operator.
fn checked(
    client: Client,
    leadership: Leadership,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + Send {
    service_fn(move |request: Request<Body>| {
        let (client, leadership) = (client.clone(), leadership.clone());
        async move {
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
            if is_read || leadership.may_write() {
                client.send(request).await.map_err(BoxError::from)
            } else {
                Err(NotActive.into())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

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
        let client = Client::new(checked(Client::new(fake, "a"), leadership.clone()), "a");
        let api: Api<Namespace> = Api::all(client);
        let namespace = api.get("a").await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        let refused = api.create(&PostParams::default(), &namespace).await.unwrap_err().to_string();
        assert!(refused.contains("does not hold the Lease"), "{refused}");
        leadership.activate(Instant::now() + Duration::from_mins(1));
        api.create(&PostParams::default(), &namespace).await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 2);
        // The last renewal is no longer valid, although the operator has not noticed it yet.
        leadership.activate(Instant::now());
        api.delete("a", &DeleteParams::default()).await.unwrap_err();
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }
}
