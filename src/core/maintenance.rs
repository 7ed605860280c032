//! Derives, from a cloud's spec and the catalogue, the settings that the crate `osdpl-maintenance` needs for the
//! maintenance of nodes (the resource `NodeMaintenance`).

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Component};
use crate::desired::role_labels;
use crate::observed::Labels;
use crate::openstack::Access;

/// The error when osdpl needs Nova, but the cluster has no OpenStackDeployment.
pub const NO_CLOUD: &str = "there is no OpenStackDeployment, so osdpl cannot query Nova";

/// The settings of a cloud that osdpl needs for the maintenance of the cloud's nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloudSettings {
    /// Whether the cluster has no OpenStackDeployment. If so, all other settings are empty.
    pub absent: bool,
    /// The URLs and credentials of the cloud's APIs; `None` while osdpl does not know them.
    pub access: Option<Access>,
    /// Whether Nova is part of the cloud; valid even while `access` is `None`.
    pub has_nova: bool,
    /// For each role, the maximum number of nodes with this role that may be in maintenance at the same time; 1 for a
    /// role without an entry.
    pub limits: BTreeMap<String, u32>,
    /// The node labels that each role sets, by the role's name.
    pub roles: BTreeMap<String, Labels>,
    /// The components that need a quorum, such as a database: more than half of the component's pods must stay ready
    /// when osdpl evicts the pods of a node.
    pub quorum: BTreeSet<Component>,
    /// The component that runs a pod on each of Nova's hypervisors, such as `nova/compute`. osdpl uses it to find out
    /// whether a node can host instances. `None` if the catalogue names no such component.
    pub hosts: Option<Component>,
}

/// Derives the settings for the maintenance of a cloud's nodes from the cloud's spec and the catalogue.
pub fn setting(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    access: Option<Access>,
    has_nova: bool,
) -> CloudSettings {
    let mut roles: BTreeMap<String, Labels> =
        catalog.roles.iter().map(|(name, role)| (name.clone(), role.labels.clone())).collect_map();
    roles.extend(spec.nodes.roles.iter().map(|(name, role)| (name.clone(), role_labels(name, role, catalog))));
    let releases = || catalog.services.values().flat_map(|service| service.releases.values());
    CloudSettings {
        absent: false,
        access,
        has_nova,
        limits: spec.nodes.maintenance.as_ref().map(|own| own.limits.clone()).unwrap_or_default(),
        roles,
        quorum: releases().flat_map(|release| release.quorum.iter().cloned()).collect_set(),
        hosts: releases().find_map(|release| Some(release.hosts.as_ref()?.component.clone())),
    }
}

impl CloudSettings {
    /// Returns the settings for a cluster without an OpenStackDeployment.
    pub fn none() -> Self {
        Self { absent: true, ..Self::default() }
    }

    /// Returns the URLs and credentials of the cloud's APIs. The result always includes the URL of Nova's API.
    ///
    /// # Errors
    /// Returns a message if there is no OpenStackDeployment, if the cloud does not include Nova, or while the
    /// administrator's password is not known.
    pub fn nova(&self) -> Result<&Access, &'static str> {
        match &self.access {
            Some(access) if access.compute.is_some() => Ok(access),
            _ if self.absent => Err(NO_CLOUD),
            _ if self.has_nova => Err(
                "osdpl cannot query Nova: the password of the cloud's administrator is not known yet (endpoints.identity.auth.admin in Keystone's values)",
            ),
            _ => Err("the cloud's OpenStackDeployment does not include Nova"),
        }
    }

    /// Returns the names of the roles of a node with the labels `labels`. A node has a role if it has all labels that
    /// the role sets. No node has a role that sets no labels.
    pub fn roles_of(&self, labels: &Labels) -> BTreeSet<String> {
        let matches =
            |wanted: &Labels| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
        self.roles.iter().filter(|(_, wanted)| matches(wanted)).map(|(name, _)| name.clone()).collect_set()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_administrator_is_not_a_missing_nova() {
        let without_access = CloudSettings { has_nova: true, ..CloudSettings::default() };
        assert!(without_access.nova().is_err_and(|why| why.contains("password of the cloud's administrator")));
        assert!(CloudSettings::default().nova().is_err_and(|why| why.contains("does not include Nova")));
        assert_eq!(CloudSettings::none().nova(), Err(NO_CLOUD));
    }
}
