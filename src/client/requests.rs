//! Sends requests to the API server, each with a time limit and a few retries.
//!
//! osdpl switches off kube's own retries, because they wait too long: as long as the header `Retry-After` demands or,
//! without this header, for up to several minutes. A client could still sleep when the API server has long recovered.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder, service_fn};

use crate::resolve::resolve;

/// The time for which a client waits for data on a connection before it closes the connection. The limit ends a watch
/// on a dead connection, for example one whose packets a firewall drops. If the time limit of a request is longer, the
/// client waits for that time instead.
///
/// The API server sends a bookmark to each watch once per minute (`k8s.io/apiserver`, `cacher`: `bookmarkFrequency`),
/// so a watch on an intact connection never reaches this timeout.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

/// The time for which a client keeps a connection that no request uses. Each connection takes 35 KB of memory, and a
/// new one takes a few milliseconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The size of a small buffer ([`Buffers::Small`]), in bytes.
const SMALL_BUFFER: usize = 4 * 1024;

/// The buffers into which the connections of a client read responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Buffers that grow with the responses.
    Growing,
    /// Buffers of 4 KiB. They save more than a megabyte if about 40 connections wait for events of watches.
    ///
    /// The headers of a response must fit into such a buffer. The headers that the API server sends for reads take less
    /// than 1 KiB. With a write, it can also send warnings of admission webhooks, up to 4096 characters.
    Small,
}

/// The read timeout of a client whose requests have no time limit.
///
/// hyper adds the read timeout to the current time. With `Duration::MAX`, this sum would overflow.
const LONGEST_READ_TIMEOUT: Duration = Duration::from_hours(365 * 24);

/// The time limit for one request of the operator. A reconcile pass sends many requests, and has a longer limit.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The default pauses before the retries of a request, for [`Bounds::new`].
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// A function that decides before each attempt of a request whether the client may send the request. Its argument is
/// the request's HTTP method.
pub type Check = Arc<dyn Fn(&Method) -> Result<(), BoxError> + Send + Sync>;

/// The limits for the requests of a client: time, retries, and a check. For watches and followed logs, which do not
/// end, only the check and `gives_up` apply.
#[derive(Clone)]
pub struct Bounds {
    /// The time limit of a request, from the first attempt until the last response is complete, including the pauses
    /// between attempts.
    pub timeout: Duration,
    /// The pauses before the retries of a request, one for each retry. If the list is empty, there are no retries.
    ///
    /// The client retries only after the responses 429 (too many requests) and 503 (unavailable). In both cases, the
    /// API server has not begun to process the request, so a retry can't do anything twice.
    pub pauses: &'static [Duration],
    /// Whether the client refuses all further requests after one request has exceeded the time limit. Requests for the
    /// log of a pod do not count. A command that sends many requests then does not wait for each of them.
    pub gives_up: bool,
    /// The function that decides before each attempt whether the client may send the request.
    pub check: Check,
}

impl Bounds {
    /// Returns bounds with the time limit `timeout`, the default retries, and a check that permits every request.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, pauses: &PAUSES, gives_up: false, check: Arc::new(|_| Ok(())) }
    }
}

