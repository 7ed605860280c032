//! The catalogue's files: built into the program, or read from a folder. Shell room: the loader of `catalog`.

use std::path::Path;

use crate::catalog::{Catalog, Errors, Files, Text};

/// Path, text, and the same as JSON: what `src/files/compile.rs` has made of the catalogue before this was built.
static BUILT_IN: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// Why a catalogue can't be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder or file can't be read.
    #[error("{path}: {error}; name a folder with values/ and presets/ in it")]
    Read {
        /// The folder or file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// The files are wrong.
    #[error("{0}")]
    Catalog(#[from] Errors),
}

/// The catalogue in `folder` (which holds `values/` and `presets/`), or the one built in.
///
/// # Errors
/// When a file can't be read, or anything in the files is wrong.
pub fn catalog(folder: Option<&Path>) -> Result<Catalog, Error> {
    Ok(Catalog::load(&texts(folder)?)?)
}

/// The files of the catalogue in `folder`, or of the one built in, as they are.
///
/// # Errors
/// When a file can't be read.
pub fn texts(folder: Option<&Path>) -> Result<Files, Error> {
    let Some(folder) = folder else { return Ok(built_in()) };
    let mut files = Files::new();
    read(folder, "values", &mut files)?;
    read(folder, "presets", &mut files)?;
    Ok(files)
}

/// The files that are built into the program.
pub fn built_in() -> Files {
    BUILT_IN.iter().map(|&(path, text, json)| (path.to_owned(), Text::BuiltIn { text, json })).collect()
}

#[allow(clippy::disallowed_methods, reason = "the loader is the gate to the catalogue's files")]
fn read(root: &Path, below: &str, files: &mut Files) -> Result<(), Error> {
    let failed = |path: &Path, error| Error::Read { path: path.display().to_string(), error };
    let folder = root.join(below);
    for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
        let path = entry.map_err(|error| failed(&folder, error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{below}/{name}");
        if path.is_dir() {
            read(root, &name, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            files.insert(name, text.into());
        }
    }
    Ok(())
}
