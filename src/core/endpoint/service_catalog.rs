//! Reads the URLs of a cloud's APIs from Keystone's service catalogue.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Interface, Url};
use osdpl_values::CollectSorted;

/// The project of a token, and the APIs that the project can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCatalog {
    /// The id of the project.
    pub project: String,
    /// The URL of each API by its type, such as `compute`.
    pub urls: BTreeMap<String, Url>,
}

/// Returns the service catalogue with the endpoints of one kind and one region; `None` if `body` is invalid.
///
/// `body` is the body of Keystone's response to a request for a token. An API whose URL is not valid is left out.
pub fn service_catalog(body: &[u8], interface: Interface, region: &str) -> Option<ServiceCatalog> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let token = &body["token"];
    let url = |api: &Value| {
        let is_selected = |endpoint: &&Value| endpoint["interface"] == interface.name() && endpoint["region"] == region;
        let endpoint = api["endpoints"].as_array()?.iter().find(is_selected)?;
        Some((api["type"].as_str()?.to_owned(), Url::parse(endpoint["url"].as_str()?)?))
    };
    let urls = token["catalog"].as_array()?.iter().filter_map(url).collect_map();
    Some(ServiceCatalog { project: token["project"]["id"].as_str()?.to_owned(), urls })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_endpoints_by_interface_and_region() {
        let endpoint = |interface, region, url| json!({"interface": interface, "region": region, "url": url});
        let images = [
            endpoint("public", "RegionOne", "https://images.example.org/v2"),
            endpoint("internal", "RegionTwo", "http://other:9292"),
            endpoint("internal", "RegionOne", "http://glance-api.openstack.svc.cluster.local:9292"),
        ];
        let catalog = json!([
            {"type": "image", "endpoints": images},
            {"type": "dns", "endpoints": [endpoint("internal", "RegionOne", "ftp://dns")]},
            {"type": "empty"},
        ]);
        let body = json!({"token": {"project": {"id": "abc"}, "catalog": catalog}}).to_string();
        let urls = |interface| {
            let found = service_catalog(body.as_bytes(), interface, "RegionOne").unwrap();
            assert_eq!(found.project, "abc");
            found.urls.into_iter().map(|(kind, url)| format!("{kind} {url}")).collect::<Vec<_>>()
        };
        assert_eq!(urls(Interface::Internal), ["image http://glance-api.openstack.svc.cluster.local:9292/"]);
        assert_eq!(urls(Interface::Public), ["image https://images.example.org:443/v2"]);
        assert_eq!(service_catalog(b"{}", Interface::Public, "RegionOne"), None);
    }

    #[test]
    fn finds_the_service_of_a_host() {
        let service = |url| Url::parse(url).unwrap().service().map(|(name, namespace)| format!("{namespace}/{name}"));
        assert_eq!(service("http://nova-api.site.svc.cluster.local:8774/v2.1").as_deref(), Some("site/nova-api"));
        assert_eq!(service("http://nova-api.site.svc:80").as_deref(), Some("site/nova-api"));
        assert_eq!(service("https://nova.example.org"), None);
        assert_eq!(Url::parse("nova-api:80"), None);
        assert_eq!(Url::parse("http:///v3"), None);
        assert_eq!(Url::parse("https://[fd00::1]/v3").unwrap().to_string(), "https://[fd00::1]:443/v3");
        assert_eq!(Url::parse("http://[fd00::1]:80/").unwrap().host, "fd00::1");
    }
}
