//! Provides the catalogue of passes: the operator's own catalogue, with the additions in the namespace of the resource.
//!
//! If an addition becomes invalid, its last valid content stays in use. If an addition was already invalid when the
//! operator started, the operator does not know its valid content, but releases may use this content. So an error stops
//! all changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Context;
use super::memory::Memory;
use osdpl_core::catalog::{Addition, Catalog, ExtendedCatalog, LABEL, Level, RejectedAddition, extend_catalog};
use osdpl_core::files;
use osdpl_core::finding::Finding;

/// The location of findings that concern the whole catalogue, and not one ConfigMap that adds files to the catalogue.
const CATALOG_FIELD: &str = "the catalogue";

/// Holds the catalogue that passes use, and rebuilds the catalogue when additions change.
pub struct CatalogHandle {
    /// The folder of the operator's own catalogue; `None` if it is built in.
    folder: Option<PathBuf>,
    own: Arc<Catalog>,
    current: Mutex<Current>,
    /// The last catalogue that was built for the webhook, from additions that passes do not use yet. The operator keeps
    /// this catalogue, because the webhook validates every request and a build takes a while. After a restart, the
    /// operator builds the catalogue again.
    validation: Mutex<Option<Validation>>,
}

/// The catalogue that passes use.
struct Current {
    catalog: Arc<Catalog>,
    /// The additions that `catalog` was built from; `None` before they were listed.
    additions: Option<Vec<Addition>>,
    /// The last valid content of each addition, which stays in use after an invalid edit. If an addition is invalid
    /// when the operator starts, the operator does not know its valid content, and reports the addition as an error.
    valid: Vec<Addition>,
    /// The sources of the additions that have been invalid ever since the operator started.
    never_valid: BTreeSet<String>,
    findings: Vec<Finding>,
    /// The error that the operator can't list additions; `None` if it can.
    unknown: Option<Finding>,
}

/// The earlier content of the additions that this operator process has read.
#[derive(Clone, PartialEq)]
struct Previous {
    /// The last valid content of each addition.
    valid: Vec<Addition>,
    /// The sources of the additions that have been invalid ever since the operator started. `None` before the first
    /// list of additions.
    never_valid: Option<BTreeSet<String>>,
}

impl Current {
    fn previous(&self) -> Previous {
        let never_valid = self.additions.is_some().then(|| self.never_valid.clone());
        Previous { valid: self.valid.clone(), never_valid }
    }
}

/// A catalogue that was built for the webhook, with the inputs that it was built from.
struct Validation {
    additions: Vec<Addition>,
    previous: Previous,
    catalog: Arc<Catalog>,
    findings: Vec<Finding>,
}

impl CatalogHandle {
    /// Creates a handle with the operator's own catalogue, which was read from `folder`, or is built in (`None`).
    pub fn new(own: Catalog, folder: Option<PathBuf>) -> Self {
        let own = Arc::new(own);
        let current = Current {
            catalog: Arc::clone(&own),
            additions: None,
            valid: Vec::new(),
            never_valid: BTreeSet::new(),
            findings: Vec::new(),
            unknown: None,
        };
        Self { folder, own, current: Mutex::new(current), validation: Mutex::default() }
    }

    /// Returns the catalogue that passes use now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.current().catalog)
    }

    /// Returns the findings about the additions in the catalogue of passes.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let current = self.current();
        current.unknown.iter().chain(&current.findings).cloned().collect()
    }

    /// Sets the reason why the operator can't list additions; `None` if it can.
    fn set_unknown(&self, reason: Option<&str>) {
        self.current().unknown = reason.map(unknown_additions);
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn validation(&self) -> MutexGuard<'_, Option<Validation>> {
        self.validation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the catalogue that a pass would use with these additions, and the findings about these additions.
    ///
    /// `forbidden` is the message with which the API server forbade the list of additions, if it did.
    pub(super) async fn extended_with(
        &self,
        additions: Vec<Addition>,
        forbidden: Option<&str>,
    ) -> (Arc<Catalog>, Vec<Finding>) {
        let (catalog, findings) = self.validated(additions).await;
        (catalog, forbidden.map(unknown_additions).into_iter().chain(findings).collect())
    }

    async fn validated(&self, additions: Vec<Addition>) -> (Arc<Catalog>, Vec<Finding>) {
        let previous = {
            let current = self.current();
            if current.additions.as_ref() == Some(&additions) {
                return (Arc::clone(&current.catalog), current.findings.clone());
            }
            current.previous()
        };
        let is_same = |known: &&Validation| known.additions == additions && known.previous == previous;
        if let Some(Validation { catalog, findings, .. }) = self.validation().as_ref().filter(is_same) {
            return (Arc::clone(catalog), findings.clone());
        }
        let Built { catalog, findings, .. } = self.build(&additions, &previous).await;
        let validation = Validation { additions, previous, catalog: Arc::clone(&catalog), findings: findings.clone() };
        *self.validation() = Some(validation);
        (catalog, findings)
    }

    /// Builds the catalogue on a separate thread, because the build would block other tasks for a while.
    async fn build(&self, additions: &[Addition], previous: &Previous) -> Built {
        let (folder, own) = (self.folder.clone(), Arc::clone(&self.own));
        let (additions, previous) = (additions.to_vec(), previous.clone());
        let built = tokio::task::spawn_blocking(move || build(folder.as_deref(), &own, &additions, &previous));
        built.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    }

    /// If the additions have changed, rebuilds the catalogue that passes use, and returns `true`.
    async fn update(&self, additions: Vec<Addition>) -> bool {
        let previous = {
            let mut current = self.current();
            if current.additions.as_ref().map_or(additions.is_empty(), |known| *known == additions) {
                current.additions = Some(additions);
                return false;
            }
            current.previous()
        };
        let Built { catalog, valid, never_valid, findings } = self.build(&additions, &previous).await;
        for finding in &findings {
            tracing::warn!(%finding, "an addition to the catalogue is invalid");
        }
        tracing::info!(files = catalog.added.len(), "updated the catalogue");
        *self.current() = Current { catalog, additions: Some(additions), valid, never_valid, findings, unknown: None };
        true
    }
}

