//! Adoption of releases that osdpl did not install: how they compare with the desired state, and the spec that
//! describes such a cloud.
//!
//! Pure module (no I/O). A revision made by hand, by Ansible or by another operator equals the desired state if an
//! upgrade would change nothing: the chart is the same, and so are the values, including the chart's defaults.

mod candidates;
mod ceph;
mod compare;
mod default_credentials;
mod describe;
mod fit;
mod identify;
mod openstack;
mod overrides;
mod owner;

pub use ceph::{CephDeclaration, CephState, CephUse, CephUses, find_ceph_uses};
pub use compare::{Comparison, compare_release};
pub use default_credentials::{DefaultCredentials, find_default_credentials};
pub use describe::{CloudInventory, Description, FactProvider, SecretContent, Secrets};
pub use identify::{IdentifiedReleases, InstalledRelease, identify_releases, main_namespace};
pub use owner::find_other_controller;

#[cfg(test)]
mod tests;
