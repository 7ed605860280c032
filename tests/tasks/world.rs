//! Starts the environment of the tests. All tests share one control plane. Each test has its own namespace, and tasks
//! that watch this namespace.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cluster::{Cluster, Options, Program};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use osdpl_client::Scope;
use osdpl_core::observed::{Liveness, ObservedJob, ObservedRelease, Workload};
use osdpl_core::scrub::Scrubber;
use osdpl_operator::tasks::{Observation, Tasks};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};

/// The timeout of every wait in a test.
const PATIENCE: Duration = Duration::from_secs(90);

/// The identity of the only operator process that is alive in the tests.
pub const ALIVE: &str = "palive.1";

/// A password that the tasks must redact in logs of pods.
pub const PASSWORD: &str = "correct-horse-battery-staple";

/// The control plane of all tests. It stops when the test process exits. It has a separate tokio runtime, because the
/// runtime of a test ends with the test.
static CLUSTER: LazyLock<(Runtime, Cluster)> = LazyLock::new(|| {
    let start = || {
        let runtime = Runtime::new().unwrap();
        let options = Options::default().with_programs(&[Program::Helm4]).with_rare_garbage_collection();
        let cluster = runtime.block_on(Cluster::start(options)).unwrap();
        (runtime, cluster)
    };
    // Start the control plane on a new thread, because `block_on` panics on a thread of a test's runtime.
    std::thread::spawn(start).join().unwrap()
});

/// Returns the control plane of all tests, and starts it first if necessary.
pub async fn cluster() -> &'static Cluster {
    &tokio::task::spawn_blocking(|| &*CLUSTER).await.unwrap().1
}

/// Returns an API client for a kubeconfig. Use the client only in the calling test, because it belongs to that test's
/// runtime.
pub async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// A namespace of one test, and the operator's tasks that watch it.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub tasks: Tasks,
    pub poke: Arc<Notify>,
    _scrubber: watch::Sender<Arc<Scrubber>>,
}

impl World {
    /// Creates a namespace, and starts tasks that watch it with all rights.
    ///
    /// These tests need no narrower rights, because they only check what the tasks observe. In the tests in
    /// `tests/operator`, the operator runs the same tasks with the rights that its chart grants.
    pub async fn new(namespace: &str) -> Self {
        Self::seen_as(namespace, cluster().await.kubeconfig()).await
    }

    /// Creates a namespace if it does not exist, and starts tasks that watch this namespace with the rights of the user
    /// in `kubeconfig`.
    pub async fn seen_as(namespace: &str, kubeconfig: &Path) -> Self {
        let client = client(cluster().await.kubeconfig()).await;
        let created: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        let namespaces = Api::<Namespace>::all(client.clone());
        if namespaces.get_opt(namespace).await.unwrap().is_none() {
            namespaces.create(&PostParams::default(), &created).await.unwrap();
        }
        let (sender, scrubber) = watch::channel(Arc::new(Scrubber::new([PASSWORD])));
        let poke = Arc::new(Notify::new());
        let owner = Arc::new(|instance: &str| if instance == ALIVE { Liveness::Alive } else { Liveness::Dead });
        let options = osdpl_operator::tasks::Options {
            scope: Scope::Namespaces(vec![namespace.to_owned()]),
            liveness: owner,
            unreadable_kinds: std::collections::BTreeSet::new(),
            scrubber,
            node_grace: Duration::ZERO,
            probing: None,
            nova: None,
            tolerated_changes: None,
        };
        let seer = self::client(kubeconfig).await;
        let tasks = Tasks::spawn(&seer, &options, &poke);
        Self { client, namespace: namespace.to_owned(), tasks, poke, _scrubber: sender }
    }

    /// Creates an object in the test's namespace.
    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Returns a client for the objects of one kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Calls `look` with the observation of the tasks until `look` returns a value. Between two calls, waits until the
    /// tasks trigger a pass, as the operator does. Checks that no observation shows the password.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut(&Observation) -> Option<T>) -> T {
        let wait = async {
            self.tasks.ready().await;
            loop {
                let observation = self.tasks.observe();
                let shown = format!("{observation:?} {:?}", self.tasks.describe_problems());
                assert!(!shown.contains(PASSWORD), "the tasks must redact the password: {shown}");
                if let Some(found) = look(&observation) {
                    return found;
                }
                self.poke.notified().await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(tokio::time::error::Elapsed { .. }) => {
                panic!(
                    "timed out waiting for {what}; observed: {:#?}, problems: {:?}",
                    self.tasks.observe(),
                    self.tasks.describe_problems()
                )
            }
        }
    }

    /// Waits until the tasks observe a workload with this name that satisfies the predicate, and returns it.
    pub async fn workload(&self, name: &str, mut is: impl FnMut(&Workload) -> bool) -> Workload {
        self.until(name, |observation| {
            observation.workloads().iter().find(|workload| workload.name == name && is(workload)).cloned()
        })
        .await
    }

    /// Waits until the tasks observe a Job with this name that satisfies the predicate, and returns it.
    pub async fn job(&self, name: &str, mut is: impl FnMut(&ObservedJob) -> bool) -> ObservedJob {
        self.until(name, |observation| observation.jobs().iter().find(|job| job.name == name && is(job)).cloned()).await
    }

    /// Waits until the tasks observe a release with this name that satisfies the predicate, and returns it.
    pub async fn release(&self, name: &str, mut is: impl FnMut(&ObservedRelease) -> bool) -> ObservedRelease {
        let find = |observation: &Observation| {
            observation.releases.iter().find(|(key, _)| key.name == name).map(|(_, release)| release.clone())
        };
        self.until(name, |observation| find(observation).filter(|release| is(release))).await
    }
}

/// Returns a workload with the labels and annotations that helm sets. `steering` contains labels that control how the
/// workload's pods behave. `pod` contains additional fields for the spec of these pods.
pub fn workload(name: &str, steering: &Value, pod: &Value) -> Value {
    let mut labels = json!({"application": "demo", "component": name, "release_group": "demo"});
    labels.as_object_mut().unwrap().extend(steering.as_object().unwrap().clone());
    let mut spec = json!({"containers": [{"name": "main", "image": "example.com/main:1"}]});
    spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    json!({
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "Helm", "application": "demo", "component": name},
            "annotations": {"meta.helm.sh/release-name": "demo"}
        },
        "spec": {
            "selector": {"matchLabels": {"component": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec}
        }
    })
}
