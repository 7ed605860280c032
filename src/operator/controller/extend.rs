//! The catalogue that passes go by: the operator's own, with what `ConfigMap`s beside the resource add to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Context;
use super::memory::Memory;
use osdpl_core::catalog::{Addition, Catalog, ExtendedCatalog, LABEL, Level, RejectedAddition, extend_catalog};
use osdpl_core::desired::Finding;
use osdpl_core::files;

/// The catalogue, its own part and the whole.
pub struct Book {
    /// Where the operator's own part is; built in where `None`.
    folder: Option<PathBuf>,
    own: Arc<Catalog>,
    now: Mutex<Now>,
    whole: watch::Sender<Arc<Catalog>>,
    /// What was asked for last beside what passes go by.
    aside: Mutex<Option<Aside>>,
}

/// A catalogue beside that of passes, and what it was made from.
struct Aside {
    heard: Vec<Addition>,
    before: Before,
    whole: Arc<Catalog>,
    findings: Vec<Finding>,
}

/// What was right before, and the places that never were; all that are wrong where `None`, because nothing was heard.
type Before = (Vec<Addition>, Option<BTreeSet<String>>);

#[derive(Default)]
struct Now {
    /// What it was made from; `None` before anything was heard.
    heard: Option<Vec<Addition>>,
    /// The places of which the operator, since it started, has known nothing that was right: what releases have from them may be gone with it.
    suspect: BTreeSet<String>,
    /// What of that was right when it was last told: it goes on where a later edit is wrong.
    good: Vec<Addition>,
    findings: Vec<Finding>,
    /// That nothing can be heard, and why.
    unknown: Option<Finding>,
}

impl Now {
    fn before(&self) -> Before {
        (self.good.clone(), self.heard.is_some().then(|| self.suspect.clone()))
    }
}

impl Book {
    /// The operator's own catalogue, and the folder that it was read from.
    pub fn new(own: Catalog, folder: Option<PathBuf>) -> Self {
        let own = Arc::new(own);
        let whole = watch::Sender::new(Arc::clone(&own));
        Self { folder, own, now: Mutex::default(), whole, aside: Mutex::default() }
    }

    /// The whole, as it is now.
    pub fn whole(&self) -> Arc<Catalog> {
        Arc::clone(&self.whole.borrow())
    }

    /// What is wrong with what was added.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let now = self.now();
        now.unknown.iter().chain(&now.findings).cloned().collect()
    }

    /// Takes in that it is not known what is added, and why: releases may run by that, and would lose it, so that nothing is changed.
    fn doubt(&self, why: Option<&str>) {
        self.now().unknown = why.map(unknown);
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The whole with these additions, beside what passes go by, and what is wrong with them: where one is, what was right of it before goes on, as
    /// passes will go on with it. That nothing is known of what is added, and why (`refused`), comes first.
    async fn with(&self, heard: Vec<Addition>, refused: Option<&str>) -> (Arc<Catalog>, Vec<Finding>) {
        let (whole, findings) = self.aside_with(heard).await;
        (whole, refused.map(unknown).into_iter().chain(findings).collect())
    }

    async fn aside_with(&self, heard: Vec<Addition>) -> (Arc<Catalog>, Vec<Finding>) {
        let before = {
            let now = self.now();
            if now.heard.as_ref() == Some(&heard) {
                return (self.whole(), now.findings.clone());
            }
            now.before()
        };
        let is_same = |aside: &&Aside| aside.heard == heard && aside.before == before;
        if let Some(Aside { whole, findings, .. }) = self.aside().as_ref().filter(is_same) {
            return (Arc::clone(whole), findings.clone());
        }
        let Made { whole, findings, .. } = self.made(&heard, &before).await;
        *self.aside() = Some(Aside { heard, before, whole: Arc::clone(&whole), findings: findings.clone() });
        (whole, findings)
    }

    /// Reading a whole catalogue takes a while: not on the thread that others wait for.
    async fn made(&self, heard: &[Addition], before: &Before) -> Made {
        let (folder, own) = (self.folder.clone(), Arc::clone(&self.own));
        let (all, (good, suspect)) = (heard.to_vec(), before.clone());
        let made = tokio::task::spawn_blocking(move || {
            made(folder.as_deref(), &own, &Heard { all: &all, good: &good, suspect: suspect.as_ref() })
        });
        made.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    }

    fn aside(&self) -> std::sync::MutexGuard<'_, Option<Aside>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what is added by now; returns whether that was news.
    async fn take(&self, heard: Vec<Addition>) -> bool {
        let before = {
            let mut now = self.now();
            if now.heard.as_ref().map_or(heard.is_empty(), |known| *known == heard) {
                now.heard = Some(heard);
                return false;
            }
            now.before()
        };
        let Made { whole, good, suspect, findings } = self.made(&heard, &before).await;
        for finding in &findings {
            tracing::warn!(%finding, "what is added to the catalogue is not taken");
        }
        tracing::info!(files = whole.added.len(), "the catalogue was read again");
        *self.now() = Now { heard: Some(heard), suspect, good, findings, unknown: None };
        self.whole.send_replace(whole);
        true
    }
}

