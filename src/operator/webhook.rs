//! The validating webhook, which the API server calls before it accepts an `OpenStackDeployment`.
//!
//! The webhook serves HTTPS with a certificate and key in two files. When the files change, the webhook reads them
//! again: cert-manager writes a renewed certificate to the same files.
//!
//! Anyone who reaches the port can send requests. So the webhook limits the size, the number and the duration of
//! requests, and the number of connections.

mod listener;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::controller::CatalogBuild;
use crate::server;
use listener::TlsListener;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec, owner_label};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;
use osdpl_core::schema::SchemaError;
use osdpl_decide::advise;
use osdpl_lint::validate::{ReviewInput, Schemas, spec_to_check};
use worker::Worker;

/// The URL path of the webhook.
pub const PATH: &str = "/validate";

/// The paths of two PEM files: the webhook's TLS certificate and its private key.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The path of the file that contains the certificate, and after it the intermediate CA certificates.
    pub certificate: PathBuf,
    /// The path of the private key of the certificate.
    pub key: PathBuf,
}

/// The maximum time for which the review of a resource waits for the operator to read the additions (ConfigMaps with
/// catalogue files).
///
/// The sum of `CATALOGUE_TIMEOUT` and [`OBSERVATION_TIMEOUT`] is the longest time for which the webhook waits for data
/// from the operator. This sum must be less than `webhook.timeoutSeconds` (a value of the operator's chart), which
/// limits how long the API server waits for the webhook.
const CATALOGUE_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum time that the webhook spends on a request, including the time in which it reads the request.
///
/// This time must be less than `webhook.timeoutSeconds`, which limits how long the API server waits for the webhook.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(4500);

/// The maximum size of a request in bytes.
///
/// The API server accepts an object in a request of up to 3 MiB. It sends the webhook the old and the new object
/// together, so a request to the webhook can have 6 MiB.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// The maximum number of requests that the webhook reads and reviews at the same time. Further requests wait.
const MAX_REQUESTS: usize = 4;

/// The webhook's response if the validation of a resource took too long or panicked.
const NO_RESULT: &str = "the operator could not validate the resource in time; try again";

/// A function that reads the additions that a spec names. Its arguments are the namespace of the resource and the spec.
/// It returns a function that builds the catalogue with these additions.
pub type CatalogOf = Arc<dyn Fn(String, OpenStackDeploymentSpec) -> BoxFuture<'static, CatalogBuild> + Send + Sync>;

/// The maximum time for which the webhook waits for the properties of the cluster, such as its nodes, when it reviews a
/// resource. After this time, the webhook skips the checks that need these properties.
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(1);

/// A function that returns the properties of the cluster that the webhook needs to check a spec.
///
/// Its arguments are the cloud's owner label (`osdpl_core::api::owner_label`), the spec and the catalogue.
pub type ClusterInfoOf =
    Arc<dyn Fn(String, OpenStackDeploymentSpec, Arc<Catalog>) -> BoxFuture<'static, ClusterInfo> + Send + Sync>;

/// The maximum time for which the webhook waits for Nova when it reviews a deletion. If Nova does not respond in this
/// time, the webhook refuses the deletion.
const NOVA_TIMEOUT: Duration = Duration::from_secs(3);

/// A function that returns why the webhook must refuse the deletion of a resource, for example because Nova still has
/// instances; `None` if the webhook may allow the deletion.
pub type DeletionObstacleOf = Arc<dyn Fn(OpenStackDeployment) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// The functions through which the webhook gets data from the operator.
#[derive(Clone)]
pub struct Sources {
    /// Reads the additions that a spec names.
    pub catalog_of: CatalogOf,
    /// Returns the properties of the cluster that the webhook needs to check a spec.
    pub cluster_info_of: ClusterInfoOf,
    /// Returns why the webhook must refuse the deletion of a resource.
    pub deletion_obstacle_of: DeletionObstacleOf,
}

/// Responds to the API server's `AdmissionReview`s.
struct Reviewer {
    known: Sources,
    schemas: Arc<Schemas>,
    worker: Worker,
}

