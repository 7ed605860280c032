//! Loads the files of the catalogue: the built-in files of the binary, or the files of a folder.
//!
//! This is the only module of the crate with I/O.

use std::path::Path;

use osdpl_values::CollectSorted;

use crate::catalog::{Catalog, Errors, Files, Text};

/// A built-in file: its path, its compressed text and, if the file is YAML, its content as compressed JSON
/// ([`Text::BuiltIn`]).
type BuiltIn = (&'static str, &'static [u8], Option<&'static [u8]>);

/// The files of the built-in catalogue, which are part of the program.
///
/// The build script `src/core/build.rs` generates this table from the folders `values/` and `presets/`.
#[allow(clippy::unreadable_literal, reason = "the build script writes the numbers")]
static BUILT_IN: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// The compressed texts that the operator reads when it loads the catalogue, or when it installs releases.
static OFTEN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/often.deflate"));

/// The compressed texts that are not in [`OFTEN`]: the YAML as written, and the options of services.
static RARELY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rarely.deflate"));

const fn part(bytes: &'static [u8], start: usize, length: usize) -> &'static [u8] {
    bytes.split_at(start).1.split_at(length).0
}

/// The reason why osdpl can't load a catalogue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// osdpl can't read a folder or file of the catalogue.
    #[error(
        "osdpl cannot read the catalogue at {path}: {error}; make it readable, or name a folder with values/ and presets/"
    )]
    Read {
        /// The path of the folder or file that osdpl can't read.
        path: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The content of the catalogue's files has errors.
    #[error("{0}")]
    Catalog(#[from] Errors),
}

/// Loads the catalogue from `folder`, or the built-in catalogue if `folder` is `None`.
///
/// `folder` must contain the folders `values/` and `presets/`.
///
/// # Errors
/// Returns an error if osdpl can't read a folder or file, or if the content of the files has errors.
pub fn load_catalog(folder: Option<&Path>) -> Result<Catalog, Error> {
    Ok(Catalog::load(&read_files(folder)?)?)
}

/// Returns the files of the catalogue in `folder`, or of the built-in catalogue if `folder` is `None`. Does not parse
/// the files.
///
/// # Errors
/// Returns an error if osdpl can't read a folder or file.
pub fn read_files(folder: Option<&Path>) -> Result<Files, Error> {
    let Some(folder) = folder else { return Ok(built_in()) };
    let mut files = Files::new();
    read(folder, "values", &mut files)?;
    read(folder, "presets", &mut files)?;
    Ok(files)
}

/// Returns the files of the built-in catalogue without parsing them.
pub fn built_in() -> Files {
    let text =
        |&(path, deflated, deflated_json): &BuiltIn| (path.to_owned(), Text::BuiltIn { deflated, deflated_json });
    BUILT_IN.iter().map(text).collect_map()
}

#[allow(clippy::disallowed_methods, reason = "reading the catalogue's files is the only I/O of this crate")]
fn read(root: &Path, folder_name: &str, files: &mut Files) -> Result<(), Error> {
    let read_error = |path: &Path, error| Error::Read { path: path.display().to_string(), error };
    let folder = root.join(folder_name);
    for entry in std::fs::read_dir(&folder).map_err(|error| read_error(&folder, error))? {
        let path = entry.map_err(|error| read_error(&folder, error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{folder_name}/{name}");
        if path.is_dir() {
            read(root, &name, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            let text = std::fs::read_to_string(&path).map_err(|error| read_error(&path, error))?;
            files.insert(name, text.into());
        }
    }
    Ok(())
}
