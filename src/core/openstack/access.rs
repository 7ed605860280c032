//! Where the APIs are, and as whom they are asked.

use super::Api;
use crate::catalog::Catalog;
use crate::desired::Desired;
use crate::endpoint::{Login, Url, internal};

/// The types of services in the catalogue's `endpoint`, which are Keystone's (Service Types Authority).
const COMPUTE: &str = "compute";
const NETWORK: &str = "network";

/// Where the cloud's own APIs are, inside the cluster, and as whom they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The cloud's administrator.
    pub login: Login,
    /// Keystone's version 3.
    pub identity: Url,
    /// Nova, where it is part of the cloud.
    pub compute: Option<Url>,
    /// Neutron, where it is part of the cloud.
    pub network: Option<Url>,
}

impl Access {
    /// Where an API is.
    pub fn url(&self, api: Api) -> Option<&Url> {
        match api {
            Api::Compute => self.compute.as_ref(),
            Api::Network => self.network.as_ref(),
        }
    }
}

/// How to get at the APIs of a wanted cloud; `None` where it has no Keystone, or no administrator yet.
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
        login: Login::of(&keystone.values)?,
        identity: internal(identity, &keystone.values, &keystone.key.namespace),
        compute: of(COMPUTE),
        network: of(NETWORK),
    })
}

/// Whether a wanted cloud has Nova, though it may not be known yet how to get at it.
pub fn has_nova(catalog: &Catalog, desired: &Desired) -> bool {
    let names = desired.releases.keys().filter_map(|name| catalog.release(name)?.1.endpoint.as_ref());
    names.into_iter().any(|endpoint| endpoint.endpoint == COMPUTE)
}
