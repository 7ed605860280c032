//! Tests that this crate can use a cluster that it did not start (`Options::existing`). The crate must not stop this
//! cluster or kill its processes.

use cluster::{Cluster, Component, Options, Rule};

use crate::help::shared;

#[tokio::test]
async fn uses_an_existing_cluster_unchanged() {
    let there = shared().await;
    let folder = tempfile::tempdir().unwrap();
    let options = || Options {
        folder: Some(folder.path().join("used")),
        existing: Some(there.kubeconfig().to_path_buf()),
        ..Options::default()
    };
    let used = Cluster::up(options()).await.unwrap();
    assert_eq!(used.kubeconfig(), there.kubeconfig());
    assert!(used.folder().bin().join("kubectl").exists());
    assert!(used.kubeconfig_for("default", "default").await.unwrap().exists());

    let error = used.kill(Component::Apiserver).await.unwrap_err().to_string();
    assert!(error.contains("not possible on a cluster that `cluster` did not start"), "{error}");
    used.behaviour("any", &Rule::default()).await.unwrap_err();

    let path = used.folder().path().to_path_buf();
    drop(used);
    assert_eq!(Cluster::attach(&path).await.unwrap().kubeconfig(), there.kubeconfig());
    Cluster::down(&path).unwrap();
    there.client().apiserver_version().await.unwrap();
}
