//! Fake APIs of Keystone, Neutron, Nova and Glance for the program octavia-prerequisites. Before the program runs, a
//! test adds the objects that OpenStack already has. Afterwards, the test checks which changes the program requested.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::api::{ApiRequest, ApiResponse};

/// The ID of the administrator's project.
pub const PROJECT: &str = "0123456789abcdef0123456789abcdef";
/// The bytes of the amphora image that the program downloads.
pub const IMAGE: &[u8] = b"QFI\xfb an image of amphorae";

/// The HTTP server of the fake APIs. When this value is dropped, the server stops, and connections are refused.
pub struct OpenStack {
    pub address: String,
    cloud: Arc<Mutex<Cloud>>,
    server: JoinHandle<()>,
}

/// The state of the fake OpenStack: the objects that its APIs report, and the changes that the program requested.
#[derive(Default)]
pub struct Cloud {
    /// The URL of the server.
    pub address: String,
    /// The password with which the program must log in to Keystone.
    pub password: String,
    /// Objects by kind, such as `networks`, in the format of their API.
    pub objects: BTreeMap<String, Vec<Value>>,
    /// The changes that the program requested, such as `post networks lb-mgmt-net`.
    pub writes: Vec<String>,
    /// If this is set, one change fails with status 500: the next change whose line in `writes` would contain this
    /// string.
    pub fails: Option<String>,
    /// The number of objects created so far. The ID of the next object depends on this number.
    pub created: usize,
}

impl OpenStack {
    /// Starts the fake APIs. Keystone accepts only logins with `password`.
    pub async fn start(password: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let cloud = Cloud { address: address.clone(), password: password.into(), ..Cloud::default() };
        let cloud = Arc::new(Mutex::new(cloud));
        let router = Router::new().fallback(handle).with_state(Arc::clone(&cloud));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, cloud, server }
    }

    /// Calls `change` with the state of the fake APIs, which is locked during the call.
    pub fn with<T>(&self, change: impl FnOnce(&mut Cloud) -> T) -> T {
        change(&mut self.cloud.lock().unwrap())
    }

    /// Returns the changes that the program has requested since the last call of this method.
    pub fn writes(&self) -> Vec<String> {
        self.with(|cloud| std::mem::take(&mut cloud.writes))
    }

    /// Returns all objects of a kind, such as `networks`.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        self.with(|cloud| cloud.objects.get(kind).cloned().unwrap_or_default())
    }

    /// Adds an object to the fake OpenStack before the program runs, and returns the object's ID.
    pub fn add(&self, kind: &str, object: Value) -> String {
        self.with(|cloud| cloud.store(kind, object))["id"].as_str().unwrap().to_owned()
    }

    /// Adds a host with a live Open vSwitch agent and a live DHCP agent. The DHCP agent reports only the first label of
    /// the host name, and the Open vSwitch agent reports the whole name. The program must use the whole name for its
    /// ports.
    pub fn add_host(&self, host: &str) {
        let short = host.split('.').next().unwrap();
        for (type_, host) in [("DHCP agent", short), ("Open vSwitch agent", host)] {
            self.add("agents", json!({"agent_type": type_, "host": host, "alive": true, "admin_state_up": true}));
        }
    }
}

impl Drop for OpenStack {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle(State(cloud): State<Arc<Mutex<Cloud>>>, http_request: Request<Body>) -> Response<Body> {
    let (head, body) = http_request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let token = head.headers.get("x-auth-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
    let query = head.uri.query().unwrap_or_default();
    let request = ApiRequest { verb: head.method.as_str(), path: head.uri.path(), query, token, body: &body };
    let ApiResponse { status, token, content } = cloud.lock().unwrap().respond(&request);
    let mut response = Response::builder().status(status);
    if !token.is_empty() {
        response = response.header("X-Subject-Token", token);
    }
    response.header("Content-Type", "application/json").body(Body::from(content)).unwrap()
}
