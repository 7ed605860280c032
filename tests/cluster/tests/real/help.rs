//! Helpers of the tests: functions that wait for conditions of objects, and a cluster that the tests share. A test that
//! breaks its cluster does not use the shared cluster.

use std::future::Future;
use std::time::Duration;

use cluster::{Audit, Cluster, Options};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Returns the shared cluster, which stops when the test process exits. Each test gets a separate client, because
/// a client works only in the tokio runtime that created it.
pub async fn shared() -> Cluster {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async { Cluster::start(Options::default().with_audit(Audit::default())).await.unwrap() };
    let cluster = SHARED.get_or_init(start).await;
    Cluster::attach(cluster.folder().path()).await.unwrap()
}

/// Waits for a future, and fails the test after one minute. `what` describes the expected event in the message of the
/// failure.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    // The future is boxed, because kube's conditions are too large for the stack.
    let result = tokio::time::timeout(Duration::from_mins(1), Box::pin(future)).await;
    result.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

/// A namespace in the shared cluster. Each test creates one namespace and uses only this one.
pub struct TestNamespace {
    pub cluster: Cluster,
    pub namespace: String,
}

impl TestNamespace {
    pub async fn new(name: &str) -> Self {
        let cluster = shared().await;
        let api: Api<Namespace> = Api::all(cluster.client());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        api.create(&PostParams::default(), &namespace).await.unwrap();
        Self { cluster, namespace: name.into() }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), &self.namespace)
    }

    pub async fn create<K>(&self, object: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize,
        K: std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates a pod with one container. `settings` become labels, such as `kwok.osdpl.dev/behaviour`.
    pub async fn pod(&self, name: &str, settings: &[(&str, &str)]) {
        let labels = labels(settings);
        let spec = json!({ "containers": [{ "name": "main", "image": "image" }] });
        self.create::<Pod>(json!({ "metadata": { "name": name, "labels": labels }, "spec": spec })).await;
    }

    /// Creates a Job with one container. `settings` become labels of its pods, such as `kwok.osdpl.dev/behaviour`.
    pub async fn job(&self, name: &str, restart_policy: &str, settings: &[(&str, &str)]) {
        let spec = json!({ "restartPolicy": restart_policy, "containers": [{ "name": "main", "image": "image" }] });
        let template = json!({ "metadata": { "labels": labels(settings) }, "spec": spec });
        let spec = json!({ "template": template, "backoffLimit": 2 });
        self.create::<Job>(json!({ "metadata": { "name": name }, "spec": spec })).await;
    }

    /// Sets the label `kwok.osdpl.dev/<setting>` of a running pod, or removes it if `value` is `None`.
    pub async fn relabel(&self, pod: &str, setting: &str, value: Option<&str>) {
        let key = format!("kwok.osdpl.dev/{setting}");
        let patch = Patch::Merge(json!({ "metadata": { "labels": { key: value } } }));
        self.api::<Pod>().patch(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a pod satisfies `check`, and returns the pod. `what`, such as `becoming Ready`, describes the check
    /// in the message of a failure.
    pub async fn pod_where(&self, name: &str, what: &str, check: impl Fn(&Pod) -> bool + Send) -> Pod {
        let condition = move |pod: Option<&Pod>| pod.is_some_and(&check);
        in_time(&format!("pod {name} {what}"), await_condition(self.api::<Pod>(), name, condition))
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits until a pod is Ready, and returns the pod.
    pub async fn ready(&self, name: &str) -> Pod {
        self.pod_where(name, "becoming Ready", is_ready).await
    }

    /// Waits until a Job satisfies `check`, and returns the Job.
    pub async fn job_where(&self, name: &str, what: &str, check: impl Fn(&Job) -> bool + Send) -> Job {
        let condition = move |job: Option<&Job>| job.is_some_and(&check);
        in_time(&format!("Job {name} {what}"), await_condition(self.api::<Job>(), name, condition))
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits until a pod of the Job satisfies `check`, and returns the pod.
    pub async fn pod_of_job(&self, job: &str, what: &str, check: impl Fn(&Pod) -> bool + Send) -> Pod {
        use futures::{StreamExt, TryStreamExt};
        let config = kube::runtime::watcher::Config::default().labels(&format!("job-name={job}"));
        let pods = kube::runtime::WatchStreamExt::applied_objects(kube::runtime::watcher(self.api::<Pod>(), config));
        let mut matching = pods.try_filter(|pod| std::future::ready(check(pod))).boxed_local();
        in_time(&format!("a pod of Job {job} {what}"), matching.next()).await.unwrap().unwrap()
    }
}

pub fn labels(settings: &[(&str, &str)]) -> Value {
    settings
        .iter()
        .map(|(setting, value)| (format!("kwok.osdpl.dev/{setting}"), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub fn has_condition(pod: &Pod, type_: &str, status: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == type_ && one.status == status)
}

pub fn is_ready(pod: &Pod) -> bool {
    has_condition(pod, "Ready", "True")
}

/// Returns the reason why the pod's first container waits, such as `ImagePullBackOff`.
pub fn waiting(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone()
}

pub fn is_running(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.into_iter().any(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()))
}

pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.into_iter().map(|one| one.restart_count).max().unwrap_or(0)
}

pub fn annotation<'a>(pod: &'a Pod, setting: &str) -> Option<&'a str> {
    pod.annotations().get(&format!("kwok.osdpl.dev/{setting}")).map(String::as_str)
}
