//! The volume claims of releases: which are whose.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::{Cluster, Error, Explain};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;

impl Cluster {
    pub(super) async fn claims(&self, namespace: &str) -> Result<Vec<PersistentVolumeClaim>, Error> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        Ok(api.list(&ListParams::default()).await.because(|| format!("listing claims in {namespace}"))?.items)
    }
}

/// Whether a claim is a release's: those of StatefulSets have upstream's labels, those out of a chart often none (glance's images), but
/// helm's annotations.
pub(super) fn belongs(claim: &PersistentVolumeClaim, key: &ReleaseKey) -> bool {
    let labelled = claim.labels().get("release_group").is_some_and(|group| *group == key.name);
    labelled || release::helm_owner(&claim.metadata).as_ref() == Some(key)
}
