//! Installs services whose charts come from other projects (cert-manager, Rook, …), together with a small cloud.
//! Webhooks do not respond, because simulated pods run no programs. So the test installs only charts that need no
//! webhook.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use super::{charts, steps};
use crate::cloud::{StatusAccess, services};
use crate::world::{World, run_test};

/// The services that become ready although webhooks do not respond, each with its release.
pub(super) const INSTALLABLE: [(&str, &str); 7] = [
    ("cert_manager", "cert-manager"),
    ("external_secrets", "external-secrets"),
    ("k_orc", "orc"),
    ("mariadb_operator", "mariadb-operator"),
    ("rabbitmq_operator", "rabbitmq-cluster-operator"),
    ("rook_ceph", "rook-ceph"),
    ("valkey_operator", "valkey-operator"),
];

/// The services that cannot become ready on simulated nodes, each with the reason.
pub(super) const NOT_INSTALLABLE: [(&str, &str); 2] = [
    (
        "cortex",
        "the service needs certificates from cert-manager, whose webhook does not respond here, and CRDs of prometheus-operator",
    ),
    ("labels_injector", "the service needs certificates from cert-manager, whose webhook does not respond here"),
];

/// The namespace and names of the Secrets that the pod of mariadb-operator's webhook mounts. In a real cluster,
/// mariadb-operator's certificate controller creates these Secrets.
const CERTIFICATES: (&str, [&str; 2]) =
    ("mariadb-operator", ["mariadb-operator-webhook-ca", "mariadb-operator-webhook-cert"]);

impl World {
    /// Waits until helm has installed a release. The timeout starts again whenever any release makes progress.
    async fn until_installed(&self, release: &str) {
        let mut steps_before = 0;
        loop {
            let has_progress = |cloud: &OpenStackDeployment| {
                let steps = cloud.status().children.values().map(steps).sum();
                let is_installed = cloud.child(release).status == "deployed";
                (is_installed || steps > steps_before).then_some((is_installed, steps))
            };
            let (is_installed, steps) = self.until(&format!("{release} is installed"), has_progress).await;
            if is_installed {
                return;
            }
            steps_before = steps;
        }
    }

    /// Creates Secrets that mariadb-operator's certificate controller creates in a real cluster. This controller does
    /// not run here, because simulated pods run no programs.
    async fn create_certificates(&self, (namespace, names): (&str, [&str; 2])) {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for name in names {
            let secret = serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"tls.crt": ""}}));
            api.create(&PostParams::default(), &secret.unwrap()).await.unwrap();
        }
    }

    /// Grants the operator the rights that `services` need: upgrades the operator's chart with the value
    /// `rbac.services`. If `everywhere` is true, also sets `rbac.clusterWide`, which gives the operator rights in all
    /// namespaces.
    pub(super) fn grant_rights(&self, services: &[&str], everywhere: bool) {
        let settings = [format!("rbac.services={}", json!(services)), format!("rbac.clusterWide={everywhere}")];
        self.plane().grant_more(&settings);
    }
}

#[test]
#[ignore = "needs the charts of OpenStack-Helm and of other projects: CHARTS=DIR cargo test --test operator all_services -- --ignored"]
fn installs_charts_of_other_projects() {
    let charts = charts();
    run_test("other-projects", async |world| {
        // Grant rights in all namespaces, because the charts of other projects are in separate namespaces.
        world.permit_all();
        world.grant_rights(&INSTALLABLE.map(|(service, _)| service), true);
        let operator = world.operator().charts(&charts).arguments(&["--probes", "false"]).start().await;
        let core = ["mariadb", "rabbitmq", "memcached", "keystone"];
        let mut spec = services(&core);
        for (service, _) in INSTALLABLE {
            spec["services"][service] = json!({"enabled": true});
        }
        world.apply(&spec).await;
        world.until_installed("mariadb-operator").await;
        world.create_certificates(CERTIFICATES).await;
        let status = world.until_ready_with_progress().await.status();
        world.check_single_revision(&status);
        for application in core.into_iter().chain(INSTALLABLE.map(|(_, release)| release)) {
            let has_components = status.health.get(application).is_some_and(|components| !components.is_empty());
            assert!(
                has_components,
                "the status must list a component of {application}, but lists only {:?}",
                status.health.keys()
            );
        }
        assert!(operator.stop().await.success());
        world.grant_rights(&[], false);
    });
}
