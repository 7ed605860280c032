//! The volume claims of releases: which are whose, and of what class.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::{Cluster, Error, Explain};
use crate::observed::Key;
use crate::release;

impl Cluster {
    /// The class that the bound claims of each release have, where all of one release have the same. A claim that was never bound holds nothing
    /// and binds nobody to its class.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn claim_classes(&self, releases: &BTreeMap<String, Key>) -> Result<BTreeMap<String, String>, Error> {
        let namespaces: BTreeSet<&str> = releases.values().map(|key| key.namespace.as_str()).collect();
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for namespace in namespaces {
            for claim in self.claims(namespace).await? {
                let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
                let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
                let Some(class) = class.filter(|_| bound) else { continue };
                let whose = releases.iter().filter(|(_, key)| key.namespace == namespace && belongs(&claim, key));
                for (name, _) in whose {
                    found.entry(name.clone()).or_default().insert(class.clone());
                }
            }
        }
        let one = |classes: BTreeSet<String>| if classes.len() == 1 { classes.into_iter().next() } else { None };
        Ok(found.into_iter().filter_map(|(name, classes)| Some((name, one(classes)?))).collect())
    }

    pub(super) async fn claims(&self, namespace: &str) -> Result<Vec<PersistentVolumeClaim>, Error> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        Ok(api.list(&ListParams::default()).await.because(|| format!("listing claims in {namespace}"))?.items)
    }
}

/// Whether a claim is a release's: those of StatefulSets have upstream's labels, those out of a chart often none (glance's images), but
/// helm's annotations.
pub(super) fn belongs(claim: &PersistentVolumeClaim, key: &Key) -> bool {
    let labelled = claim.labels().get("release_group").is_some_and(|group| *group == key.name);
    labelled || release::owner(&claim.metadata).as_ref() == Some(key)
}
