//! Reads the generated credentials, and checks that none of them is in a log, a status, an event or a file.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::{Event, Secret};
use kube::ResourceExt;
use kube::api::ListParams;
use osdpl_core::scrub::Scrubber;

use crate::cloud::StatusAccess;
use crate::world::World;

impl World {
    /// Returns the credentials in osdpl's Secret of a service, by their names.
    pub async fn credentials(&self, service: &str) -> std::collections::BTreeMap<String, String> {
        let name = format!("{}-credentials-{service}", crate::cloud::NAME);
        let secret = self.api::<Secret>().get(&name).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        secret.data.unwrap_or_default().into_iter().map(|(name, value)| (name, text(value.0))).collect()
    }

    /// Returns every credential that operators of this test generated.
    pub async fn all_credentials(&self) -> BTreeSet<String> {
        let ours = ListParams::default().labels(osdpl_core::api::DEPLOYMENT_LABEL);
        let secrets = self.api::<Secret>().list(&ours).await.unwrap();
        let data = secrets.items.into_iter().flat_map(|secret| secret.data.unwrap_or_default());
        // osdpl's Secret for Ceph's gateways also contains settings for Keystone, such as `OS_USERNAME`. Of these, only
        // the password is a credential.
        let is_open =
            |key: &str| key == "rgw_keystone_accepted_roles" || key.starts_with("OS_") && key != "OS_PASSWORD";
        let values = data.filter(|(key, _)| !is_open(key));
        values.map(|(_, value)| String::from_utf8(value.0).unwrap()).collect()
    }

    /// Checks that no generated credential is in an event, in a status, or in a file of the operator and its helm
    /// processes: logs, command lines, environments, caches. Every test ends with this check.
    pub async fn check_no_leaked_secrets(&self) {
        let credentials = self.all_credentials().await;
        // Both scrubbers redact everything that looks like a password in a URL; charts' templates contain such text.
        // Only `by_value` also redacts the credentials. So if the results differ, the text contains a credential.
        let (by_value, by_shape) = (Scrubber::new(&credentials), Scrubber::default());
        let check = |source: &str, text: &str| {
            assert!(by_value.scrub(text) == by_shape.scrub(text), "no credential may be visible in {source}: {text}");
        };
        for event in self.api::<Event>().list(&ListParams::default()).await.unwrap() {
            check("an event", &format!("{:?} {:?}", event.message, event.related));
        }
        for deployment in self.deployments().list(&ListParams::default()).await.unwrap() {
            let name = format!("the status of {}", deployment.name_any());
            check(&name, &serde_json::to_string(&deployment.status()).unwrap());
        }
        // The folder has the logs of the operator and helm, helm's command lines and environments, and the caches.
        files(self.folder.path(), &mut |path, bytes| {
            check(&path.display().to_string(), &String::from_utf8_lossy(bytes));
        });
    }
}

/// Calls `look` with the path and content of every file below a folder, except for symbolic links and chart archives.
fn files(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_symlink() || path.extension().is_some_and(|extension| extension == "tgz") {
            continue;
        }
        if path.is_dir() {
            files(&path, look);
        } else {
            look(&path, &std::fs::read(&path).unwrap());
        }
    }
}
