//! Checks which credentials osdpl adopted. Finds the lines that changed in the charts' Secrets and `ConfigMap`s during
//! an adoption or an upgrade. An adoption must change no line.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::manual_install::ManualRelease;
use crate::cloud::NAME;
use crate::world::World;

/// The texts in Secrets and `ConfigMap`s. Each key of the map has the form `NAMESPACE/NAME KEY`: the namespace and name
/// of the object, and the text's key in the object's data.
pub type Texts = BTreeMap<String, String>;

impl World {
    /// Checks that osdpl adopted exactly the credentials in `adopted_credentials.yaml`, each with the value that the
    /// manually installed cloud uses.
    pub async fn check_adopted_credentials(&self, cloud: &[ManualRelease]) {
        let mut expected: BTreeMap<String, BTreeMap<String, String>> =
            osdpl_values::yaml::parse("adopted_credentials.yaml", include_str!("adopted_credentials.yaml")).unwrap();
        expected.retain(|service, _| cloud.iter().any(|one| one.release() == service));
        let prefix = format!("{NAME}-adopted-credentials-");
        let secrets = self.api::<Secret>().list(&ListParams::default()).await.unwrap();
        let adopted = secrets.items.into_iter().filter_map(|secret| {
            let service = secret.name_any().strip_prefix(&prefix)?.to_owned();
            let texts = secret.data.unwrap_or_default().into_iter();
            Some((service, texts.map(|(key, text)| (key, String::from_utf8(text.0).unwrap())).collect()))
        });
        assert_eq!(adopted.collect::<BTreeMap<_, BTreeMap<_, _>>>(), expected);
    }

    /// Returns the texts in all Secrets and ConfigMaps of the test's namespaces, except for helm's records and the
    /// objects of osdpl.
    pub async fn texts(&self) -> Texts {
        let secrets = Api::<Secret>::all(self.client.clone()).list(&ListParams::default().labels("owner!=helm")).await;
        let maps = Api::<ConfigMap>::all(self.client.clone()).list(&ListParams::default()).await;
        let secrets = secrets.unwrap().items.into_iter().flat_map(|secret| {
            let data = secret.data.clone().unwrap_or_default().into_iter();
            let texts = data.map(|(key, text)| (key, String::from_utf8_lossy(&text.0).into_owned()));
            texts.map(move |text| (secret.namespace(), secret.name_any(), text)).collect::<Vec<_>>()
        });
        let maps = maps.unwrap().items.into_iter().flat_map(|map| {
            let data = map.data.clone().unwrap_or_default().into_iter();
            data.map(move |text| (map.namespace(), map.name_any(), text)).collect::<Vec<_>>()
        });
        let charts = secrets
            .chain(maps)
            .filter(|(namespace, name, _)| self.is_test_namespace(namespace.as_deref()) && !name.starts_with(NAME));
        charts.map(|(namespace, name, (key, text))| (format!("{}/{name} {key}", namespace.unwrap()), text)).collect()
    }
}

/// Returns the lines that differ between two results of [`World::texts`]. Each returned line begins with the object and
/// the key, followed by `-` and an old line or by `+` and a new line.
pub fn changed_lines(before: &Texts, after: &Texts) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let lines = |texts: &Texts, key: &String| -> Vec<String> {
        texts.get(key).map(|text| text.lines().map(|line| line.trim().to_owned()).collect()).unwrap_or_default()
    };
    let mut changed = Vec::new();
    for key in keys {
        let name = key.rsplit('/').next().unwrap_or(key);
        let (old, new) = (lines(before, key), lines(after, key));
        changed.extend(old.iter().filter(|line| !new.contains(line)).map(|line| format!("{name}: -{line}")));
        changed.extend(new.iter().filter(|line| !old.contains(line)).map(|line| format!("{name}: +{line}")));
    }
    changed
}
