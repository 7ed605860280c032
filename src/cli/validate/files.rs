//! The documents of files, folders and standard input.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::common::{self, Unread, called};
use osdpl_lint::rule::{Document, Named, split};

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
    /// What of it can't be read, each with why and what to do.
    unread: Vec<(String, String)>,
}

impl Found {
    /// Reads files, folders, and standard input for `-`; what can't be read is told with everything else.
    pub fn read(paths: &[PathBuf]) -> Self {
        let mut found = Self::default();
        for path in paths {
            let (before, mut unread) = (found.documents.len(), Vec::new());
            if path.is_dir() {
                if let Err(why) = found.folder(path, &mut BTreeSet::new(), &mut unread) {
                    unread.push(why);
                }
            } else {
                match common::read(path) {
                    Ok(text) => found.add(path, text, true),
                    Err(error) => unread.push((called(path), error.why)),
                }
            }
            let documents = before..found.documents.len();
            found.places.push(Place { path: path.clone(), documents, unread });
        }
        found
    }

    /// Whether everything that was named could be read.
    pub fn is_whole(&self) -> bool {
        self.places.iter().all(|place| place.unread.is_empty())
    }

    /// What was named, as the report takes it.
    pub fn named(&self) -> impl Iterator<Item = Named<'_>> {
        self.places.iter().map(|Place { path, documents, unread }| {
            let documents = &self.documents[documents.clone()];
            Named { place: called(path), documents, is_folder: path.is_dir(), unread }
        })
    }

    fn add(&mut self, file: &Path, text: String, is_named: bool) {
        let name = called(file);
        self.documents.extend(split(&name, &text).into_iter().map(|document| Document { is_named, ..document }));
        self.texts.push((name, text));
    }

    /// # Errors
    /// With the folder, where it can't be listed; of one below it only that is told.
    #[allow(clippy::disallowed_methods, reason = "the command line reads the folders that its user names")]
    fn folder(
        &mut self,
        folder: &Path,
        seen: &mut BTreeSet<PathBuf>,
        unread: &mut Vec<(String, String)>,
    ) -> Result<(), (String, String)> {
        let problem = |error: &std::io::Error| (folder.display().to_string(), Unread::new("", error).why);
        // Links may lead to one folder by many ways, or in a circle.
        if !seen.insert(folder.canonicalize().map_err(|error| problem(&error))?) {
            return Ok(());
        }
        let entries = std::fs::read_dir(folder).map_err(|error| problem(&error))?;
        let below: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut below = below.map_err(|error| problem(&error))?;
        below.sort();
        for path in below {
            if path.is_dir() {
                let problem = self.folder(&path, seen, unread).err();
                unread.extend(problem);
            } else if is_manifest(&path) {
                match common::read(&path) {
                    Ok(text) => self.add(&path, text, false),
                    Err(error) => unread.push((path.display().to_string(), error.why)),
                }
            }
        }
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| ["yaml", "yml", "json"].contains(&end))
}