/// Serves the webhook until `stop` is cancelled.
///
/// # Errors
/// Returns an error if the certificate can't be read or does not match its key, if a schema of the catalogue is
/// invalid, or if the thread that checks resources can't be started.
pub fn serve(
    listener: TcpListener,
    files: CertificateFiles,
    catalog: &Catalog,
    known: Sources,
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let schemas = Schemas::new(catalog).map_err(|error: SchemaError| anyhow::anyhow!("{error}"))?;
    let listener = TlsListener::new(listener, files).context("the webhook can't use its certificate")?;
    let reviewer = Arc::new(Reviewer { known, schemas: Arc::new(schemas), worker: Worker::start(MAX_REQUESTS)? });
    let router = limited(Router::new().route(PATH, post(review)).with_state(reviewer), REQUEST_TIMEOUT);
    Ok(server::serve(listener, router, stop))
}

/// Returns the router with limits for the size, the number and the duration of requests.
fn limited(router: Router, timeout: Duration) -> Router {
    let limits = (Arc::new(Semaphore::new(MAX_REQUESTS)), timeout);
    router.layer(DefaultBodyLimit::max(MAX_BODY)).layer(from_fn_with_state(limits, limit))
}

async fn limit(State((permits, timeout)): State<(Arc<Semaphore>, Duration)>, request: Request, next: Next) -> Response {
    let respond = async {
        // Ignore an error: `acquire` fails only if the semaphore is closed, which never happens.
        let _permit = permits.acquire().await;
        next.run(request).await
    };
    tokio::time::timeout(timeout, respond).await.unwrap_or_else(|_| unavailable(NO_RESULT).into_response())
}

fn unavailable(why: &str) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

async fn review(State(reviewer): State<Arc<Reviewer>>, body: Bytes) -> Result<impl IntoResponse, (StatusCode, String)> {
    let review = reviewer.worker.run(move || serde_json::from_slice::<Value>(&body)).await;
    let review = review
        .ok_or_else(|| unavailable(NO_RESULT))?
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("this is not an AdmissionReview: {error}\n")))?;
    let response = reviewer.review(Arc::new(review)).await.map_err(unavailable)?;
    Ok(([(CONTENT_TYPE, "application/json")], response.to_string()))
}

impl Reviewer {
    /// Checks the resource in an `AdmissionReview`, and returns the response to the API server.
    ///
    /// # Errors
    /// Returns an error if the operator has not read the additions to the catalogue in time, or the build of the
    /// catalogue or the validation panicked.
    async fn review(&self, review: Arc<Value>) -> Result<Value, &'static str> {
        if review["request"]["operation"] == "DELETE" {
            return Ok(self.review_deletion(&review["request"]).await);
        }
        let Sources { catalog_of, cluster_info_of, .. } = &self.known;
        let text = |field: &str| review["request"][field].as_str().unwrap_or_default().to_owned();
        let namespace = text("namespace");
        let owner = owner_label(&namespace, &text("name"));
        // If the resource needs no check of its spec, the response does not depend on the additions to the catalogue.
        // So use the catalogue without additions.
        let shared = Arc::clone(&review);
        let spec = self.worker.run(move || spec_to_check(&shared)).await.ok_or(NO_RESULT)?;
        let build = catalog_of(namespace, spec.clone().unwrap_or_default());
        let build = tokio::time::timeout(CATALOGUE_TIMEOUT, build).await;
        let build = build.map_err(|_| "the operator has not read the additions to the catalogue yet; try again")?;
        let (catalog, findings) = self.worker.run(build).await.ok_or(NO_RESULT)?;
        let (mut cluster_info, mut relevant) = (ClusterInfo::default(), Vec::new());
        if let Some(spec) = spec {
            let observed = cluster_info_of(owner, spec, Arc::clone(&catalog));
            let observed = tokio::time::timeout(OBSERVATION_TIMEOUT, observed).await;
            (cluster_info, relevant) = (observed.unwrap_or_default(), findings);
        }
        let schemas = Arc::clone(&self.schemas);
        let validate = move || {
            let input = ReviewInput {
                catalog: &catalog,
                schemas: &schemas,
                manifests: &[],
                cluster_info: &cluster_info,
                now: None,
            };
            let is_complete = relevant.iter().all(|finding| finding.level != Level::Error);
            with_warnings(input.admission(&review, is_complete), &relevant)
        };
        self.worker.run(validate).await.ok_or(NO_RESULT)
    }

    /// Returns the response to the request to delete a resource.
    async fn review_deletion(&self, request: &Value) -> Value {
        // Allow the deletion of a resource that this operator can't parse. For example, the CRD of another osdpl
        // version may have allowed a value that this version does not know.
        let obstacle = match serde_json::from_value(request["oldObject"].clone()) {
            Ok(deployment) => {
                let deployment: OpenStackDeployment = deployment;
                let asked = (self.known.deletion_obstacle_of)(deployment.clone());
                let late = || Some(advise("Nova does not respond to the query for instances", &deployment));
                tokio::time::timeout(NOVA_TIMEOUT, asked).await.unwrap_or_else(|_| late())
            }
            Err(_) => None,
        };
        let mut response = json!({"uid": request["uid"], "allowed": obstacle.is_none()});
        if let Some(message) = obstacle {
            response["status"] = json!({"message": message, "reason": "Forbidden", "code": 403});
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }
}