/// What a catalogue is made from beside the operator's own part.
struct Heard<'a> {
    /// As it is now.
    all: &'a [Addition],
    /// What was right of it before.
    good: &'a [Addition],
    /// The places that were never right; every one that is wrong where `None`, because nothing was heard before.
    suspect: Option<&'a BTreeSet<String>>,
}

/// What becomes of it.
struct Made {
    whole: Arc<Catalog>,
    good: Vec<Addition>,
    suspect: BTreeSet<String>,
    findings: Vec<Finding>,
}

/// The whole of it. Where an addition is wrong what was right of it before is taken.
fn made(folder: Option<&Path>, own: &Arc<Catalog>, heard: &Heard<'_>) -> Made {
    let alone = |findings| Made { whole: Arc::clone(own), good: Vec::new(), suspect: BTreeSet::new(), findings };
    if heard.all.is_empty() {
        return alone(Vec::new());
    }
    let base = match files::read_files(folder) {
        Ok(base) => base,
        Err(error) => return alone(vec![warning("the catalogue", &error.to_string())]),
    };
    let first = match extend_catalog(&base, heard.all) {
        Ok(first) => first,
        Err(errors) => return alone(vec![warning("the catalogue", &errors.to_string())]),
    };
    let is_refused =
        |refused: &[RejectedAddition], addition: &Addition| refused.iter().any(|one| one.source == addition.source);
    let before = |addition: &Addition| heard.good.iter().find(|known| known.source == addition.source);
    let instead = heard.all.iter().filter_map(|addition| {
        if is_refused(&first.rejected, addition) { before(addition).cloned() } else { Some(addition.clone()) }
    });
    let instead: Vec<Addition> = instead.collect();
    let stands = |refused: &RejectedAddition| heard.good.iter().any(|known| known.source == refused.source);
    let is_suspect = |refused: &RejectedAddition| heard.suspect.is_none_or(|suspect| suspect.contains(&refused.source));
    let findings: Vec<Finding> =
        first.rejected.iter().map(|refused| told(refused, stands(refused), is_suspect(refused))).collect();
    let suspect = first.rejected.iter().filter(|refused| !stands(refused) && is_suspect(refused));
    let suspect = suspect.map(|refused| refused.source.clone()).collect();
    let again = if first.rejected.iter().any(stands) { extend_catalog(&base, &instead).ok() } else { None };
    let ExtendedCatalog { catalog, rejected: refused, .. } = again.unwrap_or(first);
    let good = instead.into_iter().filter(|addition| !is_refused(&refused, addition)).collect();
    Made { whole: Arc::new(catalog), good, suspect, findings }
}

/// What is said of an addition that is wrong. Of one that was so when the operator started nobody knows what it held before: releases may run by that, and
/// would lose it, so that nothing is changed.
fn told(refused: &RejectedAddition, stands: bool, is_suspect: bool) -> Finding {
    let (level, rest) = match (stands, is_suspect) {
        (true, _) => (Level::Warning, "what it held before goes on until it is corrected"),
        (false, false) => (Level::Warning, "nothing of it is used until it is corrected"),
        (false, true) => (
            Level::Error,
            "what it held before the operator started is not known, so that nothing is changed until it is corrected, or deleted",
        ),
    };
    let message = format!("{}; {rest}", refused.message.replace('\n', "; "));
    Finding { level, field: refused.source.clone(), message }
}

/// What is said where nothing is known of what is added.
fn unknown(why: &str) -> Finding {
    let message = format!(
        "the catalogue: ConfigMaps with the label {LABEL} can't be listed, so that it is not known what they add to it: {why}; nothing is changed until the operator may list and watch them"
    );
    Finding { level: Level::Error, field: "the catalogue".into(), message }
}

fn warning(field: &str, message: &str) -> Finding {
    Finding { level: Level::Warning, field: field.to_owned(), message: message.to_owned() }
}

impl Context {
    /// The catalogue as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.book.whole()
    }

    /// The catalogue for a resource in any namespace, with what `ConfigMap`s there add to it, once they were read, and what is wrong with those; nothing
    /// of it is remembered for passes.
    pub async fn catalog_for(&self, namespace: &str) -> (Arc<Catalog>, Vec<Finding>) {
        self.inputs.told_additions().await;
        let heard = self.inputs.additions(namespace).unwrap_or_default();
        self.book.with(heard, self.inputs.additions_refused().as_deref()).await
    }

    /// Takes in what `ConfigMap`s in the resource's namespace add to the catalogue; `false` while they are being read.
    pub(super) async fn extend(&self, namespace: &str, memory: &mut Memory) -> bool {
        let Some(heard) = self.inputs.additions(namespace) else { return false };
        let refused = self.inputs.additions_refused();
        self.book.doubt(refused.as_deref());
        if refused.is_some() {
            return true;
        }
        if self.book.take(heard).await {
            memory.kept.resolved = None;
            memory.kept.changes.clear();
        }
        true
    }
}

#[cfg(test)]
mod tests;
