use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

use super::super::keystone::KeystoneAccess;
use super::*;
use osdpl_core::endpoint::{Interface, Login, Url};

const TOKEN: &str = "gAAAA-token";

/// A fake API server, which serves the OpenStack APIs of a cloud as Services.
#[derive(Default)]
struct Fake {
    /// The requests that change something, as method and path.
    changes: Vec<String>,
    /// The beginning of the path whose requests fail.
    broken: &'static str,
    /// Whether the API server can't forward these requests; otherwise the API refuses them.
    is_proxy_broken: bool,
    /// The status of instances.
    instance: &'static str,
}

impl Fake {
    fn respond(&mut self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> (StatusCode, Value) {
        let (service, path) = uri.path().split_once("/proxy").unwrap();
        if path == "/v3/auth/tokens" {
            assert_eq!(service, "/api/v1/namespaces/openstack/services/http:keystone-api:5000");
            return (StatusCode::CREATED, catalogue());
        }
        assert_eq!(headers["x-auth-token"], TOKEN, "{path}");
        if method != Method::GET {
            self.changes.push(format!("{method} {path}"));
        }
        if !self.broken.is_empty() && path.starts_with(self.broken) {
            if self.is_proxy_broken {
                let message = "error trying to reach service: dial tcp 10.0.0.1:9696: connection refused";
                let status = json!({"apiVersion": "v1", "kind": "Status", "code": 503, "message": message});
                return (StatusCode::SERVICE_UNAVAILABLE, status);
            }
            let message = format!("no quota; the request has the token {TOKEN}");
            return (StatusCode::FORBIDDEN, json!({"forbidden": {"message": message}}));
        }
        let is_deleted = self.changes.iter().any(|change| change == &format!("DELETE {path}"));
        if *method == Method::GET && is_deleted {
            return (StatusCode::NOT_FOUND, json!({}));
        }
        let text = String::from_utf8_lossy(body);
        let content = match (method.as_str(), path) {
            ("POST", "/v2/images") => json!({"id": "i"}),
            ("POST", "/v2.0/networks") => json!({"network": {"id": "n"}}),
            ("POST", "/v2.0/subnets") => json!({"subnet": {"id": "s"}}),
            ("POST", "/v2.0/routers") => json!({"router": {"id": "r"}}),
            ("POST", "/v2.1/flavors") => json!({"flavor": {"id": "f"}}),
            ("POST", "/v2.1/servers") => json!({"server": {"id": "v"}}),
            ("GET", "/v2.0/networks") => json!({"networks": []}),
            ("GET", "/v2/images/i") => json!({"status": "active"}),
            ("GET", "/v2.1/servers/v") => {
                json!({"server": {"status": self.instance, "fault": {"message": "No valid host was found."}}})
            }
            ("GET", "/v2.1/servers/v/os-interface") => {
                json!({"interfaceAttachments": [{"port_id": "p", "fixed_ips": [{"ip_address": "10.254.254.7"}]}]})
            }
            (_, "/v2.1/servers/v/action") if text.contains("os-getConsoleOutput") => {
                json!({"output": String::from_utf8_lossy(&disk::image()[48..80])})
            }
            _ => json!({}),
        };
        (StatusCode::OK, content)
    }
}

/// Returns Keystone's response to a login: a cloud with a few APIs.
fn catalogue() -> Value {
    let api = |(kind, url): (&str, &str)| {
        let endpoint = |interface: &str, url: &str| json!({"interface": interface, "region": "RegionOne", "url": url});
        json!({"type": kind, "endpoints": [endpoint("public", "https://public"), endpoint("internal", url)]})
    };
    let apis = [
        ("identity", "http://keystone-api.openstack.svc.cluster.local:5000/v3"),
        ("image", "http://glance-api.openstack.svc.cluster.local:9292"),
        ("network", "http://neutron-server.openstack.svc.cluster.local:9696/"),
        ("compute", "http://nova-api.openstack.svc.cluster.local:8774/v2.1/"),
    ];
    json!({"token": {"project": {"id": "project"}, "catalog": apis.map(api)}})
}

/// Logs in to a cloud whose APIs are fake.
async fn log_in(fake: Fake) -> (OpenStack, Arc<Mutex<Fake>>) {
    let fake = Arc::new(Mutex::new(fake));
    let state = Arc::clone(&fake);
    let router = Router::new().fallback(async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let (status, content) = state.lock().unwrap().respond(&method, &uri, &headers, &body);
        (status, [("x-subject-token", TOKEN)], content.to_string())
    });
    let config = HttpConfig { address: None, timeout: CONNECT_TIMEOUT, ca: Vec::new(), permit: Permit::new(|| false) };
    let connection = Connection { client: kube::Client::new(router, "default"), http: Http::new(config) };
    let values = json!({"endpoints": {"identity": {"auth": {"admin": {"password": "hunter2"}}}}});
    let access = KeystoneAccess {
        cloud: "cloud".to_owned(),
        identity: Url::parse("http://keystone-api.openstack.svc.cluster.local:5000/v3").unwrap(),
        interface: Interface::Internal,
        region: "RegionOne".to_owned(),
        login: Login::from_values(values.as_object().unwrap()).unwrap(),
    };
    (OpenStack::log_in(connection, &access, Interface::Internal).await.unwrap(), fake)
}