/// Creates a client that does not retry, and whose requests have no time limit. The caller adds retries and the time
/// limit with [`bounded`].
///
/// The client is the same as kube's default client, except that it resolves the name of the API server with
/// [`resolve`]. kube's default client would resolve the name on one of tokio's threads for blocking work, where a slow
/// DNS server would delay other work.
///
/// If the kubeconfig has a credential plugin, the function runs the plugin, and blocks the thread until the plugin has
/// ended.
///
/// `timeout` must be the time limit that the caller will pass to [`bounded`]. The returned client uses `timeout` only
/// to decide how long to wait for data on a connection.
///
/// # Errors
/// Returns an error if the configuration is not usable, for example because it contains a proxy.
pub fn connect(config: Config, timeout: Duration, buffers: Buffers) -> Result<Client, kube::Error> {
    if let Some(proxy_url) = &config.proxy_url {
        return Err(kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy_url.clone()) });
    }
    let lookup = |name: Name| async move { resolve(name.as_str(), 0).await.map(Vec::into_iter) };
    let mut http = HttpConnector::new_with_resolver(service_fn(lookup));
    // Accept `https` URLs, which this connector refuses by default: the TLS connector that wraps it passes `https` URLs
    // on.
    http.enforce_http(false);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(http)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(Some(read_timeout(timeout)));
    connector.set_write_timeout(config.write_timeout);
    // Begin the read timeout again when the client sends a request. Otherwise the time during which the connection was
    // idle before the request would count, too.
    connector.set_reset_reader_on_write(true);
    let mut http_client = legacy::Client::builder(TokioExecutor::new());
    // Without the timer, the client would never close idle connections.
    http_client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
    if buffers == Buffers::Small {
        http_client.http1_read_buf_exact_size(SMALL_BUFFER);
    }
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http_client.build::<_, Body>(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// Returns how long a client waits for data on a connection. This is at least `timeout`, the time limit of a request,
/// because the server may need the whole time limit before it sends any data.
fn read_timeout(timeout: Duration) -> Duration {
    timeout.clamp(READ_TIMEOUT, LONGEST_READ_TIMEOUT)
}

/// Returns a client that sends its requests through `client`, and applies `bounds` to them.
pub fn bounded(client: Client, bounds: Bounds) -> Client {
    let namespace = client.default_namespace().to_owned();
    let has_given_up = Arc::<AtomicBool>::default();
    let service = service_fn(move |request| send(client.clone(), request, bounds.clone(), Arc::clone(&has_given_up)));
    Client::new(service, namespace)
}

async fn send(
    client: Client,
    request: Request<Body>,
    bounds: Bounds,
    has_given_up: Arc<AtomicBool>,
) -> Result<Response<Body>, BoxError> {
    let timed_out = || {
        let message = format!("no response within {} s", bounds.timeout.as_secs());
        std::io::Error::new(std::io::ErrorKind::TimedOut, message)
    };
    if has_given_up.load(Ordering::Relaxed) {
        return Err(timed_out().into());
    }
    if is_stream(&request) {
        (bounds.check)(request.method())?;
        return Ok(client.send(request).await?);
    }
    let mut deadline = pin!(tokio::time::sleep(bounds.timeout));
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let mut pauses = bounds.pauses.iter();
    loop {
        (bounds.check)(&parts.method)?;
        let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let response = tokio::select! {
            biased;
            () = &mut deadline => {
                has_given_up.fetch_or(bounds.gives_up && !is_log(&parts.uri), Ordering::Relaxed);
                return Err(timed_out().into());
            }
            response = receive(&client, request) => response?,
        };
        let is_busy = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let Some(pause) = pauses.next().filter(|_| is_busy) else { return Ok(response) };
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            () = &mut deadline => return Ok(response),
        }
    }
}

/// Sends a request, and waits until the response is complete.
async fn receive(client: &Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let (parts, body) = client.send(request).await?.into_parts();
    Ok(Response::from_parts(parts, Body::from(body.collect_bytes().await?)))
}

/// Whether a request reads the log of a pod. The API server gets the log from the kubelet of the pod's node. If there
/// is no response, the cause may be this node instead of the API server. So the client does not give up after such a
/// request (see [`Bounds::gives_up`]).
fn is_log(uri: &Uri) -> bool {
    uri.path().ends_with("/log")
}

