//! The environment of a test: a control plane, a namespace and a folder, and the checks after each test.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cluster::{AuditEntry, Cluster};
use futures::{FutureExt, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::canaries::STATUSES;
use crate::canaries::collect::Collector;
use crate::dump;
use crate::helm::{Recorder, Run};
use crate::pool::{self, Lease, Plane, RIGHTS, RUNTIME, SYSTEM, TEST_LABEL};

/// The timeout of every wait in a test. It is long, because many tests share the processors.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// The environment of a test: its control plane, namespace and folder.
pub struct World {
    lease: Lease,
    /// A client of the test's control plane with all rights.
    pub client: Client,
    /// The name of the test's own namespace.
    pub namespace: String,
    /// The test's own folder, with the operator's log and cache and the log of helm runs.
    pub folder: tempfile::TempDir,
    /// The namespaces in which the operator has rights; empty if it has rights in all namespaces.
    permitted: Mutex<Vec<String>>,
    allows_errors: AtomicBool,
    /// Collects the secrets of the test. After the test, no object and no file may show any of them.
    pub collector: Collector,
}

/// Runs a test in its own environment. Afterwards checks that no credential leaked, that the operator logged no error,
/// and that at most one helm process worked on a release at a time. If the test fails, prints the state of its cluster.
pub fn run_test(name: &str, test: impl AsyncFnOnce(&World)) {
    RUNTIME.block_on(async {
        let world = Box::pin(World::new(name)).await;
        let started = Instant::now();
        let run = async {
            test(&world).await;
            world.check_no_leaked_secrets().await;
            Recorder::existing(world.folder.path()).check_no_overlap();
            world.check_no_errors();
        };
        if let Err(panic) = AssertUnwindSafe(run).catch_unwind().await {
            dump::print(&world).await;
            resume_unwind(panic);
        }
        record_duration(name, started.elapsed());
    });
}

/// Appends the duration of a passed test to `target/tmp/durations.tsv`, in seconds. libtest does not report durations.
fn record_duration(name: &str, duration: Duration) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("durations.tsv");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{name}\t{:.1}", duration.as_secs_f64()).unwrap();
}

/// Waits for a future, and panics after [`TIMEOUT`]. `what` describes the expected event in the panic's message.
pub async fn with_timeout<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TIMEOUT, wait).await {
        Ok(done) => done,
        Err(tokio::time::error::Elapsed { .. }) => panic!("timed out waiting until {what}"),
    }
}

impl World {
    async fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let namespace = format!("{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let lease = Box::pin(Lease::new(&namespace)).await;
        let folder = tempfile::Builder::new().prefix("test-").tempdir().unwrap();
        let permitted = Mutex::new(vec![namespace.clone()]);
        let allows_errors = AtomicBool::new(false);
        let client = pool::client(&lease);
        let collector = Collector::new(client.clone(), &namespace, &folder.path().join(STATUSES));
        Self { lease, client, namespace, folder, permitted, allows_errors, collector }
    }

    /// Grants the operator rights in a namespace, as the operator's chart does for the namespaces in its value
    /// `namespaces`. Creates the namespace if it does not exist. Only operators that the test starts afterwards use
    /// these rights. Without this call, operators have rights only in the test's own namespace.
    pub async fn permit(&self, namespace: &str) {
        let metadata = json!({"name": namespace, "labels": {TEST_LABEL: "true"}});
        let object = Patch::Apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        Api::<Namespace>::all(self.client.clone())
            .patch(namespace, &PatchParams::apply("test"), &object)
            .await
            .unwrap();
        self.plane().grant(RIGHTS, namespace).await;
        self.permitted.lock().unwrap().push(namespace.to_owned());
    }

    /// Takes back the rights that [`World::permit`] has granted in a namespace.
    pub async fn forbid(&self, namespace: &str) {
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        drop(bindings.delete(RIGHTS, &DeleteParams::default()).await.unwrap());
        self.permitted.lock().unwrap().retain(|permitted| permitted != namespace);
    }

    /// Grants the operator rights in all namespaces, with the value `rbac.clusterWide` of the operator's chart. Only
    /// operators that the test starts afterwards use these rights.
    pub fn permit_all(&self) {
        self.plane().grant_more(&["rbac.clusterWide=true".to_owned()]);
        self.permitted.lock().unwrap().clear();
    }