/// Adds the findings about the catalogue to the warnings of a response. These findings come first, because they may be
/// the cause of the other warnings.
fn with_warnings(mut response: Value, findings: &[Finding]) -> Value {
    if !findings.is_empty() {
        let warnings = &mut response["response"]["warnings"];
        let others = warnings.as_array().cloned().unwrap_or_default();
        let findings = findings.iter().map(|finding| Value::from(finding.to_string()));
        *warnings = findings.chain(others).collect();
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::listener::tests::{certify, connect};
    use super::*;
    use osdpl_core::observed::{Class, NodeCount, Range};

    fn reviewer(observe: impl Fn() -> BoxFuture<'static, ClusterInfo> + Send + Sync + 'static) -> Reviewer {
        reviewer_with_findings(Vec::new(), observe)
    }

    fn reviewer_with_findings(
        findings: Vec<Finding>,
        observe: impl Fn() -> BoxFuture<'static, ClusterInfo> + Send + Sync + 'static,
    ) -> Reviewer {
        let catalog = Arc::new(osdpl_core::files::load_catalog(None).unwrap());
        let schemas = Schemas::new(&catalog).unwrap();
        let catalog_of: CatalogOf = Arc::new(move |_, _| {
            let built = (Arc::clone(&catalog), findings.clone());
            Box::pin(std::future::ready(Box::new(move || built) as CatalogBuild))
        });
        let deletion_obstacle_of: DeletionObstacleOf = Arc::new(|deployment| Box::pin(obstacle(deployment)));
        let known = Sources { catalog_of, cluster_info_of: Arc::new(move |_, _, _| observe()), deletion_obstacle_of };
        Reviewer { known, schemas: Arc::new(schemas), worker: Worker::start(1).unwrap() }
    }

    /// The tests' function that returns why the webhook must refuse the deletion of a resource. The cloud `full` has
    /// instances. For the cloud `silent`, the function never returns, as if Nova did not respond.
    async fn obstacle(deployment: OpenStackDeployment) -> Option<String> {
        match deployment.metadata.name.as_deref() {
            Some("full") => Some("Nova has instances".into()),
            Some("silent") => std::future::pending().await,
            _ => None,
        }
    }

    #[tokio::test]
    async fn refuses_the_deletion_of_a_cloud_with_instances() {
        let reviewer = reviewer(|| Box::pin(std::future::pending()));
        let response_to = async |name: &str| {
            let object = json!({
                "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
                "metadata": {"name": name, "namespace": "openstack"}, "spec": {"openstackRelease": "2026.1"},
            });
            let request = json!({"uid": "1", "operation": "DELETE", "object": null, "oldObject": object});
            let mut review = reviewer.review(Arc::new(json!({"request": request}))).await.unwrap();
            review["response"].take()
        };
        assert_eq!(response_to("empty").await, json!({"uid": "1", "allowed": true}));
        let full = response_to("full").await;
        assert_eq!((&full["allowed"], &full["status"]["message"]), (&false.into(), &"Nova has instances".into()));
        let silent = response_to("silent").await["status"]["message"].take();
        let expected = "Nova does not respond to the query for instances, so nothing is uninstalled; delete the";
        assert!(silent.as_str().unwrap().starts_with(expected), "{silent}");
        assert!(silent.as_str().unwrap().ends_with("annotate osdpl silent osdpl.dev/delete-with-instances=silent"));
    }

    async fn review_of(reviewer: &Reviewer, presets: &[&str], old: Value) -> Value {
        response_to(reviewer, presets, &json!({}), old).await
    }

    /// Returns the webhook's response to a resource whose spec contains `presets` and the fields in `more`.
    ///
    /// `old` is the stored resource.
    async fn response_to(reviewer: &Reviewer, presets: &[&str], more: &Value, old: Value) -> Value {
        let mut object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud", "namespace": "openstack"},
            "spec": {"openstackRelease": "2026.1", "presets": presets, "storageClass": "slow"},
        });
        let spec = object["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        let review = json!({"request": {"uid": "1", "namespace": "openstack", "object": object, "oldObject": old}});
        reviewer.review(Arc::new(review)).await.unwrap()
    }

    async fn warnings(reviewer: &Reviewer, old: Value) -> String {
        let response = review_of(reviewer, &["compute", "ha"], old).await;
        assert_eq!(response["response"]["allowed"], true, "{response}");
        response["response"]["warnings"].to_string()
    }

    #[tokio::test]
    async fn checks_a_resource_against_its_cluster() {
        let class = Class { name: "fast".into(), provisioner: "example.com/disks".into(), is_default: true };
        let cluster_info =
            ClusterInfo { nodes: Some(NodeCount::All(1)), classes: Some(vec![class]), ..ClusterInfo::default() };
        let reviewer = reviewer(move || Box::pin(std::future::ready(cluster_info.clone())));
        let text = warnings(&reviewer, Value::Null).await;
        assert!(text.contains("spec.storageClass: there is no StorageClass \\\"slow\\\""), "{text}");
        assert!(text.contains("3 database servers (mariadb) are configured, but 1 node carries"), "{text}");
        let same =
            json!({"spec": {"openstackRelease": "2026.1", "presets": ["compute", "ha"], "storageClass": "slow"}});
        assert_eq!(warnings(&reviewer, same).await, "null", "the webhook does not check an unchanged spec");
    }

    #[tokio::test]
    async fn does_not_wait_for_an_unknown_cluster() {
        let reviewer = reviewer(|| Box::pin(std::future::pending()));
        let text = warnings(&reviewer, Value::Null).await;
        assert!(!text.contains("StorageClass") && !text.contains("are configured"), "{text}");
    }

    #[tokio::test]
    async fn a_broken_catalogue_locks_only_conflicting_presets() {
        let message = "the catalogue: ConfigMaps can't be listed".to_owned();
        let finding = Finding::new(Level::Error, "the catalogue", message);
        let reviewer = reviewer_with_findings(vec![finding], || Box::pin(std::future::ready(ClusterInfo::default())));
        let backends = json!({"conf": {"glance": {"DEFAULT": {"enabled_backends": "fast:rbd"}}}});
        let services = json!({"services": {"glance": {"releases": {"glance": {"values": backends}}}}});
        let existing = json!({"spec": {"openstackRelease": "2026.1"}});
        let edited = response_to(&reviewer, &["core", "edge"], &services, existing.clone()).await;
        assert_eq!(edited["response"]["allowed"], true, "{edited}");
        let warnings = edited["response"]["warnings"].to_string();
        assert!(warnings.contains("there is no preset") && warnings.contains("is the default"), "{warnings}");
        let excluded = response_to(&reviewer, &["edge", "single", "ha"], &json!({}), existing).await;
        let message = excluded["response"]["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("spec.presets[2]: ") && !message.contains("edge"), "{message}");
    }

    #[tokio::test]
    async fn warnings_about_the_whole_resource_start_with_the_problem() {
        let range = |is_of_pods, cidr: &str| Range { description: "one".into(), is_of_pods, cidr: cidr.into() };
        let networks = vec![range(true, "10.96.0.0/16"), range(false, "10.96.0.0/12")];
        let cluster_info = ClusterInfo { networks, ..ClusterInfo::default() };
        let reviewer = reviewer(move || Box::pin(std::future::ready(cluster_info.clone())));
        let text: Value = serde_json::from_str(&warnings(&reviewer, Value::Null).await).unwrap();
        let warnings = text.as_array().unwrap().iter().filter_map(Value::as_str);
        assert!(warnings.clone().any(|warning| warning.starts_with("10.96.0.0/16 of one overlaps ")), "{text}");
    }

    #[test]
    fn responds_before_the_api_server_times_out() {
        let shipped: Value =
            osdpl_values::yaml::parse("values.yaml", include_str!("../../deploy/osdpl/values.yaml")).unwrap();
        let given = Duration::from_secs(shipped["webhook"]["timeoutSeconds"].as_u64().unwrap());
        assert!(NOVA_TIMEOUT < given, "{NOVA_TIMEOUT:?} in {given:?}");
        assert!(
            CATALOGUE_TIMEOUT + OBSERVATION_TIMEOUT < given,
            "{CATALOGUE_TIMEOUT:?} + {OBSERVATION_TIMEOUT:?} in {given:?}"
        );
        assert!(REQUEST_TIMEOUT < given, "{REQUEST_TIMEOUT:?} in {given:?}");
    }

    /// Serves `router` with the webhook's limits in a background task. Returns the address of the server.
    async fn serve_limited(router: Router, timeout: Duration) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(server::serve(listener, limited(router, timeout), CancellationToken::new()));
        address
    }

    /// Connects to `address`, sends a request, and returns the connection.
    async fn send(address: std::net::SocketAddr, size: usize, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        request(&mut stream, size, body).await;
        stream
    }

    /// Sends the head of a request that announces a body of `size` bytes, and then `body`.
    async fn request(stream: &mut (impl AsyncWrite + Unpin), size: usize, body: &[u8]) {
        let head =
            format!("POST {PATH} HTTP/1.1\r\nHost: webhook\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        stream.flush().await.unwrap();
    }

    async fn response(mut stream: impl AsyncRead + Unpin) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn limits_the_size_and_the_time_of_requests() {
        let echo = || Router::new().route(PATH, post(|body: Bytes| async move { body.len().to_string() }));
        let patient = serve_limited(echo(), Duration::from_mins(1)).await;
        let refused = response(send(patient, MAX_BODY + 1, &vec![b' '; MAX_BODY + 1]).await).await;
        assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
        let accepted = response(send(patient, 3, b"abc").await).await;
        assert!(accepted.starts_with("HTTP/1.1 200 ") && accepted.ends_with("\r\n\r\n3"), "{accepted}");
        let hasty = serve_limited(echo(), Duration::from_millis(1)).await;
        let late = response(send(hasty, 3, b"a").await).await;
        assert!(late.starts_with("HTTP/1.1 503 ") && late.contains("could not validate"), "{late}");
    }

    /// This test uses the same kind of runtime as the operator: one thread for tasks, and one thread for blocking work.
    #[test]
    fn serves_limited_requests_over_tls_and_validates_on_its_own_thread() {
        let runtime = osdpl_client::runtime();
        runtime.unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
            let files = CertificateFiles { certificate, key };
            let trusted = certify(&files);
            let catalog = Arc::new(osdpl_core::files::load_catalog(None).unwrap());
            let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
            let (finish, end) = mpsc::channel();
            let (used, end) = (Arc::clone(&catalog), Arc::new(Mutex::new(end)));
            // The build of the catalogue continues until the test lets it end.
            let catalog_of: CatalogOf = Arc::new(move |_, _| {
                let (started, end, used) = (started.clone(), Arc::clone(&end), Arc::clone(&used));
                let build = move || {
                    started.send(std::thread::current().name().map(str::to_owned)).unwrap();
                    let _ = end.lock().unwrap().recv_timeout(Duration::from_mins(1));
                    (used, Vec::new())
                };
                Box::pin(std::future::ready(Box::new(build) as CatalogBuild))
            });
            let known = Sources {
                catalog_of,
                cluster_info_of: Arc::new(|_, _, _| Box::pin(std::future::ready(ClusterInfo::default()))),
                deletion_obstacle_of: Arc::new(|deployment| Box::pin(obstacle(deployment))),
            };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(serve(listener, files, &catalog, known, CancellationToken::new()).unwrap());
            let send = async |size: usize, body: &[u8]| {
                let mut stream = connect(address, &trusted).await.unwrap();
                request(&mut stream, size, body).await;
                stream
            };

            let refused = response(send(MAX_BODY + 1, &vec![b' '; MAX_BODY + 1]).await).await;
            assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");

            let object = json!({"spec": {"openstackRelease": "2026.1"}});
            let review = json!({"request": {"uid": "1", "namespace": "openstack", "object": object}}).to_string();
            let busy = send(review.len(), review.as_bytes()).await;
            assert_eq!(starts.recv().await.unwrap().as_deref(), Some("webhook"));
            let other = tokio::task::spawn_blocking(|| "read").await.unwrap();
            assert_eq!(other, "read", "a validation must not delay other work");
            finish.send(()).unwrap();
            let accepted = response(busy).await;
            assert!(accepted.starts_with("HTTP/1.1 200 ") && accepted.contains("\"uid\":\"1\""), "{accepted}");
        });
    }

    #[tokio::test]
    async fn limits_the_number_of_requests() {
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let (finish, _) = tokio::sync::broadcast::channel::<()>(1);
        let finisher = finish.clone();
        let handler = move || {
            let (started, mut end) = (started.clone(), finisher.subscribe());
            async move {
                started.send(()).unwrap();
                end.recv().await.unwrap();
            }
        };
        let address = serve_limited(Router::new().route(PATH, post(handler)), Duration::from_mins(1)).await;
        let mut streams = Vec::new();
        for _ in 0..=MAX_REQUESTS {
            streams.push(send(address, 0, b"").await);
        }
        for _ in 0..MAX_REQUESTS {
            starts.recv().await.unwrap();
        }
        assert!(starts.try_recv().is_err(), "one request waits");
        finish.send(()).unwrap();
        starts.recv().await.expect("the waiting request must start after another request has ended");
        finish.send(()).unwrap();
        for stream in streams {
            assert!(response(stream).await.starts_with("HTTP/1.1 200 "));
        }
    }

    #[tokio::test]
    async fn catalogue_warnings_come_first_for_checked_resources_only() {
        let message = "ConfigMap openstack/edge: there is no service \"keystne\"".to_owned();
        let finding = Finding::new(Level::Warning, "ConfigMap openstack/edge", message);
        let reviewer =
            reviewer_with_findings(vec![finding.clone()], || Box::pin(std::future::ready(ClusterInfo::default())));
        let text: Value = serde_json::from_str(&warnings(&reviewer, Value::Null).await).unwrap();
        assert_eq!(text[0], finding.to_string());
        let same =
            json!({"spec": {"openstackRelease": "2026.1", "presets": ["compute", "ha"], "storageClass": "slow"}});
        assert_eq!(warnings(&reviewer, same).await, "null");
    }

    #[tokio::test]
    async fn an_unreadable_catalogue_allows_updates_but_rejects_new_resources() {
        let finding = |level| {
            let message = "the catalogue: ConfigMaps can't be listed".to_owned();
            Finding::new(level, "the catalogue", message)
        };
        let allowed_for = async |level, domain: &str, old: Value| {
            let reviewer =
                reviewer_with_findings(vec![finding(level)], || Box::pin(std::future::ready(ClusterInfo::default())));
            let more = json!({"publicDomain": domain});
            response_to(&reviewer, &["compute", "edge"], &more, old).await["response"].take()
        };
        let (good, existing) = ("cloud.example.org", json!({"spec": {"openstackRelease": "2026.1"}}));
        let unknown = allowed_for(Level::Error, good, existing.clone()).await;
        assert_eq!(
            (&unknown["allowed"], &unknown["uid"], &unknown["status"]),
            (&true.into(), &"1".into(), &Value::Null)
        );
        assert_eq!(unknown["warnings"][0], "the catalogue: ConfigMaps can't be listed");
        let missing = unknown["warnings"][1].as_str().unwrap();
        assert!(missing.starts_with("spec.presets[1]: there is no preset \"edge\""), "{missing}");
        let known = allowed_for(Level::Warning, good, existing.clone()).await;
        assert_eq!(known["allowed"], false, "after reading the additions, the webhook must reject an unknown preset");
        let other = allowed_for(Level::Error, "cluster.local", existing).await;
        let message = other["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("spec.publicDomain: ") && !message.contains("edge"), "{message}");
        let new = allowed_for(Level::Error, good, Value::Null).await;
        assert_eq!((&new["allowed"], &new["warnings"][0]), (&false.into(), &unknown["warnings"][0]));
    }
}
