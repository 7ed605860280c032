//! What the cloud says of maintenance.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Component};
use crate::desired::role_labels;
use crate::observed::Labels;
use crate::openstack::Access;

/// What is said before it is known what the cloud says.
pub const UNREAD: &str = "the cloud's OpenStackDeployment has not been read yet, or is refused (see its status)";

/// Why nova can't be asked where there is no cloud.
pub(super) const NO_CLOUD: &str = "there is no OpenStackDeployment whose nova could be asked";

/// What the cloud says of maintenance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// Whether there is no cloud at all.
    pub absent: bool,
    /// How to get at the cloud's APIs, where it has them.
    pub access: Option<Access>,
    /// Whether it has Nova, though it may not be known yet how to get at it.
    pub has_nova: bool,
    /// How many nodes of a role may be in maintenance at once, where it is not 1.
    pub limits: BTreeMap<String, u32>,
    /// The labels of each role.
    pub roles: BTreeMap<String, Labels>,
    /// Components that keep a quorum.
    pub quorum: BTreeSet<Component>,
    /// The component whose nodes nova knows as hosts.
    pub hosts: Option<Component>,
}

/// What a spec means for maintenance.
pub fn setting(spec: &OpenStackDeploymentSpec, catalog: &Catalog, access: Option<Access>, has_nova: bool) -> Setting {
    let mut roles: BTreeMap<String, Labels> =
        catalog.roles.iter().map(|(name, role)| (name.clone(), role.labels.clone())).collect();
    roles.extend(spec.nodes.roles.iter().map(|(name, role)| (name.clone(), role_labels(name, role, catalog))));
    let releases = || catalog.services.values().flat_map(|service| service.releases.values());
    Setting {
        absent: false,
        access,
        has_nova,
        limits: spec.nodes.maintenance.as_ref().map(|own| own.limits.clone()).unwrap_or_default(),
        roles,
        quorum: releases().flat_map(|release| release.quorum.iter().cloned()).collect(),
        hosts: releases().find_map(|release| Some(release.hosts.as_ref()?.component.clone())),
    }
}

impl Setting {
    /// What is said where there is no cloud.
    pub fn none() -> Self {
        Self { absent: true, ..Self::default() }
    }

    /// How nova is asked, or why it can't be.
    ///
    /// # Errors
    /// When there is no cloud, no nova in it, or no administrator known.
    pub fn nova(&self) -> Result<&Access, &'static str> {
        match &self.access {
            Some(access) if access.compute.is_some() => Ok(access),
            _ if self.absent => Err(NO_CLOUD),
            _ if self.has_nova => Err(
                "nova can't be asked before the password of the cloud's administrator is known (keystone's values, endpoints.identity.auth.admin)",
            ),
            _ => Err("the cloud's OpenStackDeployment has no nova that could be asked"),
        }
    }

    /// The roles that a node of these labels plays.
    pub fn roles_of(&self, labels: &Labels) -> BTreeSet<String> {
        let plays =
            |wanted: &Labels| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
        self.roles.iter().filter(|(_, wanted)| plays(wanted)).map(|(name, _)| name.clone()).collect()
    }
}
