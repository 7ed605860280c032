//! Builds the settings with which the gateways (RGW) of Ceph's object store validate Keystone's tokens.

use std::collections::BTreeMap;

use osdpl_values::CollectSorted;
use serde_json::{Map, Value, json};

use super::{Kind, Object};

/// The settings of the object store: `features.storage.ceph.objectStore`, which the feature's schema has validated.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectStore {
    feature: Map<String, Value>,
}

/// The URL of Keystone, and the password of the Keystone user with which the gateways validate tokens.
#[derive(Clone)]
pub struct Keystone {
    /// Keystone's URL without a version, because RGW appends `/v3` itself.
    pub url: String,
    /// The password of the user [`KEYSTONE_USER`].
    pub password: String,
}

/// The name of the Keystone user with which gateways validate tokens.
///
/// The chart ceph-rgw creates this user. The name is the chart's default (`endpoints.identity.auth.swift`).
pub(crate) const KEYSTONE_USER: &str = "swift";
/// The name of the project of [`KEYSTONE_USER`], and of the domain that contains the user and the project. Rook
/// requires that user and project are in the same domain. Upstream's chart uses the name `service`, too.
const PROJECT: &str = "service";

impl ObjectStore {
    /// Reads the settings of the object store from `features.storage.ceph`; `None` if the spec has no object store.
    pub fn from_feature(feature: &Value) -> Option<Self> {
        feature.get("objectStore")?.as_object().cloned().map(|feature| Self { feature })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.feature.get(key)?.as_str()
    }

    /// Returns the name of Rook's `CephObjectStore`, the object to which osdpl adds the settings for Keystone.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// Returns the public URL that the spec sets for the gateways; `None` if the spec sets none. osdpl then takes the
    /// URL from the Secret that describes the Ceph cluster, or from Rook.
    pub fn public_url(&self) -> Option<&str> {
        self.text("publicUrl")
    }

    /// Returns the Keystone URL that the spec sets for the gateways; `None` if the spec sets none. osdpl then uses the
    /// URL of the cloud's own Keystone.
    pub fn keystone_url(&self) -> Option<&str> {
        self.text("keystoneUrl")
    }

