//! Asks the API server whether helm has started to install, upgrade or uninstall a release after a given revision.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Error, ResourceExt};
use osdpl_client::list_metadata;

use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::Status;

/// Returns whether, according to the API server, `revision` is the newest revision of its release and is deployed.
///
/// helm writes a release record before it changes any object. So if a watch has reported a changed object and this
/// function then returns `true`, someone other than helm has made the change. The watch on records can't prove this,
/// because the API server does not send the events of two watches in a common order.
pub(super) async fn is_newest_deployed(client: &Client, release: &ReleaseKey, revision: i64) -> Result<bool, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &release.namespace);
    let all = ListParams::default().labels(&format!("owner=helm,name={}", release.name));
    let read = |record: &PartialObjectMeta<Secret>| {
        let labels = record.labels();
        Some((labels.get("version")?.parse::<i64>().ok()?, labels.get("status")?.clone()))
    };
    let newest = list_metadata(&api, &all, read).await?.into_iter().max();
    Ok(newest == Some((revision, Status::Deployed.to_string())))
}
