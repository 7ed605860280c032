//! The settings of a cloud that the maintenance of nodes needs (crate `osdpl-maintenance`).

use std::collections::{BTreeMap, BTreeSet};

use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Component};
use crate::desired::role_labels;
use crate::observed::Labels;
use crate::openstack::Access;

/// The reason why nova cannot be queried without a cloud.
pub const NO_CLOUD: &str = "there is no OpenStackDeployment, so nova cannot be queried";

/// The cloud's settings for maintenance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloudSettings {
    /// Whether there is no cloud.
    pub absent: bool,
    /// The access to the cloud's APIs, if it is known.
    pub access: Option<Access>,
    /// Whether the cloud has Nova, even if the access is not known yet.
    pub has_nova: bool,
    /// The number of nodes of a role that may be in maintenance at once; the default is 1.
    pub limits: BTreeMap<String, u32>,
    /// The labels of each role.
    pub roles: BTreeMap<String, Labels>,
    /// The components with a quorum.
    pub quorum: BTreeSet<Component>,
    /// The component whose nodes are hosts in Nova.
    pub hosts: Option<Component>,
}

/// Derives the settings from a spec.
pub fn setting(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    access: Option<Access>,
    has_nova: bool,
) -> CloudSettings {
    let mut roles: BTreeMap<String, Labels> =
        catalog.roles.iter().map(|(name, role)| (name.clone(), role.labels.clone())).collect();
    roles.extend(spec.nodes.roles.iter().map(|(name, role)| (name.clone(), role_labels(name, role, catalog))));
    let releases = || catalog.services.values().flat_map(|service| service.releases.values());
    CloudSettings {
        absent: false,
        access,
        has_nova,
        limits: spec.nodes.maintenance.as_ref().map(|own| own.limits.clone()).unwrap_or_default(),
        roles,
        quorum: releases().flat_map(|release| release.quorum.iter().cloned()).collect(),
        hosts: releases().find_map(|release| Some(release.hosts.as_ref()?.component.clone())),
    }
}

impl CloudSettings {
    /// Returns the settings without a cloud.
    pub fn none() -> Self {
        Self { absent: true, ..Self::default() }
    }

    /// Returns the access to nova.
    ///
    /// # Errors
    /// There is no cloud, it has no nova, or its administrator is not known.
    pub fn nova(&self) -> Result<&Access, &'static str> {
        match &self.access {
            Some(access) if access.compute.is_some() => Ok(access),
            _ if self.absent => Err(NO_CLOUD),
            _ if self.has_nova => Err(
                "nova cannot be queried: the password of the cloud's administrator is not known yet (keystone's values, endpoints.identity.auth.admin)",
            ),
            _ => Err("the cloud's OpenStackDeployment has no nova"),
        }
    }

    /// Returns the roles of a node with these labels.
    pub fn roles_of(&self, labels: &Labels) -> BTreeSet<String> {
        let matches =
            |wanted: &Labels| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
        self.roles.iter().filter(|(_, wanted)| matches(wanted)).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_administrator_is_not_a_missing_nova() {
        let without_access = CloudSettings { has_nova: true, ..CloudSettings::default() };
        assert!(without_access.nova().is_err_and(|why| why.contains("password of the cloud's administrator")));
        assert!(CloudSettings::default().nova().is_err_and(|why| why.contains("has no nova")));
        assert_eq!(CloudSettings::none().nova(), Err(NO_CLOUD));
    }
}