    fn roles(&self) -> Vec<String> {
        let roles = self.feature.get("acceptedRoles").and_then(Value::as_array);
        let roles = roles.map(|roles| roles.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        roles.unwrap_or_else(|| vec!["admin".to_owned(), "member".to_owned()])
    }

    /// Returns the Secret with the Keystone account of the gateways.
    ///
    /// Rook reads this Secret and configures its gateways. If the gateways run outside of the Kubernetes cluster, a
    /// person configures them from this Secret. For this person, the Secret also contains the value of Ceph's option
    /// `rgw_keystone_accepted_roles`.
    pub fn secret(&self, namespace: &str, deployment: &str, keystone: &Keystone) -> Object {
        let (url, roles) = (format!("{}/v3", keystone.url), self.roles().join(","));
        let known = [
            ("OS_AUTH_TYPE", "password"),
            ("OS_IDENTITY_API_VERSION", "3"),
            ("OS_AUTH_URL", &url),
            ("OS_USERNAME", KEYSTONE_USER),
            ("OS_PASSWORD", &keystone.password),
            ("OS_PROJECT_NAME", PROJECT),
            ("OS_PROJECT_DOMAIN_NAME", PROJECT),
            ("OS_USER_DOMAIN_NAME", PROJECT),
            ("rgw_keystone_accepted_roles", &roles),
        ];
        // Rook reads the CA for Keystone's certificate from the key `cabundle`.
        let ca_bundle = self.text("caBundle").map(|bundle| ("cabundle", bundle));
        let data = known.into_iter().chain(ca_bundle).map(|(key, value)| (key.to_owned(), value.to_owned()));
        let data: BTreeMap<String, String> = data.collect_map();
        Object { kind: Kind::Opaque, namespace: namespace.to_owned(), name: secret_name(deployment), data }
    }

    /// Returns the fields that osdpl sets in the `spec` of the `CephObjectStore` (`ObjectStoreSpec` in Rook's
    /// `ceph.rook.io/v1`). `deployment` is the name of the OpenStackDeployment, and `url` is Keystone's URL.
    pub fn settings(&self, deployment: &str, url: &str) -> Value {
        let secret = secret_name(deployment);
        let tenants = self.text("implicitTenants").unwrap_or("true");
        let mut keystone = json!({
            "url": url, "serviceUserSecretName": secret, "acceptedRoles": self.roles(), "implicitTenants": tenants,
        });
        if let Some(size) = self.feature.get("tokenCacheSize") {
            keystone["tokenCacheSize"] = size.clone();
        }
        let s3 = self.feature.get("s3").and_then(Value::as_bool).unwrap_or(true);
        let mut spec = json!({
            "auth": {"keystone": keystone},
            // The URL of Swift in Keystone's service catalogue contains the user's account, so the gateways must accept
            // URLs with an account. Requests to public containers carry no token, so they also need the account in the
            // URL.
            "protocols": {"swift": {"accountInUrl": true, "urlPrefix": "swift"}, "s3": {"authUseKeystone": s3}},
        });
        if self.text("caBundle").is_some() {
            spec["gateway"] = json!({"caBundleRef": secret});
        }
        spec
    }
}

fn secret_name(deployment: &str) -> String {
    format!("{deployment}-rgw-keystone")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(feature: &Value) -> ObjectStore {
        ObjectStore::from_feature(&json!({"objectStore": feature})).unwrap()
    }

    fn keystone() -> Keystone {
        Keystone { url: "http://keystone-api.openstack.svc.cluster.local:5000".into(), password: "s3cret".into() }
    }

    #[test]
    fn writes_the_settings_that_rook_reads() {
        assert_eq!(ObjectStore::from_feature(&json!({"mode": "rook"})), None);
        let store = store(&json!({"name": "objects"}));
        assert_eq!(
            store.settings("cloud", &keystone().url),
            json!({
                "auth": {"keystone": {
                    "url": "http://keystone-api.openstack.svc.cluster.local:5000", "serviceUserSecretName": "cloud-rgw-keystone",
                    "acceptedRoles": ["admin", "member"], "implicitTenants": "true",
                }},
                "protocols": {"swift": {"accountInUrl": true, "urlPrefix": "swift"}, "s3": {"authUseKeystone": true}},
            })
        );
        let secret = store.secret("rook-ceph", "cloud", &keystone());
        assert_eq!(secret.to_string(), "Secret rook-ceph/cloud-rgw-keystone");
        let text = |key: &str| secret.data[key].as_str();
        assert_eq!((text("OS_AUTH_TYPE"), text("OS_IDENTITY_API_VERSION")), ("password", "3"));
        assert_eq!((text("OS_USERNAME"), text("OS_PASSWORD")), ("swift", "s3cret"));
        // Rook refuses a Secret in which user and project have different domains.
        assert_eq!(text("OS_PROJECT_DOMAIN_NAME"), text("OS_USER_DOMAIN_NAME"));
        assert!(text("OS_AUTH_URL").ends_with(":5000/v3") && !secret.data.contains_key("cabundle"));
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn applies_every_setting_of_the_feature() {
        let store = store(&json!({
            "name": "objects", "acceptedRoles": ["user", "admin"], "implicitTenants": "swift", "tokenCacheSize": 0, "s3": false, "caBundle": "PEM",
        }));
        let settings = store.settings("cloud", "https://keystone.example.org");
        let keystone = &settings["auth"]["keystone"];
        assert_eq!((&keystone["implicitTenants"], &keystone["tokenCacheSize"]), (&json!("swift"), &json!(0)));
        assert_eq!(keystone["acceptedRoles"], json!(["user", "admin"]));
        assert_eq!(settings["protocols"]["s3"]["authUseKeystone"], false);
        assert_eq!(settings["gateway"]["caBundleRef"], "cloud-rgw-keystone");
        let data = store.secret("rook-ceph", "cloud", &self::keystone()).data;
        assert_eq!((&*data["cabundle"], &*data["rgw_keystone_accepted_roles"]), ("PEM", "user,admin"));
    }
}
