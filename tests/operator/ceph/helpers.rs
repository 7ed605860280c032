//! Writes the Secret that describes an external Ceph, and checks which objects contain Ceph's keys.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::{BACKUP, CINDER, FSID, GLANCE, NEWER, SECRET, SHARES};
use crate::world::World;

impl World {
    /// Creates or replaces the Secret that describes Ceph. The Secret has default entries, and `changes` overrides
    /// them. A null in `changes` removes an entry.
    pub async fn describe_ceph(&self, changes: Value) {
        let mut data = json!({
            "mon_host": "10.0.0.2:6789,10.0.0.1:6789", "fsid": FSID,
            "glance.key": format!("{GLANCE}\n"), "glance.pool": "images",
            "cinder.key": CINDER, "cinder.pool": "volumes", "cinder.user": "volumes",
            "cinder-backup.key": BACKUP, "cinder-backup.pool": "backups",
        });
        let all = data.as_object_mut().unwrap();
        all.extend(changes.as_object().cloned().unwrap_or_default());
        all.retain(|_, value| !value.is_null());
        let api = self.api::<Secret>();
        let existing = api.get_opt(SECRET).await.unwrap();
        let version = existing.as_ref().and_then(ResourceExt::resource_version);
        let secret = json!({"metadata": {"name": SECRET, "resourceVersion": version}, "stringData": data});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        match existing {
            Some(_) => api.replace(SECRET, &PostParams::default(), &secret).await.unwrap(),
            None => api.create(&PostParams::default(), &secret).await.unwrap(),
        };
    }

    /// Returns the data entries `key` and `keyring` of a Secret that osdpl writes for a chart.
    pub async fn keyring(&self, name: &str) -> (String, String) {
        let data = self.api::<Secret>().get(name).await.unwrap().data.unwrap_or_default();
        let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        (text("key"), text("keyring"))
    }

    /// Returns the annotation `osdpl.dev/ceph` of a Deployment's pod template. When Ceph's files change, osdpl changes
    /// the annotation to restart the pods.
    pub async fn ceph_annotation(&self, deployment: &str) -> String {
        let template = self.api::<Deployment>().get(deployment).await.unwrap().spec.unwrap().template;
        template.metadata.unwrap().annotations.unwrap_or_default().remove("osdpl.dev/ceph").unwrap_or_default()
    }

    /// Returns the sorted names of the releases for which helm ran after the first `count` helm runs.
    pub fn upgraded_since(&self, count: usize) -> Vec<String> {
        let mut names: Vec<String> = self.helm_runs()[count..].iter().map(|run| run.release().to_owned()).collect();
        names.sort();
        names
    }

    /// Checks that no Ceph key is in a ConfigMap, a pod, or the values of these releases.
    pub async fn check_no_leaked_keys(&self, releases: &[&str]) {
        let mut texts: Vec<(String, String)> = Vec::new();
        for map in self.api::<ConfigMap>().list(&ListParams::default()).await.unwrap() {
            texts.push((format!("ConfigMap {}", map.name_any()), format!("{:?}", map.data)));
        }
        for pod in self.api::<Pod>().list(&ListParams::default()).await.unwrap() {
            texts.push((format!("pod {}", pod.name_any()), format!("{:?} {:?}", pod.spec, pod.annotations())));
        }
        for release in releases {
            texts.push((format!("the values of {release}"), self.helm_values(release).to_string()));
        }
        for key in [GLANCE, CINDER, BACKUP, SHARES, NEWER] {
            for (place, text) in &texts {
                assert!(!text.contains(key), "{place} must not contain a Ceph key");
            }
        }
    }
}