/// Whether the response to a request never ends: the request is a watch, or follows a log.
fn is_stream(request: &Request<Body>) -> bool {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "follow=true"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::Router;
    use kube::Api;
    use kube::api::WatchParams;
    use kube::core::{ApiResource, DynamicObject};

    use super::*;

    /// The object that the fake API server returns.
    const OBJECT: &str = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}"#;

    /// Returns bounds for tests: no time limit, and very short pauses between the attempts.
    fn patient() -> Bounds {
        const SHORT: [Duration; 3] = [Duration::from_millis(1); 3];
        Bounds { pauses: &SHORT, ..Bounds::new(Duration::MAX) }
    }

    /// Returns a client of a fake API server, and the status codes that the server has not sent yet, the next one last.
    ///
    /// The server responds to each request with the next code of `codes`, and does not respond to further requests.
    fn fake(codes: &[u16], bounds: Bounds) -> (Api<DynamicObject>, Arc<Mutex<Vec<u16>>>) {
        let codes = Arc::new(Mutex::new(codes.iter().rev().copied().collect::<Vec<_>>()));
        let left = Arc::clone(&codes);
        let router = Router::new().fallback(async move || {
            let next = codes.lock().unwrap().pop();
            let Some(code) = next else { return std::future::pending().await };
            let body = if code == 200 { OBJECT } else { "refused" };
            (StatusCode::from_u16(code).unwrap(), [("Retry-After", "1000")], body)
        });
        (Api::all_with(bounded(Client::new(router, "a"), bounds), &namespaces()), left)
    }

    fn namespaces() -> ApiResource {
        ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: "Namespace".into(),
            plural: "namespaces".into(),
        }
    }

    /// Returns the status code that the client gets, and the number of `codes` that the fake API server has not sent.
    async fn code(codes: &[u16], bounds: Bounds) -> (u16, usize) {
        let (api, left) = fake(codes, bounds);
        let code = match api.get("a").await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        };
        (code, left.lock().unwrap().len())
    }

    #[tokio::test]
    async fn retries_refused_requests_a_few_times_and_ignores_retry_after() {
        assert_eq!(code(&[503, 429, 503, 200], patient()).await, (200, 0));
        assert_eq!(code(&[503, 503, 503, 503, 200], patient()).await, (503, 1));
        assert_eq!(code(&[503, 200], Bounds { pauses: &[], ..patient() }).await, (503, 1));
        for processed in [500, 504, 409] {
            assert_eq!(code(&[processed, 200], patient()).await, (processed, 1));
        }
        // The time limit ends during a pause, after the response 503. The client returns this response and not a
        // timeout, because only the response explains the problem.
        let impatient = Bounds { timeout: Duration::from_millis(100), pauses: &[Duration::MAX], ..patient() };
        assert_eq!(code(&[503, 200], impatient).await, (503, 1));
    }

    #[tokio::test]
    async fn limits_the_time_of_requests_but_not_of_watches() {
        let (api, _) = fake(&[], Bounds::new(Duration::from_millis(1)));
        let error = api.get("a").await.unwrap_err().to_string();
        assert!(error.contains("no response within 0 s"), "{error}");
        let watching = async { api.watch(&WatchParams::default(), "0").await.is_ok() };
        let ended = tokio::time::timeout(Duration::from_millis(200), watching).await;
        assert!(ended.is_err(), "a watch waits for its first event as long as necessary");
    }

    #[test]
    fn resolves_names_while_the_thread_for_blocking_work_is_busy() {
        let runtime = crate::runtime();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
            tokio::spawn(async move { axum::serve(listener, Router::new().fallback(async || OBJECT)).await });
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || is_done.recv());
            let client = connect(Config::new(url.parse().unwrap()), REQUEST_TIMEOUT, Buffers::Small).unwrap();
            let api: Api<DynamicObject> = Api::all_with(client, &namespaces());
            let object = tokio::time::timeout(Duration::from_secs(10), api.get("a")).await;
            drop(done);
            assert_eq!(object.unwrap().unwrap().metadata.name.as_deref(), Some("a"));
            assert!(busy.await.unwrap().is_err());
        });
    }

    #[tokio::test]
    async fn gives_up_after_one_silent_request() {
        let answer = async |uri: Uri| {
            if uri.path().contains("silent") {
                std::future::pending::<()>().await;
            }
            OBJECT
        };
        let client = Client::new(Router::new().fallback(answer), "a");
        let bounds = Bounds::new(Duration::from_millis(50));
        let impatient = bounded(client.clone(), Bounds { gives_up: true, ..bounds.clone() });
        let patient = bounded(client, bounds);
        let read = async |client: &Client, path: &str| {
            client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.map_err(|error| error.to_string())
        };
        for client in [&patient, &impatient] {
            assert!(read(client, "/pods/silent/log").await.is_err());
            assert_eq!(read(client, "/a").await.as_deref(), Ok(OBJECT), "only one pod's log is silent");
            assert!(read(client, "/silent").await.is_err());
        }
        assert_eq!(read(&patient, "/a").await.as_deref(), Ok(OBJECT));
        for path in ["/a", "/a?watch=true"] {
            let error = read(&impatient, path).await.unwrap_err();
            assert!(error.contains("no response within 0 s"), "{error}");
        }
    }

    #[tokio::test]
    async fn reads_for_as_long_as_a_request_may_take() {
        assert_eq!(read_timeout(REQUEST_TIMEOUT), READ_TIMEOUT, "watches need this time between two bookmarks");
        assert_eq!(read_timeout(READ_TIMEOUT * 2), READ_TIMEOUT * 2);
        // A client without a time limit keeps waiting, and receives the response however late it arrives.
        let (started, mut start) = tokio::sync::mpsc::unbounded_channel();
        let respond = async move || {
            let (late, wait) = tokio::sync::oneshot::channel::<()>();
            started.send(late).unwrap();
            wait.await.unwrap();
            OBJECT
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(respond)).await });
        let client = connect(Config::new(url.parse().unwrap()), Duration::MAX, Buffers::Growing).unwrap();
        let api: Api<DynamicObject> = Api::all_with(bounded(client, Bounds::new(Duration::MAX)), &namespaces());
        let respond = async { start.recv().await.unwrap().send(()).unwrap() };
        let (object, ()) = tokio::join!(api.get("a"), respond);
        assert_eq!(object.unwrap().metadata.name.as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn checks_each_attempt() {
        let allowed = Mutex::new(1);
        let check: Check = Arc::new(move |method| {
            let mut allowed = allowed.lock().unwrap();
            *allowed -= 1;
            if *allowed < 0 { Err(format!("no {method}").into()) } else { Ok(()) }
        });
        let (api, left) = fake(&[503, 200], Bounds { check, ..patient() });
        let error = api.get("a").await.unwrap_err().to_string();
        assert!(error.contains("no GET"), "{error}");
        assert_eq!(left.lock().unwrap().len(), 1);
    }
}
