//! The environment of a test: a control plane, a namespace, a folder.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cluster::{AuditEntry, Cluster};
use futures::FutureExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::dump;
use crate::helm::{Recorder, Run};
use crate::pool::{self, Lease, Plane, RUNTIME, SYSTEM};

/// The timeout of every wait in a test. It is generous, because machines are busy.
pub const TIMEOUT: Duration = Duration::from_mins(2);

/// The environment of a test.
pub struct World {
    lease: Lease,
    /// A client with all rights.
    pub client: Client,
    /// The test's own namespace.
    pub namespace: String,
    /// The test's own folder: the operator's log and cache, helm's log, and other files.
    pub folder: tempfile::TempDir,
    allows_errors: AtomicBool,
}

/// Runs a test in its own environment. A failing test prints its state.
pub fn run_test(name: &str, test: impl AsyncFnOnce(&World)) {
    RUNTIME.block_on(async {
        let world = Box::pin(World::new(name)).await;
        let started = Instant::now();
        let run = async {
            test(&world).await;
            world.check_no_leaked_secrets().await;
            if !world.allows_errors.load(Ordering::Relaxed) {
                world.check_no_errors();
            }
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

/// Waits for a future with a timeout.
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
        Self { client: pool::client(&lease), lease, namespace, folder, allows_errors: AtomicBool::new(false) }
    }

    /// Returns the control plane with the operator's identity.
    pub fn plane(&self) -> &Plane {
        self.lease.plane()
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.plane().cluster
    }

    /// Returns the operators' cache folder.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Returns every helm process that operators of this test started to change something.
    pub fn helm_runs(&self) -> Vec<Run> {
        Recorder::existing(self.folder.path()).runs()
    }

    /// Returns the writes of the operator and its helm processes since then.
    pub fn writes_since(&self, since: Timestamp) -> Vec<AuditEntry> {
        self.requests_since(since).filter(AuditEntry::is_write).collect()
    }

    /// Returns the Secrets that the operator and its helm processes read individually since then.
    pub fn secrets_read_since(&self, since: Timestamp) -> Vec<String> {
        self.requests_since(since).filter(|entry| entry.verb == "get").map(|entry| entry.name).collect()
    }

    /// Returns the requests of the operator and its helm processes in the audit log: writes, and reads of Secrets.
    fn requests_since(&self, since: Timestamp) -> impl Iterator<Item = AuditEntry> {
        let user = format!("system:serviceaccount:{}:{}", SYSTEM.0, SYSTEM.1);
        let entries = self.cluster().audit(since).unwrap().into_iter();
        entries.filter(move |entry| entry.user == user)
    }

    /// Allows errors in the operator's log: an API server that has just started forbids everything until it has read
    /// the roles.
    pub fn allow_errors(&self) {
        self.allows_errors.store(true, Ordering::Relaxed);
    }

    /// Fails if an operator logged an error of its own, or lacked a right.
    fn check_no_errors(&self) {
        for line in self.operator_log().lines() {
            let error = line.contains(r#""level":"ERROR""#) && line.contains(r#""target":"osdpl"#);
            let is_failure = error || line.contains("panicked") || line.contains("is forbidden: User");
            assert!(!is_failure, "{line}");
        }
    }

    /// Returns the API of a kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until an object (or its absence) satisfies the predicate.
    pub async fn until_object<K>(&self, what: &str, name: &str, is: impl Fn(Option<&K>) -> bool) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        with_timeout(what, Box::pin(await_condition(self.api::<K>(), name, is))).await.unwrap()
    }
}

/// Returns the current time, comparable with the audit log: both use this machine's clock.
pub fn now() -> Timestamp {
    Timestamp::now()
}