/// Runs the built-in steps. Returns the result of each step by its name, the objects that may still exist, and the
/// requests that changed something.
async fn run(fake: Fake) -> (Vec<(String, Outcome)>, Vec<String>, Vec<String>) {
    let (openstack, fake) = log_in(fake).await;
    let steps = steps::read(&osdpl_core::files::built_in()).unwrap();
    let mut run = Run::new(&openstack, "name", json!({"image": "", "flavor": ""}), Duration::from_mins(1));
    let (mut results, interrupt) = (Vec::new(), CancellationToken::new());
    for step in &steps {
        results.push((step.name.clone(), run.step(step, &interrupt).await));
    }
    let leftovers = run.clean_up(&interrupt).await;
    let changes = fake.lock().unwrap().changes.clone();
    (results, leftovers, changes)
}

fn outcome<'a>(results: &'a [(String, Outcome)], step: &str) -> &'a Outcome {
    &results.iter().find(|(name, _)| name == step).unwrap().1
}

fn skipped(why: &str) -> Outcome {
    Outcome::Skipped(why.to_owned())
}

#[tokio::test]
async fn tests_what_the_cloud_has_and_deletes_it() {
    let (results, leftovers, changes) = run(Fake { instance: "ACTIVE", ..Fake::default() }).await;
    for step in ["image", "network", "instance", "boot", "console"] {
        assert_eq!(outcome(&results, step), &Outcome::Passed, "{step}");
    }
    assert_eq!(outcome(&results, "floating-ip"), &skipped("the cloud has no external network with a subnet"));
    assert_eq!(outcome(&results, "secret"), &skipped("the cloud has no API of the type key-manager"));
    assert_eq!(outcome(&results, "volume"), &skipped("the cloud has no API of the type volumev3 or block-storage"));
    assert_eq!(outcome(&results, "attachment"), &skipped("it needs the step volume, which has not passed"));
    assert_eq!(leftovers, Vec::<String>::new());
    let end = changes.iter().position(|change| change.starts_with("DELETE")).unwrap();
    let expected = [
        "DELETE /v2.1/servers/v",
        "DELETE /v2.1/flavors/f",
        "PUT /v2.0/routers/r/remove_router_interface",
        "DELETE /v2.0/routers/r",
        "DELETE /v2.0/networks/n",
        "DELETE /v2/images/i",
    ];
    assert_eq!(changes[end..], expected);
}

#[tokio::test]
async fn reports_why_an_instance_fails() {
    let (results, leftovers, changes) = run(Fake { instance: "ERROR", ..Fake::default() }).await;
    let url = "http://nova-api.openstack.svc.cluster.local:8774/v2.1/servers/v";
    let expected = Outcome::Failed(format!("GET {url}: No valid host was found."));
    assert_eq!(outcome(&results, "instance"), &expected);
    assert_eq!(outcome(&results, "boot"), &skipped("it needs the step instance, which has not passed"));
    assert_eq!(leftovers, Vec::<String>::new());
    assert!(changes.contains(&"DELETE /v2.1/servers/v".to_owned()), "{changes:?}");
}

#[tokio::test]
async fn hides_the_token_in_messages() {
    let (results, _, changes) = run(Fake { broken: "/v2.0/", ..Fake::default() }).await;
    let url = "http://neutron-server.openstack.svc.cluster.local:9696/v2.0/networks";
    let message = "403 Forbidden: no quota; the request has the token ***";
    assert_eq!(outcome(&results, "network"), &Outcome::Failed(format!("POST {url}: {message}")));
    assert_eq!(outcome(&results, "instance"), &skipped("it needs the step network, which has not passed"));
    assert_eq!(changes.last().map(String::as_str), Some("DELETE /v2/images/i"));
}

#[tokio::test]
async fn names_objects_that_may_exist() {
    let broken = Fake { broken: "/v2.0/networks", is_proxy_broken: true, ..Fake::default() };
    let (results, leftovers, _) = run(broken).await;
    let url = "http://neutron-server.openstack.svc.cluster.local:9696/v2.0/networks";
    let problem = format!(
        "the Kubernetes API server could not forward the request: POST {url}: 503 Service Unavailable: error trying to \
         reach service: dial tcp 10.0.0.1:9696: connection refused; check the pods and the NetworkPolicies of the \
         OpenStack API"
    );
    assert_eq!(outcome(&results, "network"), &Outcome::Failed(problem.clone()));
    assert_eq!(leftovers, [format!("{problem}; an object named name may exist")]);
}

#[tokio::test]
async fn a_stopped_deletion_names_the_rest() {
    let (steps, interrupt) = (steps::read(&osdpl_core::files::built_in()).unwrap(), CancellationToken::new());
    let (openstack, _) = log_in(Fake { instance: "ACTIVE", ..Fake::default() }).await;
    let mut run = Run::new(&openstack, "name", json!({"image": "", "flavor": ""}), Duration::from_mins(1));
    assert_eq!(run.step(&steps[0], &interrupt).await, Outcome::Passed);
    interrupt.cancel();
    assert_eq!(run.step(&steps[1], &interrupt).await, Outcome::Interrupted);
    let image = "image: DELETE http://glance-api.openstack.svc.cluster.local:9292/v2/images/i";
    assert_eq!(run.clean_up(&interrupt).await, [image]);
}
