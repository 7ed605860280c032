//! Writes fault rules into the ConfigMap `kwok-faults`, and waits until the supervisor applies these rules to new pods.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::Error;
use crate::waits::PREFIX;
use crate::waits::rules::{FAULTS, FAULTS_NAMESPACE, IN_FORCE, Rule, digest};

/// Stores the fault rule with this name, or removes it if `rule` is `None`. Waits until the supervisor applies the
/// change to new pods.
pub(crate) async fn set(client: &Client, name: &str, rule: Option<&Rule>) -> Result<(), Error> {
    let failed = |reason: String| Error::Api { action: format!("writing the fault rule {name}"), reason };
    let text = rule.map(serde_saphyr::to_string).transpose().map_err(|error| failed(error.to_string()))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), FAULTS_NAMESPACE);
    let map = ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some(FAULTS.into()), ..Default::default() },
        ..Default::default()
    };
    match api.create(&kube::api::PostParams::default(), &map).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        created => drop(created.map_err(|error| failed(crate::error::api_message(&error)))?),
    }
    let patch = json!({ "data": { name: text } });
    let patched = api.patch(FAULTS, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| failed(crate::error::api_message(&error)))?;
    let acknowledged = await_condition(api, FAULTS, are_in_effect()).await;
    acknowledged.map(drop).map_err(|error| failed(error.to_string()))
}

/// Returns a condition for [`await_condition`]: the supervisor has read the current rules in the ConfigMap.
fn are_in_effect() -> impl Condition<ConfigMap> {
    |map: Option<&ConfigMap>| {
        let map = map.filter(|map| map.annotations().get(&format!("{PREFIX}{IN_FORCE}")) == Some(&digest(map)));
        map.is_some()
    }
}
