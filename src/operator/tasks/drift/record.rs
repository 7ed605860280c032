//! Asks the API server whether helm has worked on a release since a given revision.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Error, ResourceExt};
use osdpl_client::list_metadata;

use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::Status;

/// Returns whether, according to the API server, `revision` is the newest revision of its release and is deployed.
///
/// helm records an operation before it changes an object. So if a watch has reported a changed object and this function
/// then returns `true`, helm has not made the change. The watch on records cannot prove this, because the events of
/// different watches have no order.
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
