//! The catalogue that passes go by: the operator's own, with what `ConfigMap`s beside the resource add to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Context;
use super::memory::Memory;
use crate::catalog::{Addition, Catalog, Extended, LABEL, Level, Refused, extend};
use crate::desired::Finding;
use crate::files;

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

/// Additions, and the catalogue with them.
type Aside = (Vec<Addition>, Arc<Catalog>);

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
        let unknown = |why| Finding {
            level: Level::Error,
            field: "the catalogue".into(),
            message: format!(
                "the catalogue: ConfigMaps with the label {LABEL} can't be listed, so that it is not known what they add to it: {why}; nothing is changed until the operator may list and watch them"
            ),
        };
        self.now().unknown = why.map(unknown);
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The whole with these additions, beside what passes go by.
    async fn with(&self, heard: Vec<Addition>) -> Arc<Catalog> {
        if self.now().heard.as_ref() == Some(&heard) {
            return self.whole();
        }
        if let Some((_, catalog)) = self.aside().as_ref().filter(|(known, _)| *known == heard) {
            return Arc::clone(catalog);
        }
        let (folder, own, told) = (self.folder.clone(), Arc::clone(&self.own), heard.clone());
        let made = tokio::task::spawn_blocking(move || {
            made(folder.as_deref(), &own, &Heard { all: &told, good: &[], suspect: None })
        });
        let whole = made.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic())).whole;
        *self.aside() = Some((heard, Arc::clone(&whole)));
        whole
    }

    fn aside(&self) -> std::sync::MutexGuard<'_, Option<Aside>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what is added by now; returns whether that was news.
    async fn take(&self, heard: Vec<Addition>) -> bool {
        let (good, suspect) = {
            let mut now = self.now();
            if now.heard.as_ref().map_or(heard.is_empty(), |known| *known == heard) {
                now.heard = Some(heard);
                return false;
            }
            let is_first = now.heard.is_none();
            (now.good.clone(), (!is_first).then(|| now.suspect.clone()))
        };
        let (folder, own, told) = (self.folder.clone(), Arc::clone(&self.own), heard.clone());
        // Reading a whole catalogue takes a while: not on the thread that others wait for.
        let made = tokio::task::spawn_blocking(move || {
            made(folder.as_deref(), &own, &Heard { all: &told, good: &good, suspect: suspect.as_ref() })
        });
        let Made { whole, good, suspect, findings } =
            made.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
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
    let base = match files::texts(folder) {
        Ok(base) => base,
        Err(error) => return alone(vec![warning("the catalogue", &error.to_string())]),
    };
    let first = match extend(&base, heard.all) {
        Ok(first) => first,
        Err(errors) => return alone(vec![warning("the catalogue", &errors.to_string())]),
    };
    let is_refused = |refused: &[Refused], addition: &Addition| refused.iter().any(|one| one.source == addition.source);
    let before = |addition: &Addition| heard.good.iter().find(|known| known.source == addition.source);
    let instead = heard.all.iter().filter_map(|addition| {
        if is_refused(&first.refused, addition) { before(addition).cloned() } else { Some(addition.clone()) }
    });
    let instead: Vec<Addition> = instead.collect();
    let stands = |refused: &Refused| heard.good.iter().any(|known| known.source == refused.source);
    let is_suspect = |refused: &Refused| heard.suspect.is_none_or(|suspect| suspect.contains(&refused.source));
    let findings: Vec<Finding> =
        first.refused.iter().map(|refused| told(refused, stands(refused), is_suspect(refused))).collect();
    let suspect = first.refused.iter().filter(|refused| !stands(refused) && is_suspect(refused));
    let suspect = suspect.map(|refused| refused.source.clone()).collect();
    let again = if first.refused.iter().any(stands) { extend(&base, &instead).ok() } else { None };
    let Extended { catalog, refused, .. } = again.unwrap_or(first);
    let good = instead.into_iter().filter(|addition| !is_refused(&refused, addition)).collect();
    Made { whole: Arc::new(catalog), good, suspect, findings }
}

