//! The catalogue that passes go by: the operator's own, with what `ConfigMap`s beside the resource add to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Context;
use super::memory::Memory;
use crate::catalog::{Addition, Catalog, Extended, Level, Refused, extend};
use crate::desired::Finding;
use crate::files;

/// The catalogue, its own part and the whole.
pub struct Book {
    /// Where the operator's own part is; built in where `None`.
    folder: Option<PathBuf>,
    own: Arc<Catalog>,
    now: Mutex<Now>,
    whole: watch::Sender<Arc<Catalog>>,
}

#[derive(Default)]
struct Now {
    /// What it was made from.
    heard: Vec<Addition>,
    /// What of that was right when it was last told: it goes on where a later edit is wrong.
    good: Vec<Addition>,
    findings: Vec<Finding>,
}

impl Book {
    /// The operator's own catalogue, and the folder that it was read from.
    pub fn new(own: Catalog, folder: Option<PathBuf>) -> Self {
        let own = Arc::new(own);
        let whole = watch::Sender::new(Arc::clone(&own));
        Self { folder, own, now: Mutex::default(), whole }
    }

    /// The whole, as it is now.
    pub fn whole(&self) -> Arc<Catalog> {
        Arc::clone(&self.whole.borrow())
    }

    /// The whole, always as it is by then.
    pub fn follow(&self) -> watch::Receiver<Arc<Catalog>> {
        self.whole.subscribe()
    }

    /// What is wrong with what was added.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.now().findings.clone()
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what is added by now; returns whether that was news.
    async fn take(&self, heard: Vec<Addition>) -> bool {
        let good = {
            let now = self.now();
            if now.heard == heard {
                return false;
            }
            now.good.clone()
        };
        let (folder, own, told) = (self.folder.clone(), Arc::clone(&self.own), heard.clone());
        // Reading a whole catalogue takes a while: not on the thread that others wait for.
        let made = tokio::task::spawn_blocking(move || made(folder.as_deref(), &own, &told, &good)).await;
        let (whole, good, findings) = made.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
        for finding in &findings {
            tracing::warn!(%finding, "what is added to the catalogue is not taken");
        }
        tracing::info!(files = whole.added.len(), "the catalogue was read again");
        *self.now() = Now { heard, good, findings };
        self.whole.send_replace(whole);
        true
    }
}

/// The whole of it. Where an addition is wrong what was right of it before is taken.
fn made(
    folder: Option<&Path>,
    own: &Arc<Catalog>,
    heard: &[Addition],
    good: &[Addition],
) -> (Arc<Catalog>, Vec<Addition>, Vec<Finding>) {
    if heard.is_empty() {
        return (Arc::clone(own), Vec::new(), Vec::new());
    }
    let base = match files::texts(folder) {
        Ok(base) => base,
        Err(error) => return (Arc::clone(own), Vec::new(), vec![warning("the catalogue", &error.to_string())]),
    };
    let first = match extend(&base, heard) {
        Ok(first) => first,
        Err(errors) => return (Arc::clone(own), Vec::new(), vec![warning("the catalogue", &errors.to_string())]),
    };
    let is_refused = |refused: &[Refused], addition: &Addition| refused.iter().any(|one| one.source == addition.source);
    let before = |addition: &Addition| good.iter().find(|known| known.source == addition.source);
    let instead = heard.iter().filter_map(|addition| {
        if is_refused(&first.refused, addition) { before(addition).cloned() } else { Some(addition.clone()) }
    });
    let instead: Vec<Addition> = instead.collect();
    let findings = first.refused.iter().map(|refused| {
        let stands = good.iter().any(|known| known.source == refused.source);
        let rest = if stands {
            "what it held before goes on until it is corrected"
        } else {
            "nothing of it is used until it is corrected"
        };
        warning(&refused.source, &format!("{}; {rest}", refused.message.replace('\n', "; ")))
    });
    let findings: Vec<Finding> = findings.collect();
    let again = if first.refused.iter().any(|refused| good.iter().any(|known| known.source == refused.source)) {
        extend(&base, &instead).ok()
    } else {
        None
    };
    let Extended { catalog, refused, .. } = again.unwrap_or(first);
    let good = instead.into_iter().filter(|addition| !is_refused(&refused, addition)).collect();
    (Arc::new(catalog), good, findings)
}

fn warning(field: &str, message: &str) -> Finding {
    Finding { level: Level::Warning, field: field.to_owned(), message: message.to_owned() }
}

impl Context {
    /// The catalogue as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.book.whole()
    }

    /// Takes in what `ConfigMap`s in the resource's namespace add to the catalogue; `false` while they are being read.
    pub(super) async fn extend(&self, namespace: &str, memory: &mut Memory) -> bool {
        let Some(heard) = self.inputs.additions(namespace) else { return false };
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
}
