//! Records the states of the files that the store has read, so that the store detects when a file changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The recorded files and folders, each with its state at the time of reading. The state of a folder changes when
/// someone adds or removes an entry of the folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileStates(Vec<(PathBuf, State)>);

/// The state of a file or folder: the inode, the size, and the times of the last change of content and of metadata, to
/// the nanosecond; `None` if the path does not exist or cannot be read.
type State = Option<(u64, u64, i64, i64, i64, i64)>;

impl FileStates {
    /// Records the state of the file or folder at `path`. Call this function before you read the file, so that osdpl
    /// also detects a change during the read.
    pub(crate) fn record(&mut self, path: &Path) {
        self.0.push((path.to_owned(), state(path)));
    }

    /// Whether all recorded files and folders exist and still have the recorded states.
    pub(crate) fn is_current(&self) -> bool {
        self.0.iter().all(|(path, before)| before.is_some() && state(path) == *before)
    }
}

fn state(path: &Path) -> State {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()))
}