/// What is said of an addition that is wrong. Of one that was so when the operator started nobody knows what it held before: releases may run by that, and
/// would lose it, so that nothing is changed.
fn told(refused: &Refused, stands: bool, is_suspect: bool) -> Finding {
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

fn warning(field: &str, message: &str) -> Finding {
    Finding { level: Level::Warning, field: field.to_owned(), message: message.to_owned() }
}

impl Context {
    /// The catalogue as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.book.whole()
    }

    /// The catalogue for a resource in any namespace, with what `ConfigMap`s there add to it, once they were read; nothing of it is remembered for passes.
    pub async fn catalog_for(&self, namespace: &str) -> Arc<Catalog> {
        self.inputs.told_additions().await;
        let heard = self.inputs.additions(namespace).unwrap_or_default();
        self.book.with(heard).await
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
            memory.resolved = None;
            memory.changes.clear();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addition(name: &str, preset: &str) -> Addition {
        let data = [(format!("presets.{name}.yaml"), preset.to_owned())].into();
        Addition { source: format!("ConfigMap openstack/{name}"), data }
    }

    fn book() -> Book {
        Book::new(files::catalog(None).unwrap(), None)
    }

    #[tokio::test]
    async fn what_was_right_goes_on_where_an_edit_is_wrong_and_goes_with_its_config_map() {
        let book = book();
        let edge = addition("edge", "preset: edge\ndescription: First.\nservices: [keystone]\n");
        assert!(book.take(vec![edge.clone()]).await);
        assert!(!book.take(vec![edge]).await, "nothing is read again where nothing has changed");
        let whole = book.whole();
        assert_eq!(whole.presets["edge"].description, "First.");
        let wrong = addition("edge", "preset: edge\ndescription: Second.\nservices: [keystne]\n");
        let other = addition("other", "preset: other\ndescription: Another.\n");
        assert!(book.take(vec![wrong.clone(), other]).await);
        assert_eq!(book.whole().presets["edge"].description, "First.");
        assert!(book.whole().presets.contains_key("other"), "others are not held up");
        let told = book.findings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.starts_with("ConfigMap openstack/edge: key \"presets.edge.yaml\": services: there is no service \"keystne\", did you mean \"keystone\"?"), "{told}");
        assert!(told.ends_with("; what it held before goes on until it is corrected"), "{told}");
        assert!(book.take(vec![wrong.clone()]).await);
        assert_eq!(book.whole().presets["edge"].description, "First.", "as long as it is wrong");
        assert!(book.take(Vec::new()).await);
        assert!(!book.whole().presets.contains_key("edge") && book.findings().is_empty());
        assert!(book.take(vec![wrong]).await);
        let told = book.findings()[0].to_string();
        assert!(told.ends_with("; nothing of it is used until it is corrected"), "{told}");
    }

    #[tokio::test]
    async fn what_is_wrong_when_the_operator_starts_has_nothing_changed_until_it_is_corrected() {
        let book = book();
        let wrong = addition("edge", "preset: edge\ndescription: First.\nservices: [keystne]\n");
        assert!(book.take(vec![wrong.clone()]).await);
        let told =
            |book: &Book| book.findings().iter().map(|found| (found.level, found.message.clone())).collect::<Vec<_>>();
        let said = told(&book);
        assert_eq!(said[0].0, Level::Error, "{said:?}");
        assert!(said[0].1.ends_with("so that nothing is changed until it is corrected, or deleted"), "{said:?}");
        let other = addition("other", "preset: other\ndescription: Another.\n");
        assert!(book.take(vec![wrong, other]).await);
        assert_eq!(told(&book)[0].0, Level::Error, "what else is added makes it no better");
        assert!(book.take(vec![addition("edge", "preset: edge\ndescription: Right.\n")]).await);
        assert_eq!(told(&book), []);
    }

    #[tokio::test]
    async fn where_it_is_not_known_what_is_added_nothing_is_changed_and_the_first_word_is_still_the_first() {
        let book = book();
        book.doubt(Some("configmaps is forbidden"));
        let said = book.findings().pop().unwrap();
        assert!(said.level == Level::Error && said.message.contains("forbidden; nothing is changed"), "{said}");
        book.doubt(None);
        book.take(vec![addition("edge", "preset: edge\ndescription: First.\nservices: [keystne]\n")]).await;
        assert_eq!(book.findings()[0].level, Level::Error, "what it held before is not known");
    }

    #[tokio::test]
    async fn a_resource_in_another_namespace_is_judged_by_what_is_added_there() {
        let book = book();
        assert!(!book.take(Vec::new()).await, "nothing is no news");
        let edge = addition("edge", "preset: edge\ndescription: First.\n");
        assert!(book.with(vec![edge.clone()]).await.presets.contains_key("edge"));
        assert!(!book.whole().presets.contains_key("edge"), "passes go by their own");
        let (once, again) = (book.with(vec![edge.clone()]).await, book.with(vec![edge]).await);
        assert!(Arc::ptr_eq(&once, &again), "it is not read again for each question");
    }
}
