//! What Rook is asked for: `CephBlockPool`s and `CephClient`s, written only when they differ, never deleted, because data and keys hang on them.

mod store;
mod watch;

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

pub use store::STORE;
pub use watch::RookWatch;

use super::{Cluster, Error, Explain, MANAGER};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::{Manifest, NotReady, RookSettings, contains};

/// What came of asking.
pub enum Asked {
    /// All is there.
    Done,
    /// Asked for; Rook is still at this.
    Pending(String),
    /// It can't be asked for.
    Refused(NotReady),
}

fn resource(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind), &plural)
}

impl Cluster {
    /// Asks Rook for what is wanted. What the API server refuses is Rook's trouble, not the pass's: what needs no Ceph goes on.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn ask_rook(&self, deployment: &str, rook: &RookSettings, wanted: &[Manifest]) -> Result<Asked, Error> {
        let mut pending = None;
        for manifest in wanted {
            let place = format!("{} {}/{}", manifest.kind, rook.namespace, manifest.name);
            match self.ask_for(deployment, rook, manifest, &place).await {
                Ok(Asked::Done) => {}
                Ok(Asked::Pending(problem)) => drop(pending.get_or_insert(problem)),
                Ok(Asked::Refused(problem)) => return Ok(Asked::Refused(problem)),
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    return Ok(Asked::Refused(NotReady::Rook(format!(
                        "{place} can't be made: the namespace, or ceph.rook.io/v1, is not there; install Rook, or correct spec.features.storage.ceph.rook.namespace"
                    ))));
                }
                Err(kube::Error::Api(status)) => {
                    return Ok(Asked::Refused(NotReady::Rook(format!("{place}: {}", status.message))));
                }
                error @ Err(_) => return error.because(|| format!("asking Rook for {place}")),
            }
        }
        Ok(pending.map_or(Asked::Done, Asked::Pending))
    }

    async fn ask_for(
        &self,
        deployment: &str,
        rook: &RookSettings,
        manifest: &Manifest,
        place: &str,
    ) -> Result<Asked, kube::Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &rook.namespace, &resource(manifest.kind));
        let live = api.get_opt(&manifest.name).await?;
        if let Some(live) = live {
            if live.labels().get(DEPLOYMENT_LABEL).is_none_or(|owner| owner != deployment) {
                return Ok(Asked::Refused(NotReady::Occupied(place.to_owned())));
            }
            if contains(&live.data["spec"], &manifest.spec) {
                let phase = live.data["status"]["phase"].as_str().unwrap_or("not looked at yet");
                let problem = || format!("{place} is {phase}; Rook's operator says why in its log");
                return Ok(if phase == "Ready" { Asked::Done } else { Asked::Pending(problem()) });
            }
        }
        if !self.only_reads {
            apply(&api, deployment, rook, manifest).await?;
            tracing::info!(object = place, "asked of Rook");
        }
        Ok(Asked::Pending(format!("{place} was asked for; Rook has not made it yet")))
    }
}

async fn apply(
    api: &Api<DynamicObject>,
    deployment: &str,
    rook: &RookSettings,
    manifest: &Manifest,
) -> Result<(), kube::Error> {
    let labels = json!({DEPLOYMENT_LABEL: deployment, "app.kubernetes.io/managed-by": MANAGER});
    let body = json!({
        "apiVersion": "ceph.rook.io/v1", "kind": manifest.kind, "spec": manifest.spec,
        "metadata": {"name": manifest.name, "namespace": rook.namespace, "labels": labels},
    });
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&manifest.name, &params, &Patch::Apply(body)).await.map(drop)
}
