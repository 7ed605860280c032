//! Provides the catalogue that passes use: the operator's own catalogue, with the additions that the resource names.
//!
//! The pass refuses the spec if an addition is missing or invalid, or if its content does not match the digest that the
//! spec gives for it. Otherwise, an upgrade could remove the values that a release got from the addition's earlier
//! content.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Context;
use super::memory::Memory;
use kube::ResourceExt as _;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{
    Addition, Catalog, ExtendedCatalog, Level, NamedAdditions, RejectedAddition, extend_catalog,
};
use osdpl_core::files;
use osdpl_core::finding::Finding;

/// The location of a finding that concerns the whole catalogue, and not a single addition.
const CATALOG_FIELD: &str = "the catalogue";

/// A catalogue, and the findings about the additions to it.
pub type CatalogWithFindings = (Arc<Catalog>, Vec<Finding>);

/// A function that builds a catalogue, and returns it with the findings about its additions. The build takes CPU time,
/// so the webhook runs this function on the webhook's own thread.
pub type CatalogBuild = Box<dyn FnOnce() -> CatalogWithFindings + Send>;

/// Contains the catalogue that passes use, and rebuilds the catalogue when additions change.
pub struct CatalogHandle {
    /// The folder of the operator's own catalogue; `None` if it is built in.
    folder: Option<PathBuf>,
    own: Arc<Catalog>,
    /// The catalogue that passes use, and the findings about its additions.
    ///
    /// Kept because a build in each pass would take too long. After a restart, the first pass waits for the additions
    /// and builds the catalogue again.
    current: Mutex<(Arc<Built>, Vec<Finding>)>,
    /// The catalogue that the webhook last built to validate a resource. Passes do not use its additions yet. The
    /// operator keeps this catalogue, because a build for each request would take too long. After a restart, the
    /// operator builds it again.
    validation: Mutex<Option<Arc<Built>>>,
}

/// A catalogue, and the additions from which osdpl built it.
struct Built {
    catalog: Arc<Catalog>,
    /// The additions that osdpl built the catalogue from.
    additions: Vec<Addition>,
    /// The additions that osdpl left out, with their errors. `Err` means that osdpl left out all additions, and says
    /// why.
    rejected: Result<Vec<RejectedAddition>, String>,
}

impl Built {
    /// Returns the errors about the additions in `named`: those that osdpl could not read, and those that it left out
    /// of the catalogue.
    fn findings(&self, named: &NamedAdditions) -> Vec<Finding> {
        let mut findings = named.errors.clone();
        match &self.rejected {
            Ok(rejected) => findings.extend(named.rejected_errors(rejected)),
            Err(error) => findings.push(Finding::new(Level::Error, CATALOG_FIELD, error)),
        }
        findings
    }
}

impl CatalogHandle {
    /// Creates a handle with the operator's own catalogue. `folder` is the folder from which the operator read this
    /// catalogue; `None` if the catalogue is built in.
    pub fn new(own: Catalog, folder: Option<PathBuf>) -> Self {
        let own = Arc::new(own);
        let built = Built { catalog: Arc::clone(&own), additions: Vec::new(), rejected: Ok(Vec::new()) };
        Self { folder, own, current: Mutex::new((Arc::new(built), Vec::new())), validation: Mutex::default() }
    }

    /// Returns the catalogue that passes use now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.current().0.catalog)
    }

    /// Returns the findings about the additions that the spec names, including the additions that osdpl rejected.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.current().1.clone()
    }

    fn current(&self) -> MutexGuard<'_, (Arc<Built>, Vec<Finding>)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn validation(&self) -> MutexGuard<'_, Option<Arc<Built>>> {
        self.validation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the catalogue that a pass would use with the additions `named`, and the findings about the additions.
    ///
    /// The function may have to build the catalogue, which takes a while. So do not call it on a thread of the async
    /// runtime.
    pub(super) fn extended_with(&self, named: &NamedAdditions) -> CatalogWithFindings {
        let current = Arc::clone(&self.current().0);
        let mut known = [Some(current), self.validation().clone()].into_iter().flatten();
        let built = match known.find(|known| known.additions == named.additions) {
            Some(known) => known,
            None => Arc::new(build(self.folder.as_deref(), &self.own, named.additions.clone())),
        };
        *self.validation() = Some(Arc::clone(&built));
        (Arc::clone(&built.catalog), named.missing_errors().chain(built.findings(named)).collect())
    }

    /// Builds the catalogue on a separate thread, because the build would block other tasks for a while.
    async fn build(&self, additions: &[Addition]) -> Arc<Built> {
        let (folder, own, additions) = (self.folder.clone(), Arc::clone(&self.own), additions.to_vec());
        let built = tokio::task::spawn_blocking(move || build(folder.as_deref(), &own, additions));
        Arc::new(built.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic())))
    }

    /// If the additions have changed, rebuilds the catalogue that passes use, and returns `true`. In any case, updates
    /// the findings about the additions.
    ///
    /// While the resource is being deleted, a missing addition is no error: the user can delete the `ConfigMap` of the
    /// addition together with the resource.
    async fn update(&self, named: &NamedAdditions, is_deleting: bool) -> bool {
        let current = Arc::clone(&self.current().0);
        let is_changed = current.additions != named.additions;
        let built = if is_changed { self.build(&named.additions).await } else { current };
        let missing = named.missing_errors().filter(|_| !is_deleting);
        let findings: Vec<Finding> = missing.chain(built.findings(named)).collect();
        if is_changed {
            tracing::info!(files = built.catalog.added.len(), "updated the catalogue");
        }
        let mut current = self.current();
        if current.1 != findings {
            for finding in &findings {
                tracing::warn!(%finding, "osdpl can't use an addition to the catalogue");
            }
        }
        *current = (built, findings);
        is_changed
    }
}

/// Builds the catalogue with additions.
fn build(folder: Option<&Path>, own: &Arc<Catalog>, additions: Vec<Addition>) -> Built {
    let without_additions = |rejected| (Arc::clone(own), rejected);
    let (catalog, rejected) = if additions.is_empty() {
        without_additions(Ok(Vec::new()))
    } else {
        let base = files::read_files(folder).map_err(|error| error.to_string());
        match base.and_then(|base| extend_catalog(&base, &additions).map_err(|errors| errors.to_string())) {
            Ok(ExtendedCatalog { catalog, rejected, .. }) => (Arc::new(catalog), Ok(rejected)),
            Err(error) => without_additions(Err(error)),
        }
    };
    Built { catalog, additions, rejected }
}

impl Context {
    /// Returns the catalogue that passes use now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.catalog()
    }

    /// Updates the catalogue with the additions that the resource names; returns `false` if the watches have not
    /// reported the additions yet.
    pub(super) async fn update_catalog(&self, deployment: &OpenStackDeployment, memory: &mut Memory) -> bool {
        let namespace = deployment.namespace().unwrap_or_default();
        let Some(named) = self.inputs.additions(&namespace, &deployment.spec.catalog) else { return false };
        if self.catalog.update(&named, deployment.metadata.deletion_timestamp.is_some()).await {
            memory.kept.forget_catalog();
        }
        true
    }
}

#[cfg(test)]
mod tests;