/// The result of building a catalogue with additions.
struct Built {
    catalog: Arc<Catalog>,
    /// The additions that `catalog` contains.
    valid: Vec<Addition>,
    /// The sources of the additions that have been invalid ever since the operator started.
    never_valid: BTreeSet<String>,
    findings: Vec<Finding>,
}

/// Builds the catalogue with additions. If an addition is invalid, the catalogue contains its last valid content, if
/// that is known.
fn build(folder: Option<&Path>, own: &Arc<Catalog>, additions: &[Addition], previous: &Previous) -> Built {
    let without_additions =
        |findings| Built { catalog: Arc::clone(own), valid: Vec::new(), never_valid: BTreeSet::new(), findings };
    if additions.is_empty() {
        return without_additions(Vec::new());
    }
    let base = match files::read_files(folder) {
        Ok(base) => base,
        Err(error) => return without_additions(vec![catalog_warning(&error.to_string())]),
    };
    let first = match extend_catalog(&base, additions) {
        Ok(first) => first,
        Err(errors) => return without_additions(vec![catalog_warning(&errors.to_string())]),
    };
    let is_rejected =
        |rejected: &[RejectedAddition], addition: &Addition| rejected.iter().any(|one| one.source == addition.source);
    let used = additions.iter().filter_map(|addition| {
        if is_rejected(&first.rejected, addition) {
            previous.valid.iter().find(|known| known.source == addition.source).cloned()
        } else {
            Some(addition.clone())
        }
    });
    let used: Vec<Addition> = used.collect();
    let has_previous = |rejected: &RejectedAddition| previous.valid.iter().any(|known| known.source == rejected.source);
    let was_never_valid = |rejected: &RejectedAddition| {
        previous.never_valid.as_ref().is_none_or(|never_valid| never_valid.contains(&rejected.source))
    };
    let finding =
        |rejected: &RejectedAddition| rejected_addition(rejected, has_previous(rejected), was_never_valid(rejected));
    let findings: Vec<Finding> = first.rejected.iter().map(finding).collect();
    let never_valid = first.rejected.iter().filter(|rejected| !has_previous(rejected) && was_never_valid(rejected));
    let never_valid = never_valid.map(|rejected| rejected.source.clone()).collect();
    let second = if first.rejected.iter().any(has_previous) { extend_catalog(&base, &used).ok() } else { None };
    let ExtendedCatalog { catalog, rejected, .. } = second.unwrap_or(first);
    let valid = used.into_iter().filter(|addition| !is_rejected(&rejected, addition)).collect();
    Built { catalog: Arc::new(catalog), valid, never_valid, findings }
}

/// Returns the finding about an invalid addition.
fn rejected_addition(rejected: &RejectedAddition, has_previous: bool, was_never_valid: bool) -> Finding {
    let (level, effect) = match (has_previous, was_never_valid) {
        (true, _) => (Level::Warning, "its previous content is used until it is corrected"),
        (false, false) => (Level::Warning, "it is ignored until it is corrected"),
        // An error stops all changes: releases may use the earlier content of the addition, and an upgrade would remove
        // its values.
        (false, true) => (
            Level::Error,
            "its content before the operator started is not known, so that nothing is changed until it is corrected \
             or deleted",
        ),
    };
    let message = format!("{}; {effect}", rejected.message.replace('\n', "; "));
    Finding::new(level, &rejected.source, message)
}

/// Returns the finding for the case that the operator can't list additions: an error.
///
/// The error stops all changes: releases may use additions, and an upgrade without the additions would remove their
/// values.
fn unknown_additions(reason: &str) -> Finding {
    let message = format!(
        "the catalogue: ConfigMaps with the label {LABEL} can't be listed, so that additions are not known: {reason}; \
         nothing is changed until the operator may list and watch them"
    );
    Finding::new(Level::Error, CATALOG_FIELD, message)
}

fn catalog_warning(message: &str) -> Finding {
    Finding::new(Level::Warning, CATALOG_FIELD, message)
}

impl Context {
    /// Returns the catalogue that passes use now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.catalog()
    }

    /// Updates the catalogue with the additions in the resource's namespace; returns `false` if the watch has not
    /// listed the additions yet.
    pub(super) async fn update_catalog(&self, namespace: &str, memory: &mut Memory) -> bool {
        let Some(additions) = self.inputs.additions(namespace) else { return false };
        let forbidden = self.inputs.additions_forbidden();
        self.catalog.set_unknown(forbidden.as_deref());
        if forbidden.is_some() {
            return true;
        }
        if self.catalog.update(additions).await {
            memory.kept.resolved = None;
            memory.kept.changes.clear();
        }
        true
    }
}

#[cfg(test)]
mod tests;
