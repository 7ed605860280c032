//! Reads the credentials that osdpl generated.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;

use crate::world::World;

impl World {
    /// Returns the credentials that osdpl generated for a service. The keys of the map are the credentials' names.
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
        // osdpl's Secret for Ceph's gateways also contains settings for Keystone, such as `OS_USERNAME`. Of these
        // settings, only the password is a credential.
        let is_open =
            |key: &str| key == "rgw_keystone_accepted_roles" || key.starts_with("OS_") && key != "OS_PASSWORD";
        let values = data.filter(|(key, _)| !is_open(key));
        values.map(|(_, value)| String::from_utf8(value.0).unwrap()).collect()
    }
}
