//! Creates the initial objects of every cluster: its nodes and a StorageClass.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node as KubernetesNode, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client};

use crate::Error;
use crate::options::Node;

/// Creates the StorageClass and the nodes. Waits until the nodes are Ready and the default service account exists.
/// Before this service account exists, the API server refuses to create pods.
pub(super) async fn seed(client: &Client, nodes: &[Node]) -> Result<(), Error> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes.create(&PostParams::default(), &storage_class()).await.map_err(Error::api("creating the StorageClass"))?;
    let api: Api<KubernetesNode> = Api::all(client.clone());
    try_join_all(nodes.iter().map(|node| create(&api, node))).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = await_condition(accounts, "default", conditions::is_created());
    let ready = try_join_all(nodes.iter().map(|node| await_condition(api.clone(), &node.name, is_node_ready())));
    let (account, ready) = futures::join!(account, ready);
    account.map(drop).and(ready.map(drop)).map_err(|error| Error::Api {
        action: "waiting for the nodes and the default service account".into(),
        reason: error.to_string(),
    })
}

async fn create(api: &Api<KubernetesNode>, node: &Node) -> Result<(), Error> {
    let created = api.create(&PostParams::default(), &object(node)).await;
    created.map(drop).map_err(Error::api(format!("creating node {}", node.name)))
}

fn object(node: &Node) -> KubernetesNode {
    let mut labels = node.labels.clone();
    for (key, value) in [("hostname", node.name.as_str()), ("arch", "amd64"), ("os", "linux")] {
        labels.insert(format!("kubernetes.io/{key}"), value.to_string());
    }
    let metadata = ObjectMeta { name: Some(node.name.clone()), labels: Some(labels), ..Default::default() };
    KubernetesNode { metadata, ..Default::default() }
}

/// Returns a condition for [`await_condition`]: the node is Ready.
fn is_node_ready() -> impl Condition<KubernetesNode> {
    |node: Option<&KubernetesNode>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    }
}

/// Returns the StorageClass `general`, which OpenStack-Helm's charts use by default. The host path provisioner of
/// kube-controller-manager creates the volumes of this class.
fn storage_class() -> StorageClass {
    let annotations = [("storageclass.kubernetes.io/is-default-class".to_string(), "true".to_string())];
    StorageClass {
        metadata: ObjectMeta {
            name: Some("general".into()),
            annotations: Some(annotations.into()),
            ..Default::default()
        },
        provisioner: "kubernetes.io/host-path".into(),
        ..Default::default()
    }
}
