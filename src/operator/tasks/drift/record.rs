//! Whether helm was at a release since, by the API server's own word.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::{Client, Error, ResourceExt};

use osdpl_core::observed::Key;
use osdpl_core::release::Status;

/// Whether this revision is the newest of its release, and deployed.
///
/// helm records what it begins before it touches an object. So whoever has seen an object changed and asks this afterwards knows whether a helm may
/// have done it, our own or someone else's: watches of objects and of records tell in no order.
pub(super) async fn stands(client: &Client, release: &Key, revision: i64) -> Result<bool, Error> {
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
