//! Charts of other projects beside a small cloud, each from its own project: their controllers, their kinds, and what hangs on none of their webhooks, which nobody
//! answers here.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use super::{charts, steps};
use crate::cloud::{Told, services};
use crate::pool::SYSTEM;
use crate::world::{World, story};

/// Those whose objects no webhook of theirs has to let through, each with the release that its controller is.
pub(super) const OTHERS: [(&str, &str); 7] = [
    ("cert_manager", "cert-manager"),
    ("external_secrets", "external-secrets"),
    ("k_orc", "orc"),
    ("mariadb_operator", "mariadb-operator"),
    ("rabbitmq_operator", "rabbitmq-cluster-operator"),
    ("rook_ceph", "rook-ceph"),
    ("valkey_operator", "valkey-operator"),
];

/// Those that do not come up where no program runs, each with the reason.
pub(super) const UNANSWERED: [(&str, &str); 2] = [
    (
        "cortex",
        "its certificates are cert-manager's, whose webhook nobody answers here, and it wants kinds of prometheus-operator's",
    ),
    ("labels_injector", "its certificates are cert-manager's, whose webhook nobody answers here"),
];

/// What mariadb-operator's controller of certificates makes, which is a program, and its webhook's pod mounts: namespace and names.
const MADE: (&str, [&str; 2]) = ("mariadb-operator", ["mariadb-operator-webhook-ca", "mariadb-operator-webhook-cert"]);

impl World {
    /// Waits until helm has done with a release, for as long as releases come forward.
    async fn until_installed(&self, release: &str) {
        let mut behind = 0;
        loop {
            let further = |cloud: &OpenStackDeployment| {
                let steps = cloud.status().children.values().map(steps).sum();
                let is_installed = cloud.child(release).status == "deployed";
                (is_installed || steps > behind).then_some((is_installed, steps))
            };
            let (is_installed, steps) = self.until(&format!("{release} is installed"), further).await;
            if is_installed {
                return;
            }
            behind = steps;
        }
    }

    /// Makes Secrets as a program would that does not run here.
    async fn certify(&self, (namespace, names): (&str, [&str; 2])) {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for name in names {
            let secret = serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"tls.crt": ""}}));
            api.create(&PostParams::default(), &secret.unwrap()).await.unwrap();
        }
    }

    /// The operator's own chart, with what it ships for these services and does not grant by itself.
    pub(super) fn is_granted(&self, services: &[&str]) {
        let cluster = self.cluster();
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/osdpl");
        let mut helm = Command::new(cluster.helm(4).unwrap());
        helm.args(["upgrade", SYSTEM.1, "--namespace", SYSTEM.0]).arg(chart);
        helm.arg("--set-json").arg(format!("rbac.services={}", json!(services)));
        let homes = cluster.folder().path().join("helm");
        let output = helm.env("KUBECONFIG", cluster.kubeconfig()).env("HOME", homes).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
#[ignore = "needs the charts of other projects, too: CHARTS=DIR cargo test --test operator whole -- --ignored"]
fn charts_of_other_projects_come_up_beside_a_small_cloud() {
    let charts = charts();
    story("others", async |world| {
        world.is_granted(&OTHERS.map(|(service, _)| service));
        let operator = world.operator().charts(&charts).arguments(&["--probes", "false"]).start().await;
        let core = ["mariadb", "rabbitmq", "memcached", "keystone"];
        let mut spec = services(&core);
        for (service, _) in OTHERS {
            spec["services"][service] = json!({"enabled": true});
        }
        world.apply(&spec).await;
        world.until_installed("mariadb-operator").await;
        world.certify(MADE).await;
        let status = world.until_ready_by_and_by().await.status();
        world.was_made_at_once(&status);
        for application in core.into_iter().chain(OTHERS.map(|(_, release)| release)) {
            let has_components = status.health.get(application).is_some_and(|components| !components.is_empty());
            assert!(has_components, "{application} has no component: {:?}", status.health.keys());
        }
        assert!(operator.stop().await.success());
        world.is_granted(&[]);
    });
}
