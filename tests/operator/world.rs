//! What a story is told in: a control plane, a namespace, a folder.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

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

/// How long anything may take before a story gives up. Generous: it is no measurement, and machines are busy.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where a story is told.
pub struct World {
    lease: Lease,
    /// With all rights.
    pub client: Client,
    /// The story's own.
    pub namespace: String,
    /// The story's own: the operator's log and cache, helm's log, and what else it needs.
    pub folder: tempfile::TempDir,
    forgiving: AtomicBool,
}

/// Tells a story in a world of its own. One that fails says what it left.
pub fn story(name: &str, tell: impl AsyncFnOnce(&World)) {
    RUNTIME.block_on(async {
        let world = Box::pin(World::new(name)).await;
        let told = async {
            tell(&world).await;
            world.keeps_secrets().await;
            if !world.forgiving.load(Ordering::Relaxed) {
                world.has_no_complaints();
            }
        };
        if let Err(panic) = AssertUnwindSafe(told).catch_unwind().await {
            dump::print(&world).await;
            resume_unwind(panic);
        }
    });
}

/// Waits for something, but not for ever.
pub async fn patience<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(done) => done,
        Err(tokio::time::error::Elapsed { .. }) => panic!("waited in vain until {what}"),
    }
}

impl World {
    async fn new(name: &str) -> Self {
        static STORIES: AtomicU32 = AtomicU32::new(1);
        let namespace = format!("{name}-{}", STORIES.fetch_add(1, Ordering::Relaxed));
        let lease = Box::pin(Lease::new(&namespace)).await;
        let folder = tempfile::Builder::new().prefix("story-").tempdir().unwrap();
        Self { client: pool::client(&lease), lease, namespace, folder, forgiving: AtomicBool::new(false) }
    }

    /// The control plane and the operator's identity in it.
    pub fn plane(&self) -> &Plane {
        self.lease.plane()
    }

    /// The control plane.
    pub fn cluster(&self) -> &Cluster {
        &self.plane().cluster
    }

    /// Where operators keep what they keep on disk.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Every helm process that operators of this story started to change something.
    pub fn helm_runs(&self) -> Vec<Run> {
        Recorder::existing(self.folder.path()).runs()
    }

    /// What the operator and its helms wrote since then.
    pub fn writes_since(&self, since: Timestamp) -> Vec<AuditEntry> {
        self.asked_since(since).filter(AuditEntry::is_write).collect()
    }

    /// Which Secrets the operator and its helms read one by one since then.
    pub fn secrets_read_since(&self, since: Timestamp) -> Vec<String> {
        self.asked_since(since).filter(|entry| entry.verb == "get").map(|entry| entry.name).collect()
    }

    /// What the audit log has of the operator and its helms: writes, and what they read of Secrets.
    fn asked_since(&self, since: Timestamp) -> impl Iterator<Item = AuditEntry> {
        let user = format!("system:serviceaccount:{}:{}", SYSTEM.0, SYSTEM.1);
        let entries = self.cluster().audit(since).unwrap().into_iter();
        entries.filter(move |entry| entry.user == user)
    }

    /// From now on an operator may complain: an API server that has just started forbids everything until it has read the roles.
    pub fn forgive_complaints(&self) {
        self.forgiving.store(true, Ordering::Relaxed);
    }

    /// Fails when an operator met an error of its own, or a right that its chart does not ship.
    fn has_no_complaints(&self) {
        for line in self.operator_log().lines() {
            let error = line.contains(r#""level":"ERROR""#) && line.contains(r#""target":"osdpl"#);
            let complaint = error || line.contains("panicked") || line.contains("is forbidden: User");
            assert!(!complaint, "{line}");
        }
    }

    /// The API of a kind in the story's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until an object (or its absence) is as described.
    pub async fn until_object<K>(&self, what: &str, name: &str, is: impl Fn(Option<&K>) -> bool) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        patience(what, Box::pin(await_condition(self.api::<K>(), name, is))).await.unwrap()
    }
}

/// The clock that the audit log goes by too: both are this machine's.
pub fn now() -> Timestamp {
    Timestamp::now()
}
