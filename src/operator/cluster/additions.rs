//! Reads the additions that a spec names: `ConfigMap`s that add files to the catalogue.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use osdpl_client::api_message;

use super::Reader;
use osdpl_core::api::AdditionReference;
use osdpl_core::catalog::{ConfigMapData, NamedAdditions};

/// Returns the message about an addition that osdpl can't read: `reason`, and what the user can do.
pub(super) fn unreadable(reason: &str) -> String {
    format!("{reason}; allow the operator to read the ConfigMap, or wait until the API server responds")
}

impl Reader {
    /// Reads the additions that a spec in `namespace` names, without starting a watch.
    ///
    /// `given` returns the data of the `ConfigMap`s that the caller already has. This function reads all other
    /// `ConfigMap`s from the API server.
    pub async fn read_additions(
        &self,
        namespace: &str,
        references: &[AdditionReference],
        given: impl Fn(&str) -> Option<ConfigMapData>,
    ) -> NamedAdditions {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let mut found: BTreeMap<&str, ConfigMapData> = BTreeMap::new();
        for AdditionReference { name, .. } in references {
            let data = match given(name) {
                Some(data) => data,
                None => match api.get_opt(name).await {
                    Ok(map) => Ok(map.map(|map| map.data.unwrap_or_default())),
                    Err(error) => Err(unreadable(&api_message(&error))),
                },
            };
            found.insert(name, data);
        }
        NamedAdditions::read(references, namespace, |name| found.get(name).cloned().unwrap_or(Ok(None)))
    }
}
