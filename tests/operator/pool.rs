//! A pool of control planes that tests reuse, because the start of a control plane takes longer than most tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cluster::{Audit, Cluster, Options, Program};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use osdpl_core::api::{NodeMaintenance, OpenStackDeployment};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::world::with_timeout;

/// The namespace of the operator's chart, and the name that both the chart's release and its ServiceAccount have.
pub const SYSTEM: (&str, &str) = ("osdpl-system", "osdpl");

/// The folder of the operator's chart in the repository.
pub const CHART: &str = "deploy/osdpl";

/// The default value of `namespaces` in the operator's chart.
pub const DEFAULT_NAMESPACE: &str = "openstack";

/// The `RoleBinding` that the operator's chart creates in each namespace of a cloud.
pub const RIGHTS: &str = "osdpl-namespaced";

/// The `RoleBinding` that the operator's chart creates in each namespace of `rbac.rook` (the namespaces of Rook's Ceph
/// clusters).
pub const ROOK_RIGHTS: &str = "osdpl-rook";

/// The maximum number of concurrent control planes. Each needs more than half a gigabyte of memory but little CPU,
/// because tests mostly wait.
const MAX_PLANES: usize = 8;

/// The label of every namespace that a test creates. The pool deletes namespaces with this label after the test.
pub const TEST_LABEL: &str = "osdpl.dev/test";

/// The kinds of cluster-scoped objects that charts install, each with its API group. The pool deletes these objects
/// after a test.
const CLUSTER_SCOPED: [(&str, &str); 4] = [
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("storage.k8s.io", "StorageClass"),
];

/// The tokio runtime of all tests. Clients of reused control planes depend on this runtime, so it must outlive each
/// test.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_PLANES)));
static IDLE: Mutex<Vec<Plane>> = Mutex::new(Vec::new());

/// A control plane in which the operator's own chart is installed.
pub struct Plane {
    pub cluster: Cluster,
    /// The path of the kubeconfig with the rights of the operator's ServiceAccount.
    pub operator: PathBuf,
    /// The settings of the operator's chart with which [`Self::grant_more`] has granted rights for the present test.
    extra_rights: Mutex<Vec<String>>,
}

/// A control plane that one test uses. Dropping this value returns the control plane to the pool.
pub struct Lease {
    plane: Option<Plane>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Takes an idle control plane from the pool, or starts a new one. Removes the objects of earlier tests, creates
    /// the test's namespace, and grants the operator rights in it.
    pub async fn new(namespace: &str) -> Self {
        let permit = Arc::clone(&PERMITS).acquire_owned().await.unwrap();
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let plane = match idle {
            Some(plane) => plane,
            None => Plane::start().await,
        };
        Box::pin(plane.clear()).await;
        let metadata = json!({"name": namespace, "labels": {TEST_LABEL: "true"}});
        let object = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        Api::<Namespace>::all(plane.cluster.client()).create(&PostParams::default(), &object).await.unwrap();
        plane.grant(RIGHTS, namespace).await;
        Self { plane: Some(plane), _permit: permit }
    }

    /// Returns the control plane that the test uses.
    pub fn plane(&self) -> &Plane {
        self.plane.as_ref().unwrap()
    }
}

impl Drop for Lease {
    /// Returns the control plane to the pool. Does not return it after a failed test, because the objects of that test
    /// could disturb other tests.
    fn drop(&mut self) {
        if let Some(plane) = self.plane.take().filter(|_| !std::thread::panicking()) {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(plane);
        }
    }
}

impl Plane {
    /// Starts a control plane, and installs the operator's chart with its default rights.
    async fn start() -> Self {
        let options = Options::default()
            .with_programs(&[Program::Helm4, Program::Helm3])
            .with_audit(Audit { secret_reads: true })
            .with_rare_garbage_collection();
        let cluster = Cluster::start(options).await.unwrap();
        let namespace = serde_json::from_value(json!({"metadata": {"name": DEFAULT_NAMESPACE}})).unwrap();
        Api::<Namespace>::all(cluster.client()).create(&PostParams::default(), &namespace).await.unwrap();
        install_chart(&cluster, &[]);
        let operator = cluster.kubeconfig_for(SYSTEM.0, SYSTEM.1).await.unwrap();
        Self { cluster, operator, extra_rights: Mutex::default() }
    }

    /// Grants the operator rights in a namespace: copies the `RoleBinding` `name` that the operator's chart creates in
    /// its default namespace.
    pub async fn grant(&self, name: &str, namespace: &str) {
        let binding = |namespace: &str| Api::<RoleBinding>::namespaced(self.cluster.client(), namespace);
        let RoleBinding { role_ref, subjects, .. } = binding(DEFAULT_NAMESPACE).get(name).await.unwrap();
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let copy = RoleBinding { metadata, role_ref, subjects };
        binding(namespace).create(&PostParams::default(), &copy).await.unwrap();
    }