    /// Returns the value of the operator's option `--namespaces`.
    pub fn permitted(&self) -> String {
        self.permitted.lock().unwrap().join(",")
    }

    /// Returns the control plane that the test uses, and the operator's kubeconfig for it.
    pub fn plane(&self) -> &Plane {
        self.lease.plane()
    }

    /// Returns the control plane that the test uses, without the operator's kubeconfig.
    pub fn cluster(&self) -> &Cluster {
        &self.plane().cluster
    }

    /// Whether a namespace is the test's own namespace, or another one that the test has created. See [`is_of`].
    pub fn owns(&self, namespace: &str) -> bool {
        is_of(&self.namespace, namespace)
    }

    /// Returns the cache folder of the operators that this test starts.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Returns every `helm upgrade` and `helm uninstall` that operators of this test have started, oldest first.
    pub fn helm_runs(&self) -> Vec<Run> {
        Recorder::existing(self.folder.path()).runs()
    }

    /// Returns the writes of the operator and its helm processes after `since`, except for writes of the Lease, which
    /// the operator renews every two seconds.
    pub fn writes_since(&self, since: Timestamp) -> Vec<AuditEntry> {
        self.requests_since(since).filter(|entry| entry.is_write() && entry.resource != "leases").collect()
    }

    /// Returns the names of the Secrets that the operator and its helm processes read with `get` after `since`.
    pub fn secrets_read_since(&self, since: Timestamp) -> Vec<String> {
        self.requests_since(since).filter(|entry| entry.verb == "get").map(|entry| entry.name).collect()
    }

    /// Returns the requests of the operator and its helm processes after `since`: writes, and reads of Secrets. The
    /// audit log contains no other requests.
    fn requests_since(&self, since: Timestamp) -> impl Iterator<Item = AuditEntry> {
        let user = format!("system:serviceaccount:{}:{}", SYSTEM.0, SYSTEM.1);
        let entries = self.cluster().audit(since).unwrap().into_iter();
        entries.filter(move |entry| entry.user == user)
    }

    /// Allows errors in the operator's log. Tests that restart the API server need this, because the API server refuses
    /// every request until it has read the RBAC roles.
    pub fn allow_errors(&self) {
        self.allows_errors.store(true, Ordering::Relaxed);
    }

    /// Checks that no operator of the test panicked. Unless the test allows errors, also checks that osdpl's code
    /// logged no error, and that the API server forbade no request of an operator.
    fn check_no_errors(&self) {
        let allows_errors = self.allows_errors.load(Ordering::Relaxed);
        for line in self.operator_log().lines() {
            let error = line.contains(r#""level":"ERROR""#) && line.contains(r#""target":"osdpl"#);
            let is_failure = !allows_errors && (error || line.contains("is forbidden: User"));
            assert!(!is_failure && !line.contains("panicked"), "the operator must log no errors: {line}");
        }
    }

    /// Returns a client for the objects of one kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until an object satisfies the predicate, and returns the object. The predicate gets `None` if the object
    /// does not exist.
    pub async fn until_object<K>(&self, what: &str, name: &str, is: impl Fn(Option<&K>) -> bool) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let found = async {
            let mut versions = pin!(watch_object(self.api::<K>(), name));
            loop {
                match versions.next().await.unwrap() {
                    Ok(version) if is(version.as_ref()) => break version,
                    Ok(_) => {}
                    // A test has replaced the CRD of the kind, so the watch can't continue from the old version of the
                    // object. Go on: the watcher reads the object again.
                    Err(watcher::Error::WatchError(refused)) if refused.code == 410 => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        with_timeout(what, Box::pin(found)).await
    }
}

/// Whether `namespace` is the namespace `own` of a test, or another one that this test has created. The names of all
/// namespaces of a test begin with `own`.
pub fn is_of(own: &str, namespace: &str) -> bool {
    namespace.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the current time. Tests can compare this time with times in the audit log, because the API server runs on
/// the same machine.
pub fn now() -> Timestamp {
    Timestamp::now()
}
