//! Tests of the API server's audit log, and of kubeconfigs with the rights of a ServiceAccount.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

use crate::help::TestNamespace;

#[tokio::test]
async fn audit_log_has_writes_in_order_without_reads() {
    let test = TestNamespace::new("audited").await;
    for name in ["first", "second"] {
        test.create::<ConfigMap>(json!({ "metadata": { "name": name } })).await;
    }
    test.api::<Secret>().get_opt("none").await.unwrap();
    let entries = test.cluster.audit(Timestamp::UNIX_EPOCH).unwrap();
    let here: Vec<_> = entries.iter().filter(|entry| entry.namespace == "audited" && entry.user == "admin").collect();
    assert!(here.iter().all(|entry| entry.is_write()), "{here:?}");
    let maps: Vec<_> = here.iter().filter(|entry| entry.resource == "configmaps").collect();
    assert_eq!(maps.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    assert!(maps[0].answered <= maps[1].received && maps.iter().all(|entry| entry.code == 201));
}

#[tokio::test]
async fn runs_a_process_as_a_service_account() {
    let test = TestNamespace::new("accounts").await;
    test.create::<ServiceAccount>(json!({ "metadata": { "name": "operator" } })).await;
    let path = test.cluster.kubeconfig_for("accounts", "operator").await.unwrap();
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert!(config.auth_info.token_file.is_some());
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), "accounts");
    let map = serde_json::from_value(json!({ "metadata": { "name": "refused" } })).unwrap();
    let Err(kube::Error::Api(status)) = maps.create(&PostParams::default(), &map).await else {
        panic!("the API server must refuse the write of a service account without rights")
    };
    assert!(status.is_forbidden() && status.message.contains("system:serviceaccount:accounts:operator"), "{status:?}");
}

#[tokio::test]
async fn names_an_unknown_service_account() {
    let test = TestNamespace::new("no-accounts").await;
    let error = test.cluster.kubeconfig_for("no-accounts", "ghost").await.unwrap_err().to_string();
    assert!(error.contains("service account no-accounts/ghost"), "{error}");
}
