//! What the file system said when something was read, to notice later whether any of it changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files and folders with their state at the time of reading. A folder's state changes with its entries.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<(PathBuf, State)>);

/// Inode, size and both times to the nanosecond; `None` when there was nothing.
type State = Option<(u64, u64, i64, i64, i64, i64)>;

impl Seen {
    /// Notes the state of `path`; to be called before it is read.
    pub fn note(&mut self, path: &Path) {
        self.0.push((path.to_owned(), state(path)));
    }

    /// Whether all of it is still as it was.
    pub fn is_current(&self) -> bool {
        self.0.iter().all(|(path, before)| before.is_some() && state(path) == *before)
    }
}

fn state(path: &Path) -> State {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()))
}
