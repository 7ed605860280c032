//! A Ceph that a running cloud uses: what declares it. Reads alone.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

/// The `ConfigMap` that upstream's charts mount where a cloud uses Ceph (`ceph_configmap_name` of `ceph-provisioners`).
const CONFIG: &str = "ceph-etc";

/// What to declare, of a cloud whose charts mount a Ceph's configuration; nothing of one whose do not.
pub async fn hint(client: &Client, home: &str) -> anyhow::Result<Option<String>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), home);
    if maps.get_metadata_opt(CONFIG).await?.is_none() {
        return Ok(None);
    }
    Ok(Some(told(home, &rooks(client).await)))
}

/// Where Rook runs a Ceph, as `(namespace, name)`; none where its kind is not known here, or may not be seen.
async fn rooks(client: &Client) -> Vec<(String, String)> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ceph.rook.io", "v1", "CephCluster"));
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = all.list_metadata(&ListParams::default()).await.map(|all| all.items).unwrap_or_default();
    all.into_iter().map(|one| (one.namespace().unwrap_or_default(), one.name_any())).collect()
}

fn told(home: &str, rooks: &[(String, String)]) -> String {
    let (found, declared) = match rooks {
        [] => (String::new(), "{mode: external, secret: {name: A-SECRET-THAT-DESCRIBES-IT}}".to_owned()),
        [(namespace, name), ..] => (
            format!(", and Rook runs one here (CephCluster {namespace}/{name})"),
            format!("{{mode: rook, rook: {{namespace: {namespace}}}}}"),
        ),
    };
    format!(
        "note: this cloud uses a Ceph (ConfigMap {home}/{CONFIG}){found}: what its releases say of it stands as overrides and goes on as it is. For osdpl to hand out its \
         keys and follow its monitors, declare features.storage: {{backend: ceph, ceph: {declared}}}, take those overrides out, and look at `osdpl diff` before you \
         apply that"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_declares_it_follows_from_who_runs_it() {
        let external = told("openstack", &[]);
        assert!(
            external.starts_with("note: this cloud uses a Ceph (ConfigMap openstack/ceph-etc): what"),
            "{external}"
        );
        assert!(external.contains("{backend: ceph, ceph: {mode: external, secret: {name: "), "{external}");
        let rook = told("openstack", &[("storage".into(), "main".into())]);
        assert!(rook.contains("and Rook runs one here (CephCluster storage/main): what"), "{rook}");
        assert!(rook.contains("{backend: ceph, ceph: {mode: rook, rook: {namespace: storage}}}"), "{rook}");
    }
}
