//! Prepares the adoption of clouds whose releases osdpl did not install.
//!
//! osdpl compares the installed releases with the desired state, and searches for the spec that describes the cloud. An
//! installed release matches the desired state if an upgrade would change neither its chart nor its values (the
//! overrides merged with the chart's defaults). It does not matter who installed the release: a person, Ansible or
//! another operator.
//!
//! Pure module (no I/O).

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
