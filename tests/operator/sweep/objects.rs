//! Checks which objects exist in the namespace of a cloud.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::release::{Objects, decode_objects};

use crate::world::World;

/// An object, as its kind and name.
pub type Object = (String, String);

/// The namespaced kinds of objects that charts and the operator create. `PersistentVolumeClaim` is not in the list,
/// because the claims of a StatefulSet stay when the StatefulSet is deleted.
const KINDS: [(&str, &str); 12] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("policy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];

/// The objects that Kubernetes or the test creates in each namespace.
const OTHERS: [(&str, &str); 5] = [
    ("ConfigMap", "kube-root-ca.crt"),
    ("ServiceAccount", "default"),
    ("Secret", super::EXTERNAL),
    ("Secret", crate::ceph::SECRET),
    ("RoleBinding", crate::pool::RIGHTS),
];

impl World {
    /// Returns helm's release records, in the order of their revisions.
    pub(super) async fn records(&self) -> Vec<Secret> {
        let mut records = self.api::<Secret>().list(&ListParams::default().labels("owner=helm")).await.unwrap().items;
        records.sort_by_key(|record| record.labels().get("version").and_then(|version| version.parse::<u32>().ok()));
        records
    }

    /// Returns the objects of the [`KINDS`] in the namespace, and for each object, whether it has the operator's label.
    /// Leaves out objects that have an owner, release records, and [`OTHERS`].
    async fn objects(&self) -> BTreeMap<Object, bool> {
        let mut found = BTreeMap::new();
        for (group, kind) in KINDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
            for object in api.list_metadata(&ListParams::default()).await.unwrap() {
                let (name, is_record) =
                    (object.name_any(), object.labels().get("owner").is_some_and(|by| by == "helm"));
                if !is_record && object.owner_references().is_empty() && !OTHERS.contains(&(kind, name.as_str())) {
                    found.insert((kind.to_owned(), name), object.labels().contains_key(DEPLOYMENT_LABEL));
                }
            }
        }
        found
    }

    /// Returns the missing objects and the leftover objects. All objects in the manifests of the newest revisions must
    /// exist. Other objects may exist only if they are hooks of these revisions, if they are in `retained`, or if they
    /// have the operator's label and at least one release exists.
    pub(super) async fn difference(&self, retained: &BTreeMap<String, Option<String>>) -> (Vec<Object>, Vec<Object>) {
        let newest: BTreeMap<_, _> =
            self.records().await.into_iter().map(|record| (record.labels()["name"].clone(), record)).collect();
        let (mut needed, mut allowed) = (BTreeSet::new(), BTreeSet::new());
        for record in newest.values() {
            let payload = &record.data.as_ref().unwrap()["release"].0;
            let Objects { manifest, hooks, .. } = decode_objects(payload).unwrap();
            let is_checked = |object: &Object| KINDS.iter().any(|(_, kind)| *kind == object.0);
            needed.extend(manifest.into_iter().map(|object| (object.kind, object.name)).filter(is_checked));
            allowed.extend(hooks.into_iter().map(|object| (object.kind, object.name)));
        }
        let found = self.objects().await;
        let missing = needed.iter().filter(|object| !found.contains_key(object)).cloned().collect();
        let is_left = |(object, is_own): &(Object, bool)| {
            let is_of_release = needed.contains(object) || allowed.contains(object) || *is_own && !newest.is_empty();
            !is_of_release && !retained.contains_key(&object.1)
        };
        (missing, found.into_iter().filter(is_left).map(|(object, _)| object).collect())
    }
}
