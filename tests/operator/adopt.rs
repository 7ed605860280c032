//! Clouds that others installed come in, and go again: no helm runs, and no pod is made anew.

mod back;
mod by_hand;
mod comes_in;
mod driven;
mod goes;
mod kept;
mod shown;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::world::World;

/// The folder of the stand-ins.
fn stand_ins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts")
}

/// A chart of the stand-ins.
fn chart(name: &str) -> String {
    stand_ins().join(name).display().to_string()
}

/// What the namespace beside the story's own is called behind its name.
const BESIDE: &str = "-panel";

/// Pods, by name and uid.
type Pods = BTreeSet<(String, String)>;

impl World {
    fn kubectl_does(&self, arguments: &[&str]) {
        let mut kubectl = Command::new(self.cluster().kubectl().unwrap());
        kubectl.arg("--kubeconfig").arg(self.cluster().kubeconfig()).args(["--namespace", &self.namespace]);
        let output = kubectl.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Whether a namespace is the story's own, or the one beside it that some of its releases are in.
    fn is_here(&self, namespace: Option<&str>) -> bool {
        namespace.and_then(|name| name.strip_prefix(&self.namespace)).is_some_and(|rest| ["", BESIDE].contains(&rest))
    }

    /// The pods that run something, by name and uid: those of Jobs come and go.
    async fn pods(&self) -> Pods {
        let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        let lasting = pods.items.into_iter().filter(|pod| {
            self.is_here(pod.namespace().as_deref()) && pod.owner_references().iter().all(|owner| owner.kind != "Job")
        });
        lasting.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
    }

    /// Every label of ours on helm's records.
    async fn labels_on_records(&self) -> BTreeSet<String> {
        let records = Api::<Secret>::all(self.client.clone());
        let records = records.list_metadata(&ListParams::default().labels("owner=helm")).await.unwrap();
        let here = records.items.into_iter().filter(|record| self.is_here(record.namespace().as_deref()));
        let labels = here.flat_map(|record| record.labels().keys().cloned().collect::<Vec<_>>());
        labels.filter(|label| label.starts_with("osdpl.dev/")).collect()
    }
}
