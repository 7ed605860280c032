//! Defines the inputs from which osdpl builds the layers of one release.

use super::{Facts, Selection, release_overrides};
use crate::api::{OpenStackDeploymentSpec, ReleaseOverrides};
use crate::catalog::{Catalog, Release};
use osdpl_values::expr::Scope;

/// The inputs from which osdpl builds the layers of one release.
pub(super) struct Source<'a> {
    pub spec: &'a OpenStackDeploymentSpec,
    pub catalog: &'a Catalog,
    pub selection: &'a Selection,
    pub facts: &'a Facts,
    pub service: &'a str,
    pub name: &'a str,
    pub release: &'a Release,
    /// The passwords that the user wrote into features in plain text; osdpl redacts values that contain them.
    pub passwords: &'a [String],
    pub scope: &'a Scope<'a>,
}

impl<'a> Source<'a> {
    /// Returns the settings of this release below `spec.services`; `None` if the spec has none.
    pub(super) fn own(&self) -> Option<&'a ReleaseOverrides> {
        release_overrides(self.spec, self.service, self.name)
    }
}
