//! Reads the files that users name on the command line, and standard input.

use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::OnceLock;

use osdpl_core::files;

/// Returns the name of a file for messages: `stdin` for standard input.
pub(crate) fn display_name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

/// Whether the cause of an error is a file or folder that osdpl can't read.
pub(crate) fn is_read_error(error: &anyhow::Error) -> bool {
    let is_catalogue_file = |error: &files::Error| matches!(error, files::Error::Read { .. });
    error.chain().any(|error| error.is::<ReadError>() || error.downcast_ref().is_some_and(is_catalogue_file))
}

/// The error for a file that can't be read; most commands then exit with code 2.
#[derive(Debug, thiserror::Error)]
#[error("reading {name}: {why}")]
pub(crate) struct ReadError {
    name: String,
    /// The reason why the file can't be read, and a remedy.
    pub why: String,
}

impl ReadError {
    pub(crate) fn new(name: impl Display, error: &std::io::Error) -> Self {
        let why = match error.kind() {
            ErrorKind::NotFound => "there is no such file; name an existing one".to_owned(),
            ErrorKind::PermissionDenied => "permission denied; get permission to read it".to_owned(),
            ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
            ErrorKind::InvalidData => "it is not UTF-8 text; save it as UTF-8".to_owned(),
            _ => format!("{error}; choose a file that osdpl can read"),
        };
        Self { name: name.to_string(), why }
    }
}

/// Reads a file, or standard input if `path` is `-`. Standard input can be read only once, so the function keeps its
/// text in memory for later calls.
#[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
pub(crate) fn read(path: &Path) -> Result<String, ReadError> {
    static STDIN: OnceLock<String> = OnceLock::new();
    if path != Path::new("-") {
        return std::fs::read_to_string(path).map_err(|error| ReadError::new(path.display(), &error));
    }
    if let Some(text) = STDIN.get() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| ReadError::new("standard input", &error))?;
    Ok(STDIN.get_or_init(|| text).clone())
}
