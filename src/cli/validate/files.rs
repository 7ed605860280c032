//! Reads the documents from the files, folders and standard input that the command line names.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::input::{self, ReadError, display_name};
use osdpl_lint::validate::{self, Document, split_documents};

/// The YAML documents in all files that the command line names.
#[derive(Default)]
pub(crate) struct Inputs {
    /// All documents, in the order of the arguments.
    pub documents: Vec<Document>,
    arguments: Vec<Argument>,
}

/// An argument: a file, a folder, or standard input.
struct Argument {
    path: PathBuf,
    /// The positions of this argument's documents in [`Inputs::documents`].
    documents: Range<usize>,
    /// The files that can't be read, each with the reason and a remedy.
    unreadable: Vec<(String, String)>,
}

impl Inputs {
    /// Reads the files and folders in `paths`, and standard input for the path `-`. Records which files can't be read.
    pub(crate) fn read(paths: &[PathBuf]) -> Self {
        let mut inputs = Self::default();
        for path in paths {
            let (first, mut unreadable) = (inputs.documents.len(), Vec::new());
            if path.is_dir() {
                if let Err(why) = inputs.folder(path, &mut BTreeSet::new(), &mut unreadable) {
                    unreadable.push(why);
                }
            } else {
                match input::read(path) {
                    Ok(text) => inputs.add(path, &text, true),
                    Err(error) => unreadable.push((display_name(path), error.why)),
                }
            }
            let documents = first..inputs.documents.len();
            inputs.arguments.push(Argument { path: path.clone(), documents, unreadable });
        }
        inputs
    }

    /// Whether osdpl could read all files and folders.
    pub(crate) fn is_complete(&self) -> bool {
        self.arguments.iter().all(|argument| argument.unreadable.is_empty())
    }

    /// Returns the arguments of the command line, for the report: each with its name, its documents, and its files that
    /// can't be read.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = validate::Argument<'_>> {
        self.arguments.iter().map(|Argument { path, documents, unreadable }| {
            let documents = &self.documents[documents.clone()];
            validate::Argument { name: display_name(path), documents, is_folder: path.is_dir(), unread: unreadable }
        })
    }

    /// Adds the documents of a file. `is_named` is true if the command line names this file, and false if it names a
    /// folder that contains the file.
    fn add(&mut self, file: &Path, text: &str, is_named: bool) {
        let documents = split_documents(&display_name(file), text).into_iter();
        self.documents.extend(documents.map(|document| Document { is_named, ..document }));
    }

    /// Reads the manifests in a folder and its subfolders. Adds each manifest or subfolder that can't be read to
    /// `unreadable`, and continues.
    ///
    /// # Errors
    /// Returns an error if the folder itself can't be listed.
    #[allow(clippy::disallowed_methods, reason = "the command line reads the folders that its user names")]
    fn folder(
        &mut self,
        folder: &Path,
        visited: &mut BTreeSet<PathBuf>,
        unreadable: &mut Vec<(String, String)>,
    ) -> Result<(), (String, String)> {
        let problem = |error: &std::io::Error| (folder.display().to_string(), ReadError::new("", error).why);
        // Symbolic links may lead to a folder several times, or in a circle. So read each folder only once.
        if !visited.insert(folder.canonicalize().map_err(|error| problem(&error))?) {
            return Ok(());
        }
        let entries = std::fs::read_dir(folder).map_err(|error| problem(&error))?;
        let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(|error| problem(&error))?;
        paths.sort();
        for path in paths {
            if path.is_dir() {
                let problem = self.folder(&path, visited, unreadable).err();
                unreadable.extend(problem);
            } else if is_manifest(&path) {
                match input::read(&path) {
                    Ok(text) => self.add(&path, &text, false),
                    Err(error) => unreadable.push((path.display().to_string(), error.why)),
                }
            }
        }
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| ["yaml", "yml", "json"].contains(&end))
}