    /// Grants the operator more rights until the end of the test: upgrades the operator's chart with `settings`, each
    /// an argument of helm's `--set-json`. Settings of earlier calls in the same test remain in effect.
    pub fn grant_more(&self, settings: &[String]) {
        let mut extra = self.extra_rights.lock().unwrap_or_else(PoisonError::into_inner);
        extra.extend_from_slice(settings);
        install_chart(&self.cluster, &extra);
    }

    /// Removes the objects of the previous test, and rights that only that test needed. Waits until the cluster-scoped
    /// objects are deleted. Does not wait for the namespaces, which Kubernetes deletes in the background.
    async fn clear(&self) {
        let extra = std::mem::take(&mut *self.extra_rights.lock().unwrap_or_else(PoisonError::into_inner));
        if !extra.is_empty() {
            install_chart(&self.cluster, &[]);
        }
        let client = self.cluster.client();
        // Delete the Kubernetes Lease of the previous test's operator. That operator has ended, but the next operator
        // might not notice this, and would wait until the Lease expires.
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(client.clone(), SYSTEM.0);
        match leases.delete(osdpl_operator::lease::NAME, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => drop(other.unwrap()),
        }
        let deployments: Api<OpenStackDeployment> = Api::all(client.clone());
        for left in deployments.list(&ListParams::default()).await.unwrap() {
            let api: Api<OpenStackDeployment> = Api::namespaced(client.clone(), &left.namespace().unwrap());
            remove(&api, &left).await;
        }
        let maintenances: Api<NodeMaintenance> = Api::all(client.clone());
        for left in maintenances.list(&ListParams::default()).await.unwrap() {
            remove(&maintenances, &left).await;
        }
        for (group, kind) in CLUSTER_SCOPED {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in api.list(&ListParams::default()).await.unwrap() {
                let owner = object.annotations().get("meta.helm.sh/release-namespace");
                if owner.is_some_and(|namespace| namespace != SYSTEM.0) {
                    remove(&api, &object).await;
                }
            }
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for namespace in namespaces.list(&ListParams::default().labels(TEST_LABEL)).await.unwrap() {
            // Delete helm's records now. Kubernetes deletes the namespace only later, in the background. Until then,
            // the operator of the next test would find these records, and would manage the releases of the previous
            // test.
            let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace.name_any());
            let records = ListParams::default().labels("owner=helm");
            secrets.delete_collection(&DeleteParams::default(), &records).await.unwrap();
            // Delete the Services now, too. The Service of kube-dns has a fixed IP address, and the next test's cloud
            // could not install kube-dns while the old Service has that address.
            let services: Api<Service> = Api::namespaced(client.clone(), &namespace.name_any());
            services.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
            if namespace.metadata.deletion_timestamp.is_none() {
                let deleted = namespaces.delete(&namespace.name_any(), &DeleteParams::default()).await;
                drop(deleted.unwrap());
            }
        }
    }
}

/// Installs or upgrades the operator's chart. `settings` are arguments of helm's `--set-json`. Settings of an earlier
/// install are reset.
pub fn install_chart(cluster: &Cluster, settings: &[String]) {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join(CHART);
    install_chart_from(&chart, cluster, settings);
}

/// Installs or upgrades the operator's chart in the folder `chart`, like [`install_chart`].
pub fn install_chart_from(chart: &Path, cluster: &Cluster, settings: &[String]) {
    let mut helm = Command::new(cluster.helm(4).unwrap());
    helm.args(["upgrade", "--install", SYSTEM.1, "--create-namespace", "--namespace", SYSTEM.0]).arg(chart);
    helm.arg("--reset-values").args(settings.iter().flat_map(|setting| ["--set-json", setting.as_str()]));
    let homes = cluster.folder().path().join("helm");
    let output = helm.env("KUBECONFIG", cluster.kubeconfig()).env("HOME", homes).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Deletes an object, removes its finalizers, and waits until it is deleted.
///
/// The function removes osdpl's finalizers, because no operator runs that could remove them. From a CRD, it removes the
/// finalizer that keeps the CRD until the API server has deleted all instances. If the API server fails to list the
/// instances, it retries only minutes later, which is too long for a test.
async fn remove<K>(api: &Api<K>, object: &K)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + ResourceExt + Send + 'static,
{
    let (name, uid) = (object.name_any(), object.uid().unwrap());
    loop {
        match api.delete(&name, &DeleteParams::default()).await {
            // Another client changed the object during the deletion: try again.
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return,
            other => break drop(other.unwrap()),
        }
    }
    let loose = Patch::Merge(json!({"metadata": {"uid": uid, "finalizers": null}}));
    match api.patch(&name, &PatchParams::default(), &loose).await {
        // The object is already deleted, or a new object with the same name exists.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
        other => drop(other.unwrap()),
    }
    let gone = await_condition(api.clone(), &name, conditions::is_deleted(&uid));
    drop(with_timeout(&format!("{name} is deleted"), gone).await.unwrap());
}

/// Returns a client of the control plane with all rights.
pub fn client(lease: &Lease) -> Client {
    lease.plane().cluster.client()
}
