//! Back to Ceph: what its object store needs to ask Keystone who somebody is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Kind, Object};

/// The object store that `features.storage.ceph.objectStore` asks for, whose schema was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    feature: Map<String, Value>,
}

/// Keystone, as the gateways see it.
#[derive(Clone)]
pub struct Keystone {
    /// Its URL without a version: RGW appends `/v3` itself.
    pub url: String,
    /// The password of [`USER`].
    pub password: String,
}

/// The Keystone user as which gateways check tokens: upstream's default in the chart ceph-rgw (`endpoints.identity.auth.swift`), which makes it.
pub const USER: &str = "swift";
/// Its project, and the domain of both; upstream's defaults, and Rook demands one domain for both.
const PROJECT: &str = "service";

impl Store {
    /// Reads `features.storage.ceph`; none where no object store is asked for.
    pub fn of(feature: &Value) -> Option<Self> {
        feature.get("objectStore")?.as_object().cloned().map(|feature| Self { feature })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.feature.get(key)?.as_str()
    }

    /// The name of the `CephObjectStore`.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// The address for users, where it is not what Ceph itself tells.
    pub fn public_url(&self) -> Option<&str> {
        self.text("publicUrl")
    }

    /// Where gateways find Keystone, where it is not what the cloud itself tells.
    pub fn keystone_url(&self) -> Option<&str> {
        self.text("keystoneUrl")
    }

    fn roles(&self) -> Vec<String> {
        let roles = self.feature.get("acceptedRoles").and_then(Value::as_array);
        let roles = roles.map(|roles| roles.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        roles.unwrap_or_else(|| vec!["admin".to_owned(), "member".to_owned()])
    }

    /// The Secret with all of it: the keys that Rook reads, and what else whoever runs the gateways must know.
    pub fn secret(&self, namespace: &str, deployment: &str, keystone: &Keystone) -> Object {
        let (url, roles) = (format!("{}/v3", keystone.url), self.roles().join(","));
        let known = [
            ("OS_AUTH_TYPE", "password"),
            ("OS_IDENTITY_API_VERSION", "3"),
            ("OS_AUTH_URL", &url),
            ("OS_USERNAME", USER),
            ("OS_PASSWORD", &keystone.password),
            ("OS_PROJECT_NAME", PROJECT),
            ("OS_PROJECT_DOMAIN_NAME", PROJECT),
            ("OS_USER_DOMAIN_NAME", PROJECT),
            ("rgw_keystone_accepted_roles", &roles),
        ];
        // The key that Rook reads an authority from.
        let authority = self.text("caBundle").map(|bundle| ("cabundle", bundle));
        let data = known.into_iter().chain(authority).map(|(key, value)| (key.to_owned(), value.to_owned()));
        let data: BTreeMap<String, String> = data.collect();
        Object { kind: Kind::Opaque, namespace: namespace.to_owned(), name: secret_name(deployment), data }
    }

    /// What is set in the `spec` of the `CephObjectStore` (`ObjectStoreSpec` of Rook's `ceph.rook.io/v1`).
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
            // The account in the URL is what Keystone's catalogue says, and what makes public containers work.
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
mod tests;
