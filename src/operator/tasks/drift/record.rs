//! Checks with the API server whether helm has worked on a release.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::{Client, Error, ResourceExt};

use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::Status;

/// Whether this revision is the newest of its release, and deployed.
///
/// helm records an operation before it touches an object. So after an object was seen changed, this tells whether a
/// helm, this operator's or another one, may have changed it. Watches of objects and records cannot tell, as they are
/// not ordered among each other.
pub(super) async fn is_newest_deployed(client: &Client, release: &ReleaseKey, revision: i64) -> Result<bool, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &release.namespace);
    let all = ListParams::default().labels(&format!("owner=helm,name={}", release.name));
    let records = api.list_metadata(&all).await?;
    let newest = records.items.iter().filter_map(|record| {
        let labels = record.labels();
        Some((labels.get("version")?.parse::<i64>().ok()?, labels.get("status")?.as_str()))
    });
    let deployed = Status::Deployed.to_string();
    Ok(newest.max() == Some((revision, deployed.as_str())))
}
