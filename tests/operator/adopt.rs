//! osdpl adopts clouds that a user installed with plain helm, and detaches them again. Neither the adoption nor the
//! detachment may run helm or recreate a pod.

mod content;
mod detach;
mod lifecycle;
mod manual_install;
mod manual_upgrade;
mod other_owner;
mod upgrade;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::world::World;

/// Returns the path of `tests/charts`.
fn stand_ins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts")
}

/// Returns the path of a chart in `tests/charts`.
fn chart(name: &str) -> String {
    stand_ins().join(name).display().to_string()
}

/// The suffix in the name of a test's second namespace. Horizon is installed in this namespace.
const SECOND_NAMESPACE: &str = "-panel";

/// The name and uid of each pod. A pod that was recreated has a new uid.
type Pods = BTreeSet<(String, String)>;

impl World {
    fn run_kubectl(&self, arguments: &[&str]) {
        let mut kubectl = Command::new(self.cluster().kubectl().unwrap());
        kubectl.arg("--kubeconfig").arg(self.cluster().kubeconfig()).args(["--namespace", &self.namespace]);
        let output = kubectl.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns whether a namespace belongs to the test. An adopted cloud has a second namespace besides the test's own.
    fn is_test_namespace(&self, namespace: Option<&str>) -> bool {
        namespace
            .and_then(|name| name.strip_prefix(&self.namespace))
            .is_some_and(|rest| ["", SECOND_NAMESPACE].contains(&rest))
    }

    /// Returns the name and uid of each pod in the test's namespaces, except for the pods of Jobs.
    pub async fn pods(&self) -> Pods {
        let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        let long_running = pods.items.into_iter().filter(|pod| {
            self.is_test_namespace(pod.namespace().as_deref())
                && pod.owner_references().iter().all(|owner| owner.kind != "Job")
        });
        long_running.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
    }

    /// Returns the keys of the labels that osdpl has set on helm's release records in the test's namespaces.
    async fn labels_on_records(&self) -> BTreeSet<String> {
        let records = Api::<Secret>::all(self.client.clone());
        let records = records.list_metadata(&ListParams::default().labels("owner=helm")).await.unwrap();
        let records = records.items.into_iter().filter(|record| self.is_test_namespace(record.namespace().as_deref()));
        let labels = records.flat_map(|record| record.labels().keys().cloned().collect::<Vec<_>>());
        labels.filter(|label| label.starts_with("osdpl.dev/")).collect()
    }
}
