//! The URLs of the APIs, the credentials, and the lifetime of tokens.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::Api;
use crate::catalog::Catalog;
use crate::desired::Desired;
use crate::endpoint::{Login, Url, internal};

/// The service types in the catalogue's `endpoint`, as registered in Keystone (Service Types Authority).
const COMPUTE: &str = "compute";
const NETWORK: &str = "network";

/// The URLs of the cloud's APIs inside of the cluster, and the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The administrator's credentials.
    pub login: Login,
    /// Version 3 of Keystone's API.
    pub identity: Url,
    /// Nova; `None` if the cloud has none.
    pub compute: Option<Url>,
    /// Neutron; `None` if the cloud has none.
    pub network: Option<Url>,
}

impl Access {
    /// Returns the URL of an API.
    pub fn url(&self, api: Api) -> Option<&Url> {
        match api {
            Api::Compute => self.compute.as_ref(),
            Api::Network => self.network.as_ref(),
        }
    }
}

/// Returns the access to the APIs of the desired cloud; `None` if it has no Keystone or no administrator yet.
pub fn access(catalog: &Catalog, desired: &Desired) -> Option<Access> {
    let all = || {
        desired.releases.iter().filter_map(|(name, release)| {
            let endpoint = catalog.release(name)?.1.endpoint.as_ref()?;
            Some((endpoint, release))
        })
    };
    let of = |kind: &str| {
        let (endpoint, release) = all().find(|(endpoint, _)| endpoint.endpoint == kind)?;
        Some(internal(endpoint, &release.values, &release.key.namespace))
    };
    let (identity, keystone) = all().find(|(endpoint, _)| endpoint.keystone)?;
    Some(Access {
        login: Login::from_values(&keystone.values)?,
        identity: internal(identity, &keystone.values, &keystone.key.namespace),
        compute: of(COMPUTE),
        network: of(NETWORK),
    })
}

/// Whether the desired cloud has Nova, even if its access is not known yet.
pub fn has_nova(catalog: &Catalog, desired: &Desired) -> bool {
    let names = desired.releases.keys().filter_map(|name| catalog.release(name)?.1.endpoint.as_ref());
    names.into_iter().any(|endpoint| endpoint.endpoint == COMPUTE)
}

/// Returns the expiry time of a token from its response body, if present (Identity API v3: `token.expires_at`).
pub fn token_expiry(body: &[u8]) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Document {
        token: Token,
    }
    #[derive(Deserialize)]
    struct Token {
        expires_at: String,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    document.token.expires_at.parse().ok()
}
