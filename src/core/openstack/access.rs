//! Determines how osdpl reaches the OpenStack APIs of a cloud: their URLs, the administrator's credentials, and when a
//! token expires.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::Api;
use crate::catalog::{Catalog, Endpoint};
use crate::desired::Desired;
use crate::endpoint::{Login, Url, internal};
use crate::observed::ReleaseKey;
use osdpl_values::Values;

/// The service types of Nova's and Neutron's APIs, as OpenStack's Service Types Authority defines them. The field
/// [`Endpoint::endpoint`] contains the service type of an API.
const COMPUTE: &str = "compute";
const NETWORK: &str = "network";

/// The URLs at which programs in the Kubernetes cluster reach the cloud's OpenStack APIs, and the administrator's
/// login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The login (user, project and password) of the cloud's administrator in Keystone.
    pub login: Login,
    /// The URL of Keystone's API, version 3.
    pub identity: Url,
    /// The URL of Nova's API; `None` if the cloud has no Nova.
    pub compute: Option<Url>,
    /// The URL of Neutron's API; `None` if the cloud has no Neutron, or if [`recorded_access`] determined the URLs.
    pub network: Option<Url>,
}

impl Access {
    /// Returns the URL of an API; `None` if the cloud does not have the API, or if [`recorded_access`] did not
    /// determine its URL.
    pub fn url(&self, api: Api) -> Option<&Url> {
        match api {
            Api::Compute => self.compute.as_ref(),
            Api::Network => self.network.as_ref(),
        }
    }
}

/// Returns the URLs of the desired cloud's APIs, and the administrator's login, from the values of the desired
/// releases.
///
/// Returns `None` if the cloud has no Keystone, or if Keystone's values do not contain the administrator's password
/// yet.
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

/// Returns the URLs of Keystone and Nova in an installed cloud, and the administrator's login, from the values in
/// helm's records. `recorded` maps each release's name in the catalogue to the release's namespace and name in helm,
/// and to the values in helm's newest record of the release.
///
/// Returns `None` if Keystone's or Nova's values are missing, or if Keystone's values do not contain the
/// administrator's password.
pub fn recorded_access(catalog: &Catalog, recorded: &BTreeMap<&str, (&ReleaseKey, &Values)>) -> Option<Access> {
    let of = |is_wanted: fn(&Endpoint) -> bool| {
        recorded.iter().find_map(|(name, (key, values))| {
            let endpoint = catalog.release(name)?.1.endpoint.as_ref().filter(|endpoint| is_wanted(endpoint))?;
            Some((internal(endpoint, values, &key.namespace), *values))
        })
    };
    let (identity, keystone) = of(|endpoint| endpoint.keystone)?;
    let (compute, _) = of(is_compute)?;
    Some(Access { login: Login::from_values(keystone)?, identity, compute: Some(compute), network: None })
}

/// Whether an endpoint in the catalogue is Nova's API.
pub fn is_compute(endpoint: &Endpoint) -> bool {
    endpoint.endpoint == COMPUTE
}

/// Whether the desired cloud has Nova. Unlike [`access`], this function does not need the administrator's password.
pub fn has_nova(catalog: &Catalog, desired: &Desired) -> bool {
    let names = desired.releases.keys().filter_map(|name| catalog.release(name)?.1.endpoint.as_ref());
    names.into_iter().any(is_compute)
}

/// Returns when a Keystone token expires; `None` if `body` contains no valid time.
///
/// `body` is the body of Keystone's response that contains the token. The field `token.expires_at` in `body` contains
/// the time (Identity API v3).
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
