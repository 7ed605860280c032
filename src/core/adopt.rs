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
mod inventory;
mod openstack;
mod overrides;
mod owner;

pub use ceph::{CephDeclaration, CephState, CephUse, CephUses, find_ceph_uses};
pub use compare::{Comparison, compare_release};
pub use default_credentials::{DefaultCredentials, find_default_credentials};
pub use describe::Description;
pub use identify::{IdentifiedReleases, InstalledRelease, identify_releases, main_namespace};
pub use inventory::{CloudInventory, FactProvider};
pub use owner::find_other_controller;

use std::collections::BTreeMap;

use serde_json::Value;

use osdpl_values::{Values, yaml};

/// The Secrets to which the spec refers. Maps the name of each Secret to its keys, and each key to its content.
pub type Secrets = BTreeMap<String, BTreeMap<String, SecretContent>>;

/// The content of one key of a Secret that the spec references. The content can be secret.
#[derive(Clone, PartialEq)]
pub enum SecretContent {
    /// The text of a credential or of a Ceph key.
    Text(String),
    /// A setting that is not secret, such as an address or a user name. It is in a Secret because the Secret's other
    /// keys contain secrets.
    Open(String),
    /// Helm values of a release, which the Secret stores as YAML under the key `values.yaml`.
    Values(Values),
}

impl SecretContent {
    /// Returns the content as the text that the Secret stores.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Open(text) => text.clone(),
            Self::Values(values) => yaml::write(&Value::Object(values.clone())),
        }
    }
}

#[cfg(test)]
mod tests;
