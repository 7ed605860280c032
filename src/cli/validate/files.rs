//! Reads the documents of files, folders and standard input.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::common::{self, ReadError, display_name};
use osdpl_lint::validate::{self, Document, split_documents};

/// The documents of all arguments.
#[derive(Default)]
pub struct Found {
    /// All documents, in the order of the arguments.
    pub documents: Vec<Document>,
    /// The text of each file by name.
    pub texts: Vec<(String, String)>,
    arguments: Vec<Argument>,
}

/// A file, a folder, or standard input.
struct Argument {
    path: PathBuf,
    /// The range of its documents.
    documents: Range<usize>,
    /// The files that can't be read, each with the reason and what to do.
    unread: Vec<(String, String)>,
}

impl Found {
    /// Reads files, folders, and standard input for `-`; unreadable files are reported with the findings.
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
                    Err(error) => unread.push((display_name(path), error.why)),
                }
            }
            let documents = before..found.documents.len();
            found.arguments.push(Argument { path: path.clone(), documents, unread });
        }
        found
    }

    /// Whether everything could be read.
    pub fn is_whole(&self) -> bool {
        self.arguments.iter().all(|place| place.unread.is_empty())
    }

    /// Returns the arguments in the form of the report.
    pub fn named(&self) -> impl Iterator<Item = validate::Argument<'_>> {
        self.arguments.iter().map(|Argument { path, documents, unread }| {
            let documents = &self.documents[documents.clone()];
            validate::Argument { name: display_name(path), documents, is_folder: path.is_dir(), unread }
        })
    }

    fn add(&mut self, file: &Path, text: String, is_named: bool) {
        let name = display_name(file);
        self.documents
            .extend(split_documents(&name, &text).into_iter().map(|document| Document { is_named, ..document }));
        self.texts.push((name, text));
    }

    /// # Errors
    /// If the folder can't be listed; problems of its subfolders are collected.
    #[allow(clippy::disallowed_methods, reason = "the command line reads the folders that its user names")]
    fn folder(
        &mut self,
        folder: &Path,
        seen: &mut BTreeSet<PathBuf>,
        unread: &mut Vec<(String, String)>,
    ) -> Result<(), (String, String)> {
        let problem = |error: &std::io::Error| (folder.display().to_string(), ReadError::new("", error).why);
        // Links may lead to a folder more than once, or form a cycle.
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
