//! Lists the metadata of objects page by page.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

/// The number of objects per page. A page can take 12 MiB, because the metadata of one object can have up to 1.5 MiB,
/// etcd's limit for a request.
const PAGE: u32 = 8;

/// Lists the metadata of objects, and returns what `keep` returns for each object. Leaves out the objects for which
/// `keep` returns `None`.
///
/// The function requests the objects page by page, so memory never contains the metadata of more than one page. The
/// metadata of all objects could be too much: a user can create many objects, each with 256 KiB of annotations.
///
/// # Errors
/// Returns an error if a request to the API server fails.
pub async fn list_metadata<K, T>(
    api: &Api<K>,
    params: &ListParams,
    keep: impl Fn(&PartialObjectMeta<K>) -> Option<T>,
) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let (mut page, mut kept) = (params.clone().limit(PAGE), Vec::new());
    loop {
        let list = api.list_metadata(&page).await?;
        kept.extend(list.items.iter().filter_map(&keep));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::Request;
    use kube::core::{ApiResource, DynamicObject};
    use kube::{Client, ResourceExt};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn reads_all_pages() {
        let respond = async |request: Request| {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("limit=8") && query.contains("labelSelector=a%3Db"), "{query}");
            let (name, next) = match query.rsplit_once("continue=") {
                None => ("first", "2"),
                Some((_, "2")) => ("second", "3"),
                _ => ("third", ""),
            };
            let items = json!([{"metadata": {"name": name}}, {"metadata": {"name": "other"}}]);
            let metadata = json!({"continue": next});
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
                .to_string()
        };
        let client = Client::new(Router::new().fallback(respond), "a");
        let resource = ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: "Secret".into(),
            plural: "secrets".into(),
        };
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        let keep = |object: &PartialObjectMeta<DynamicObject>| Some(object.name_any()).filter(|name| name != "other");
        let names = list_metadata(&api, &ListParams::default().labels("a=b"), keep).await.unwrap();
        assert_eq!(names, ["first", "second", "third"]);
    }
}
