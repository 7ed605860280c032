//! The documents of files, folders and standard input.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::common;
use crate::rule::{Document, Named, split};

/// Everything that was named.
#[derive(Default)]
pub struct Found {
    /// All documents, in the order in which they were named.
    pub documents: Vec<Document>,
    /// The text of each file, by its name.
    pub texts: Vec<(String, String)>,
    places: Vec<Place>,
}

/// A file, a folder, or standard input.
struct Place {
    path: PathBuf,
    /// Which of the documents are its own.
    documents: Range<usize>,
    /// Files of a folder that can't be read, each with why.
    unread: Vec<(String, String)>,
}

impl Found {
    /// Reads files, folders, and standard input for `-`.
    ///
    /// # Errors
    /// When one can't be read; a folder where it can't be listed.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for path in paths {
            let (before, mut unread) = (found.documents.len(), Vec::new());
            if path.is_dir() {
                found.folder(path, &mut BTreeSet::new(), &mut unread)?;
            } else {
                found.add(path, common::read(path)?, true);
            }
            let documents = before..found.documents.len();
            found.places.push(Place { path: path.clone(), documents, unread });
        }
        Ok(found)
    }

    /// What was named, as the report takes it.
    pub fn named(&self) -> impl Iterator<Item = Named<'_>> {
        self.places.iter().map(|Place { path, documents, unread }| {
            let documents = &self.documents[documents.clone()];
            Named { place: path.display().to_string(), documents, is_folder: path.is_dir(), unread }
        })
    }

    fn add(&mut self, file: &Path, text: String, is_named: bool) {
        let name = file.display().to_string();
        self.documents.extend(split(&name, &text).into_iter().map(|document| Document { is_named, ..document }));
        self.texts.push((name, text));
    }

    #[allow(clippy::disallowed_methods, reason = "the command line reads the folders that its user names")]
    fn folder(
        &mut self,
        folder: &Path,
        seen: &mut BTreeSet<PathBuf>,
        unread: &mut Vec<(String, String)>,
    ) -> anyhow::Result<()> {
        let reading = || format!("reading {}", folder.display());
        // Links may lead to one folder by many ways, or in a circle.
        if !seen.insert(folder.canonicalize().with_context(reading)?) {
            return Ok(());
        }
        let entries = std::fs::read_dir(folder).with_context(reading)?;
        let below: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut below = below.with_context(reading)?;
        below.sort();
        for path in below {
            if path.is_dir() {
                self.folder(&path, seen, unread)?;
            } else if is_manifest(&path) {
                match std::fs::read_to_string(&path) {
                    Ok(text) => self.add(&path, text, false),
                    Err(error) => unread.push((path.display().to_string(), common::unread(error).to_string())),
                }
            }
        }
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| ["yaml", "yml", "json"].contains(&end))
}
