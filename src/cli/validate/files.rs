//! The documents of files, folders and standard input.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::common;
use crate::rule::{Document, split};

/// All documents of these files and folders.
///
/// # Errors
/// When one can't be read.
pub fn documents(paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut found = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            found.extend(split("-", &common::read(path)?));
        } else {
            read(path, &mut found)?;
        }
    }
    Ok(found)
}

#[allow(clippy::disallowed_methods, reason = "the command line reads the files that its user names")]
fn read(path: &Path, found: &mut Vec<Document>) -> anyhow::Result<()> {
    let place = path.display().to_string();
    let reading = || format!("reading {place}");
    if !path.is_dir() {
        let text = std::fs::read_to_string(path).with_context(reading)?;
        found.extend(split(&place, &text));
        return Ok(());
    }
    let entries = std::fs::read_dir(path).with_context(reading)?;
    let mut below: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    below.sort();
    let is_manifest = |path: &Path| {
        path.extension().and_then(|end| end.to_str()).is_some_and(|end| ["yaml", "yml", "json"].contains(&end))
    };
    below.iter().filter(|path| path.is_dir() || is_manifest(path)).try_for_each(|path| read(path, found))
}
